package vmcmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// createOptions is a run of one of the commands below 'create'.
type createOptions struct {
	cmdutil.Inputs
	cmdutil.CatalogSource
}

func newCreateOptions(s *cmdutil.Session) *createOptions {
	return &createOptions{Inputs: cmdutil.NewInputs(s), CatalogSource: cmdutil.NewCatalogSource(s)}
}

// CreateCommand is 'create'. Its commands print a manifest, or apply it with --apply. The exit status is 1 if the catalog's rules, the API server or a
// webhook refuse the object, and 2 for a wrong flag or a cluster that does not answer. The flags are compared with virtctl v1.9 in docs/catalog.md.
func CreateCommand(s *cmdutil.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Create manifests of VMs, instancetypes and preferences",
		Long: "Create manifests of VMs, instancetypes and preferences. The flags are those of 'virtctl create'. A manifest is printed, or\n" +
			"applied with --apply.",
		Example: "  kubectl kiln create vm --name web --fit cpu=2,memory=4Gi --preference fedora --volume-import type:ds,src:images/fedora --apply\n" +
			"  kubectl kiln create instancetype --name small --cpu 1 --memory 2Gi | kubectl apply -f -",
	}
	cmd.AddCommand(createVMCommand(s), createInstancetypeCommand(s), createPreferenceCommand(s))
	cmdutil.RefuseUnknown(cmd)
	return cmd
}

// made is what every 'create' command has: a name and what becomes of the manifest.
// name is empty if the user gave none. virtctl has no --apply: its output is piped to kubectl.
type made struct {
	name  string
	apply bool
}

// addMade adds the flags of a manifest.
func (o *createOptions) addMade(cmd *cobra.Command) *made {
	m := &made{}
	cmd.Flags().StringVar(&m.name, "name", "", "name of the object; default: one with five random characters")
	cmd.Flags().BoolVar(&m.apply, "apply", false, "apply the manifest to the cluster (server-side apply) instead of printing it")
	o.AddOutput(cmd, "yaml", "yaml", "json")
	return m
}

// named returns the name that was given, or a random one.
// virtctl appends five random characters to the same prefixes.
func (m *made) named(prefix string) string {
	if m.name != "" {
		return m.name
	}
	return prefix + "-" + rand.String(5)
}

// namespace returns the one of the flag; empty if there is none, so that a manifest goes wherever it is applied.
// That of the kubeconfig does not count here; --apply and the verdict of a catalog fall back to it.
func (o *createOptions) namespace() string {
	if o.Cluster.Namespace == nil {
		return ""
	}
	return *o.Cluster.Namespace
}

// fieldManager owns the fields of what is applied. Fields of another owner are a conflict, which is answered as a rejection and never forced.
const fieldManager = "kubectl-kiln"

// finish prints a manifest, or applies it. What the API server or a webhook refuses is an answer (exit status 1); a cluster that does not answer is a
// fault (2).
// The answers are status codes 422, 403 and 409: a schema or a webhook, a right or a policy, and a field of another manager. The line of success
// ends as that of 'kubectl apply --server-side'. The API server's message quotes what a manifest holds, so that it goes through printable.
func (o *createOptions) finish(ctx context.Context, m *made, typed client.Object) error {
	object, err := manifestOf(typed)
	if err != nil || !m.apply {
		if err == nil {
			err = o.Print(object.Object)
		}
		return err
	}
	cluster, err := o.WarningClient()
	if err != nil {
		return err
	}
	namespaced, err := cluster.IsObjectNamespaced(object)
	if err != nil {
		return err
	}
	if namespaced && object.GetNamespace() == "" {
		namespace, _, err := o.Cluster.ToRawKubeConfigLoader().Namespace()
		if err != nil {
			return err
		}
		object.SetNamespace(namespace)
	}
	err = cluster.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(fieldManager))
	switch {
	case apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsConflict(err):
		o.printRefusal(object, err)
		return cmdutil.ErrRejected
	case err != nil:
		return err
	}
	_, err = fmt.Fprintf(o.Out, "%s/%s serverside-applied\n", object.GetKind(), object.GetName())
	return err
}

// printRefusal prints the causes of a refusal a line each, as those of files are printed, and any other refusal in the words of the API server.
func (o *createOptions) printRefusal(object client.Object, err error) {
	var answer apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &answer) || answer.Status().Details == nil || len(answer.Status().Details.Causes) == 0 {
		fmt.Fprintln(o.ErrOut, cmdutil.Printable(cmdutil.WithoutPreamble(err.Error())))
		return
	}
	name := object.GetName()
	if object.GetNamespace() != "" {
		name = object.GetNamespace() + "/" + name
	}
	fmt.Fprintln(o.ErrOut, cmdutil.Printable(fmt.Sprintf("%s %s is rejected:", object.GetObjectKind().GroupVersionKind().Kind, name)))
	for _, cause := range answer.Status().Details.Causes {
		text := cause.Message
		if cause.Field != "" {
			text = cause.Field + ": " + text
		}
		fmt.Fprintf(o.ErrOut, "  %s\n", cmdutil.Printable(text))
	}
}

// manifestOf returns an object without what only a cluster writes, and without empty objects that say nothing.
// KubeVirt's Go types encode structs that are empty, such as status and resources of a VM.
func manifestOf(typed client.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, err
	}
	delete(content, "status")
	drop(content)
	return &unstructured.Unstructured{Object: content}, nil
}

// meaningless are the objects that Go's encoder writes though they are empty. Other empty objects, such as emptyDisk, mean something.
var meaningless = []string{"metadata", "resources", "creationTimestamp"}

// drop removes meaningless objects from a document, the innermost first: an object that holds only such ones is empty afterwards.
func drop(node any) {
	switch node := node.(type) {
	case map[string]any:
		for _, child := range node {
			drop(child)
		}
		for _, key := range meaningless {
			if child, found := node[key]; found && (child == nil || isEmpty(child)) {
				delete(node, key)
			}
		}
	case []any:
		for _, child := range node {
			drop(child)
		}
	}
}

// isEmpty reports whether a node is an object without fields. Empty lists and texts are not: drop leaves them as they are.
func isEmpty(node any) bool {
	object, is := node.(map[string]any)
	return is && len(object) == 0
}
