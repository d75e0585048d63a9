package cmdutil

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/internal/workbench/manifest"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Session is one run of the plugin: its streams, the cluster, and kustomize. All commands share it.
type Session struct {
	genericiooptions.IOStreams
	Cluster Cluster
	// BuildKustomization returns the YAML documents of a directory that -k names.
	BuildKustomization func(directory string) ([]byte, error)
}

// Cluster is the cluster that the user means. Package kubectl finds it by kubectl's flags and kubeconfig. It is an interface, because the page on which readers
// try manifests has no cluster: its program links no client of one.
type Cluster interface {
	// Namespace returns the namespace of the flags, otherwise of the kubeconfig, without a request to the cluster.
	Namespace() (string, error)
	// NamespaceFlag returns the value of --namespace; empty without the flag.
	NamespaceFlag() string
	// User returns the account of --as, --as-group and --as-uid. Without these flags it has no name, because it is not known who will create the objects of a
	// file.
	User() authenticationv1.UserInfo
	// RESTConfig returns the configuration of a connection.
	RESTConfig() (*rest.Config, error)
	// Client returns a client without a cache. If warnings is not nil, it writes the warnings of the API server there.
	Client(warnings io.Writer) (client.Client, error)
	// Objects reads the objects that are named as KIND/NAME. It fails if one of them does not exist.
	Objects(names []string) ([]*unstructured.Unstructured, error)
}

// Client returns a client of the current cluster. It has no cache, because a command reads few objects, each once.
func (o *Session) Client() (client.Client, error) { return o.Cluster.Client(nil) }

// ScopedClient returns a client of the current cluster, and the namespace that a command lists: the current one, or an empty text for all of -A.
func (o *Session) ScopedClient(everywhere bool) (cluster client.Client, namespace string, err error) {
	if namespace, err = o.Cluster.Namespace(); err != nil {
		return nil, "", err
	}
	if everywhere {
		namespace = ""
	}
	cluster, err = o.Client()
	return cluster, namespace, err
}

// WarningClient returns a client that prints the warnings of the API server and of admission, as kubectl does. By default,
// controller-runtime's client logs them, and a command has no log.
func (o *Session) WarningClient() (client.Client, error) { return o.Cluster.Client(o.ErrOut) }

// Load reads the files if the user named any, and otherwise the objects of the cluster that args name as vm/NAME. Objects of files without a namespace get
// the namespace of the kubeconfig, as in kubectl, without a request to the cluster.
func (o *Session) Load(files manifest.Files, args []string) (manifest.Inputs, error) {
	switch {
	case files.Named() && len(args) > 0:
		return manifest.Inputs{}, fmt.Errorf("give either files with -f and -k, or names, not both")
	case files.Named():
		if namespace, err := o.Cluster.Namespace(); err == nil {
			files.Namespace = namespace
		}
		return manifest.Load(files)
	case len(args) > 0:
		return o.fromCluster(args)
	}
	return manifest.Inputs{}, fmt.Errorf("name a file with -f, or a VM of the cluster as vm/NAME")
}

// fromCluster reads the objects that are named as vm/NAME. Objects to which they refer are read later.
func (o *Session) fromCluster(args []string) (manifest.Inputs, error) {
	for _, arg := range args {
		if err := namesObject(arg); err != nil {
			return manifest.Inputs{}, err
		}
	}
	named, err := o.Cluster.Objects(args)
	if err != nil {
		return manifest.Inputs{}, err
	}
	reader, err := o.Client()
	if err != nil {
		return manifest.Inputs{}, err
	}
	found := manifest.Inputs{Reader: reader, OfCluster: true}
	for _, untyped := range named {
		stored := manifest.Stored(untyped)
		if err := stored.WarnOfNewerFields(); err != nil {
			return manifest.Inputs{}, err
		}
		found.Named = append(found.Named, stored)
	}
	return found, nil
}

// namesObject refuses an argument that is not KIND/NAME. kubectl would interpret
// 'web' as a kind, and a kind without a name as all its objects.
// A path with a slash is a file only if it has the extension of a manifest: a file web in a folder vm must not hide vm/web of the cluster.
func namesObject(arg string) error {
	kind, name, slash := strings.Cut(arg, "/")
	_, err := os.Stat(arg)
	switch {
	case err == nil && (!slash || slices.Contains(manifest.FileExtensions, filepath.Ext(arg))):
		return fmt.Errorf("'%s' is a file or directory: give it with -f", arg)
	case !slash:
		return fmt.Errorf("'%s' does not name an object of a cluster: write vm/%s", arg, arg)
	case kind == "" || name == "":
		return fmt.Errorf("'%s' does not name an object of a cluster: write vm/%s", arg, cmp.Or(name, "NAME"))
	}
	return nil
}
