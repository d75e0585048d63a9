package cmdutil

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/internal/oci"
	"github.com/kilnvm/kiln/internal/workbench/crdschema"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Load reads the files if the user named any, and otherwise the objects of the cluster that args name as vm/NAME. Objects of files without a namespace get
// the namespace of the kubeconfig, as in kubectl, without a request to the cluster.
func (o *Session) Load(files manifest.Files, args []string) (manifest.Inputs, error) {
	switch {
	case files.Named() && len(args) > 0:
		return manifest.Inputs{}, fmt.Errorf("give either files with -f and -k, or names, not both")
	case files.Named():
		if namespace, _, err := o.Cluster.ToRawKubeConfigLoader().Namespace(); err == nil {
			files.Namespace = namespace
		}
		return manifest.Load(files)
	case len(args) > 0:
		return o.fromCluster(args)
	}
	return manifest.Inputs{}, fmt.Errorf("name a file with -f, or a VM of the cluster as vm/NAME")
}

// fromCluster reads the objects that are named as vm/NAME. It uses kubectl's builder, so that names, short names and errors are the same as in kubectl.
// Objects to which they refer are read later. It fails if one of the objects does not exist.
func (o *Session) fromCluster(args []string) (manifest.Inputs, error) {
	for _, arg := range args {
		if err := namesObject(arg); err != nil {
			return manifest.Inputs{}, err
		}
	}
	namespace, _, err := o.Cluster.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return manifest.Inputs{}, err
	}
	infos, err := resource.NewBuilder(o.Cluster).Unstructured().NamespaceParam(namespace).DefaultNamespace().
		ResourceTypeOrNameArgs(true, args...).Flatten().Do().Infos()
	if err != nil {
		return manifest.Inputs{}, err
	}
	reader, err := o.Client()
	if err != nil {
		return manifest.Inputs{}, err
	}
	found := manifest.Inputs{Reader: reader, OfCluster: true}
	for _, info := range infos {
		if untyped, ok := info.Object.(*unstructured.Unstructured); ok {
			stored := manifest.Stored(untyped)
			if err := stored.WarnOfNewerFields(); err != nil {
				return manifest.Inputs{}, err
			}
			found.Named = append(found.Named, stored)
		}
	}
	return found, nil
}

// impersonatedUser returns the account of --as, --as-group and --as-uid, for policies that read request.userInfo. Without these flags it has no name, because
// it is not known who will create the objects of a file.
func (o *Session) impersonatedUser() (by authenticationv1.UserInfo) {
	if flags := o.Cluster; flags.Impersonate != nil {
		by.Username = *flags.Impersonate
	}
	if flags := o.Cluster; flags.ImpersonateUID != nil {
		by.UID = *flags.ImpersonateUID
	}
	if flags := o.Cluster; flags.ImpersonateGroup != nil {
		by.Groups = *flags.ImpersonateGroup
	}
	return by
}

// Client returns a client of the current cluster. It has no cache, because a command reads few objects, each once.
func (o *Session) Client() (client.Client, error) {
	access, err := o.Cluster.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	return clientOf(access)
}

// WarningClient returns a client that prints the warnings of the API server and of admission, as kubectl does. By default,
// controller-runtime's client logs them, and a command has no log.
func (o *Session) WarningClient() (client.Client, error) {
	access, err := o.Cluster.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	access.WarningHandler = rest.NewWarningWriter(o.ErrOut, rest.WarningWriterOptions{Deduplicate: true})
	return clientOf(access)
}

// clientOf returns a client that knows the Go types of Kubernetes, KubeVirt and Kiln.
func clientOf(access *rest.Config) (client.Client, error) {
	known, err := crdschema.Scheme()
	if err != nil {
		return nil, err
	}
	access.QPS = -1 // a catalog of 10,000 objects takes 20,000 requests: the API server's priority and fairness limits them, not client-go's 5 a second
	return client.New(access, client.Options{Scheme: known})
}

// namesObject refuses an argument that is not KIND/NAME. kubectl would interpret
// 'web' as a kind, and a kind without a name as all its objects.
// A path with a slash is a file only if it has the extension of a manifest: a file web in a folder vm must not hide vm/web of the cluster.
func namesObject(arg string) error {
	kind, name, slash := strings.Cut(arg, "/")
	_, err := os.Stat(arg)
	switch {
	case err == nil && (!slash || slices.Contains(resource.FileExtensions, filepath.Ext(arg))):
		return fmt.Errorf("'%s' is a file or directory: give it with -f", arg)
	case !slash:
		return fmt.Errorf("'%s' does not name an object of a cluster: write vm/%s", arg, arg)
	case kind == "" || name == "":
		return fmt.Errorf("'%s' does not name an object of a cluster: write vm/%s", arg, cmp.Or(name, "NAME"))
	}
	return nil
}

// WrapConnectionErrors wraps all commands and their subcommands. If no cluster answers, they return one line that says what to do, instead of client-go's
// error. Commands that are added later, such as version, options and completion, do not connect to a cluster.
func (o *Session) WrapConnectionErrors(commands []*cobra.Command) {
	for _, command := range commands {
		o.WrapConnectionErrors(command.Commands())
		run := command.RunE
		if run == nil {
			continue
		}
		command.RunE = func(cmd *cobra.Command, args []string) error { return o.explainUnreachable(cmd, run(cmd, args)) }
	}
}

// explainUnreachable adds to an error of the connection what the user can do, and removes the path of the URL. It returns any other error unchanged. An error
// with the operation 'parse' is about a URL that the user wrote.
func (o *Session) explainUnreachable(cmd *cobra.Command, err error) error {
	var failed *url.Error
	var registry *oci.Error // no flag of a cluster helps with a registry
	if !errors.As(err, &failed) || failed.Op == "parse" || errors.As(err, &registry) {
		return err
	}
	remedy := "use --kubeconfig or --context"
	if cmd.Flags().Lookup("filename") != nil {
		remedy += ", or files with -f"
	}
	// With --server, no kubeconfig is needed.
	config, invalid := o.Cluster.ToRawKubeConfigLoader().RawConfig()
	if invalid == nil && len(config.Clusters) == 0 && (o.Cluster.APIServer == nil || *o.Cluster.APIServer == "") {
		return fmt.Errorf("no cluster is known, since there is no kubeconfig: %s", remedy)
	}
	server := failed.URL
	if at, err := url.Parse(failed.URL); err == nil {
		server = at.Scheme + "://" + at.Host
	}
	return fmt.Errorf("no cluster answers at %s (%w): %s", server, failed.Err, remedy)
}
