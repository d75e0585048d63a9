package vmcmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/cli/cmdutil/catalogsource"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// createRun is a run of a subcommand of 'create'.
type createRun struct {
	cmdutil.Inputs
	catalogsource.Reader
}

func newCreateRun(s *cmdutil.Session) *createRun {
	return &createRun{Inputs: cmdutil.NewInputs(s), Reader: catalogsource.New(s)}
}

// CreateCommand returns 'create'. Its subcommands print a manifest, or apply it with --apply. The exit status is 1 if the rules of a catalog, the API server
// or a webhook refuse the object, and 2 for a wrong flag or a cluster that does not answer. docs/how-to/catalog.md compares the flags with virtctl v1.9.
func CreateCommand(s *cmdutil.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Create manifests of VMs, instancetypes and preferences",
		Long: "Create manifests of VMs, instancetypes and preferences. The flags are the flags of 'virtctl create'. A manifest is printed,\n" +
			"or applied with --apply.",
		Example: "  kubectl kiln create vm --name web --fit cpu=2,memory=4Gi --preference fedora --volume-import type:ds,src:images/fedora --apply\n" +
			"  kubectl kiln create instancetype --name small --cpu 1 --memory 2Gi | kubectl apply -f -",
	}
	cmd.AddCommand(createVMCommand(s), createInstancetypeCommand(s), createPreferenceCommand(s))
	cmdutil.RefuseUnknown(cmd)
	return cmd
}

// manifestFlags has the flags of all subcommands of 'create'. virtctl has no --apply: its output is piped to kubectl.
type manifestFlags struct {
	name  string
	apply bool
}

// addManifestFlags adds --name, --apply and -o.
func (o *createRun) addManifestFlags(cmd *cobra.Command) *manifestFlags {
	m := &manifestFlags{}
	cmd.Flags().StringVar(&m.name, "name", "", "name of the object; default: one with five random characters")
	cmd.Flags().BoolVar(&m.apply, "apply", false, "apply the manifest to the cluster (server-side apply) instead of printing it")
	o.AddOutput(cmd, "yaml", "yaml", "json")
	return m
}

// nameOrRandom returns the value of --name, or the prefix with five random characters, as virtctl does.
func (m *manifestFlags) nameOrRandom(prefix string) string {
	if m.name != "" {
		return m.name
	}
	return prefix + "-" + rand.String(5)
}

// namespaceFlag returns the value of --namespace. It does not return the namespace of the kubeconfig, so that a manifest without the flag can be applied to any
// namespace. --apply and the verdict of a catalog use the namespace of the kubeconfig.
func (o *createRun) namespaceFlag() string {
	return o.Cluster.NamespaceFlag()
}

// fieldManager is the field manager of applied objects. A conflict with another manager is a rejection, and never forced.
const fieldManager = "kubectl-kiln"

// printOrApply prints a manifest, or applies it. If the API server refuses the object, it prints the reason and returns ErrRejected. A refusal has the status
// code 422 (schema or webhook), 403 (permission or policy) or 409 (field of another manager). The line of success ends as in 'kubectl apply --server-side'.
func (o *createRun) printOrApply(ctx context.Context, m *manifestFlags, typed client.Object) error {
	object, err := manifest.OfTyped(typed)
	if err != nil || !m.apply {
		if err == nil {
			err = o.PrintManifest(object.Object, "")
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
		namespace, err := o.Cluster.Namespace()
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

// printRefusal prints the causes of a refusal, one in each line, as for objects of files. If there are no causes, it prints the message of the API server.
// It replaces control characters, because the message quotes the manifest.
func (o *createRun) printRefusal(object client.Object, err error) {
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
