package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
)

// fromCluster reads the objects that are named as vm/NAME.
func (o *options) fromCluster(args []string) (inputs, error) {
	for _, arg := range args {
		if err := namesObject(arg); err != nil {
			return inputs{}, err
		}
	}
	namespace, _, err := o.cluster.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return inputs{}, err
	}
	infos, err := resource.NewBuilder(o.cluster).Unstructured().NamespaceParam(namespace).DefaultNamespace().
		ResourceTypeOrNameArgs(true, args...).Flatten().Do().Infos()
	if err != nil {
		return inputs{}, err
	}
	reader, err := o.client()
	if err != nil {
		return inputs{}, err
	}
	found := inputs{reader: reader, cluster: reader}
	for _, info := range infos {
		if untyped, ok := info.Object.(*unstructured.Unstructured); ok {
			found.named = append(found.named, object{Unstructured: untyped, stored: true})
		}
	}
	return found, nil
}

// namesObject refuses what kubectl would take for a kind, or for all objects of one: nobody wants to wait for a cluster to hear
// that 'web' is no kind.
func namesObject(arg string) error {
	kind, name, slash := strings.Cut(arg, "/")
	_, err := os.Stat(arg)
	switch {
	case err == nil && (!slash || slices.Contains(resource.FileExtensions, filepath.Ext(arg))):
		return fmt.Errorf("'%s' is a file or directory: give it with -f", arg)
	case !slash:
		return fmt.Errorf("'%s' names no object of a cluster: write vm/%s", arg, arg)
	case kind == "" || name == "":
		return fmt.Errorf("'%s' names no object of a cluster: write vm/%s", arg, cmp.Or(name, "NAME"))
	}
	return nil
}

// answering lets commands tell in one line that no cluster answers, and what to do.
func (o *options) answering(commands []*cobra.Command) {
	for _, command := range commands {
		run := command.RunE
		if run == nil {
			continue
		}
		command.RunE = func(cmd *cobra.Command, args []string) error { return o.reached(cmd, run(cmd, args)) }
	}
}

func (o *options) reached(cmd *cobra.Command, err error) error {
	var failed *url.Error
	if !errors.As(err, &failed) || failed.Op == "parse" {
		return err
	}
	remedy := "use --kubeconfig or --context"
	if cmd.Flags().Lookup("filename") != nil {
		remedy += ", or files with -f"
	}
	config, unread := o.cluster.ToRawKubeConfigLoader().RawConfig()
	if unread == nil && len(config.Clusters) == 0 && (o.cluster.APIServer == nil || *o.cluster.APIServer == "") {
		return fmt.Errorf("no cluster is known, since there is no kubeconfig: %s", remedy)
	}
	server := failed.URL
	if at, err := url.Parse(failed.URL); err == nil {
		server = at.Scheme + "://" + at.Host
	}
	return fmt.Errorf("no cluster answers at %s (%w): %s", server, failed.Err, remedy)
}
