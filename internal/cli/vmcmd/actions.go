// Package vmcmd has the commands that act on VMs of a cluster, such as 'start' and 'console', and 'create' with its subcommands.
package vmcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// vmAccess calls the subresources of VMs and VMIs.
type vmAccess struct{ cmdutil.Printer }

// 'start', 'stop', 'restart', 'pause' and 'unpause' call the same subresources as virtctl. The API server answers when the request is accepted, not when the
// guest has reached the state: use 'kubectl wait' to wait.

// action is one of these commands.
type action struct {
	name, short, long string
	// done is printed after the name of the VM.
	done string
	// resource is the resource that has the subresource.
	resource string
	// flags adds the flags of the command, and returns a function that makes the body of the request from their values.
	flags func(*cobra.Command) func() any
}

var actions = []action{
	{
		name: "start", resource: "virtualmachines", done: "is to start", short: "Start a VM",
		long: "Start a VM. The run strategy Halted becomes Always; Manual and RerunOnFailure do not change.",
		flags: func(cmd *cobra.Command) func() any {
			paused := cmd.Flags().Bool("paused", false, "start the guest without letting its CPUs run, until 'unpause'")
			dry := dryRunFlag(cmd)
			return func() any { return v1.StartOptions{Paused: *paused, DryRun: dry()} }
		},
	},
	{
		name: "stop", resource: "virtualmachines", done: "is to stop", short: "Stop a VM",
		long: "Stop a VM: its guest is asked to power off, and is ended after its grace period. The run strategies Always and Once become\n" +
			"Halted; Manual and RerunOnFailure do not change.",
		flags: func(cmd *cobra.Command) func() any {
			grace, dry := graceFlags(cmd, "seconds in which the guest must power off, instead of terminationGracePeriodSeconds; 0 ends it at once"), dryRunFlag(cmd)
			return func() any { return v1.StopOptions{GracePeriod: grace(), DryRun: dry()} }
		},
	},
	{
		name: "restart", resource: "virtualmachines", done: "is to restart", short: "Restart a VM, so that its changes take effect",
		long: "Restart a VM: its guest is stopped, and starts with the current configuration of the VM.",
		flags: func(cmd *cobra.Command) func() any {
			grace, dry := graceFlags(cmd, "0, as --force; a cluster accepts no other value"), dryRunFlag(cmd)
			return func() any { return v1.RestartOptions{GracePeriodSeconds: grace(), DryRun: dry()} }
		},
	},
	{
		name: "pause", resource: "virtualmachineinstances", done: "is paused", short: "Stop the CPUs of a VM",
		long: "Stop the CPUs of a VM until 'unpause'. The guest keeps its memory, and stays on its node.",
		flags: func(cmd *cobra.Command) func() any {
			dry := dryRunFlag(cmd)
			return func() any { return v1.PauseOptions{DryRun: dry()} }
		},
	},
	{
		name: "unpause", resource: "virtualmachineinstances", done: "runs again", short: "Let the CPUs of a paused VM run",
		long: "Let the CPUs of a paused VM run.",
		flags: func(cmd *cobra.Command) func() any {
			dry := dryRunFlag(cmd)
			return func() any { return v1.UnpauseOptions{DryRun: dry()} }
		},
	},
}

// graceFlags adds --force and --grace-period, and returns a function that returns the grace period; nil for the grace period of the VM. virtctl requires both
// flags or none. Here --force means 0, and --grace-period does not need --force.
func graceFlags(cmd *cobra.Command, usage string) func() *int64 {
	grace := cmd.Flags().Int64("grace-period", 0, usage)
	force := cmd.Flags().Bool("force", false, "end the guest at once, without its grace period")
	return func() *int64 {
		if *force || cmd.Flags().Changed("grace-period") {
			return grace
		}
		return nil
	}
}

// dryRunFlag adds --dry-run, and returns a function that returns its value for the body of a request.
func dryRunFlag(cmd *cobra.Command) func() []string {
	dry := new(cmdutil.DryRun)
	cmdutil.AddDryRun(cmd, dry)
	return func() []string {
		if *dry {
			return []string{metav1.DryRunAll}
		}
		return nil
	}
}

// ActionCommands returns the commands of all actions. The exit status is 2 for a refusal, as for any error of the API server.
func ActionCommands(s *cmdutil.Session) (list []*cobra.Command) {
	o := &vmAccess{cmdutil.NewPrinter(s)}
	for _, a := range actions {
		cmd := &cobra.Command{
			Use: a.name + " NAME ...", Short: a.short, Args: cobra.MinimumNArgs(1),
			Long: a.long + " NAME is the name of a VM, or vm/NAME.\n" +
				"The cluster must have Kiln's API server of subresources, or KubeVirt's.",
			Example: "  kubectl kiln " + a.name + " web -n shop",
		}
		body := a.flags(cmd)
		cmd.RunE = func(cmd *cobra.Command, args []string) error { return o.putAll(cmd.Context(), a, args, body()) }
		list = append(list, cmd)
	}
	return list
}

// putAll calls the subresource of a command for each VM. If there are several VMs, it prints answers of the cluster that are errors, and goes on. It stops at
// any other error.
func (o *vmAccess) putAll(ctx context.Context, a action, args []string, body any) error {
	if len(args) > 1 && isMachineKind(args[0]) { // 'stop vm web', which kubectl accepts
		args = args[1:]
	}
	var outcome error
	for _, arg := range args {
		name, err := o.callAction(ctx, a, arg, body)
		var answered apierrors.APIStatus
		switch {
		case err == nil:
			fmt.Fprintf(o.Out, "virtualmachine.kubevirt.io/%s %s\n", name, a.done)
		case len(args) == 1 || !errors.As(err, &answered):
			return err
		default:
			outcome = cmdutil.Worse(outcome, o.PrintUnanswered(err))
		}
	}
	return outcome
}

// callAction calls the subresource of a command, and returns the name of the VM.
func (o *vmAccess) callAction(ctx context.Context, a action, arg string, body any) (name string, err error) {
	name, namespace, err := o.parseMachine(arg)
	if err != nil {
		return "", err
	}
	subresources, _, err := o.subresourceClient()
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(body)
	if err != nil {
		return "", err
	}
	err = subresources.Put().AbsPath(pathOf(namespace, a.resource, name, a.name)).Body(text).Do(ctx).Error()
	return name, o.explainStopped(ctx, namespace, name, explainNotServed(err))
}

// subresourceGroup is the group and version of the subresources.
var subresourceGroup = schema.GroupVersion{Group: v1.SubresourceGroupName, Version: "v1"}

// pathOf returns the path of a subresource.
func pathOf(namespace, resource, name, subresource string) string {
	return "/apis/" + subresourceGroup.String() + "/namespaces/" + namespace + "/" + resource + "/" + name + "/" + subresource
}

// subresourceClient returns a client for the group of subresources, and the configuration of its connection.
func (o *vmAccess) subresourceClient() (*rest.RESTClient, *rest.Config, error) {
	access, err := o.Cluster.RESTConfig()
	if err != nil {
		return nil, nil, err
	}
	access = rest.CopyConfig(access)
	access.GroupVersion, access.NegotiatedSerializer, access.APIPath = &subresourceGroup, scheme.Codecs.WithoutConversion(), "/apis"
	access.WarningHandler = rest.NewWarningWriter(o.ErrOut, rest.WarningWriterOptions{Deduplicate: true})
	client, err := rest.RESTClientFor(access)
	return client, access, err
}

// machineKinds are the words for a VM or its VMI that kubectl accepts.
var machineKinds = []string{
	"vm", "vms", "virtualmachine", "virtualmachines", "virtualmachine.kubevirt.io", "virtualmachines.kubevirt.io",
	"vmi", "vmis", "virtualmachineinstance", "virtualmachineinstances", "virtualmachineinstance.kubevirt.io", "virtualmachineinstances.kubevirt.io",
}

func isMachineKind(word string) bool { return slices.Contains(machineKinds, strings.ToLower(word)) }

// parseMachine parses NAME, vm/NAME or vmi/NAME, and returns the name and the namespace. A VM and its VMI have the same name.
func (o *vmAccess) parseMachine(arg string) (name, namespace string, err error) {
	kind, name, slash := strings.Cut(arg, "/")
	switch {
	case !slash:
		name = arg
	case !isMachineKind(kind):
		return "", "", fmt.Errorf("'%s' is not a VM: write vm/%s", arg, name)
	}
	if mistakes := content.IsPathSegmentName(name); name == "" || len(mistakes) > 0 {
		return "", "", fmt.Errorf("'%s' is not a name of a VM", arg)
	}
	namespace, err = o.Cluster.Namespace()
	return name, namespace, err
}

// explainStopped returns an error that the VM does not run if err says that its VMI does not exist. If the VM does not exist either, or the user may not read
// it, explainStopped returns err.
func (o *vmAccess) explainStopped(ctx context.Context, namespace, name string, err error) error {
	var answer apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &answer) || answer.Status().Details == nil || !isMachineKind(answer.Status().Details.Kind) {
		return err
	}
	reader, failed := o.Client()
	if failed != nil {
		return err
	}
	vm := &v1.VirtualMachine{}
	if reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, vm) != nil {
		return err
	}
	status := ""
	if vm.Status.PrintableStatus != "" {
		status = fmt.Sprintf(" (its status is '%s')", vm.Status.PrintableStatus)
	}
	return &notRunning{fmt.Sprintf("VirtualMachine '%s' does not run%s: 'kubectl kiln start %s' starts it", name, status, name), answer}
}

// notRunning is the error about a VM that does not run, with the answer of the cluster.
type notRunning struct {
	text string
	apierrors.APIStatus
}

func (e *notRunning) Error() string { return e.text }

// explainNotServed adds what to do to the error of a cluster that does not serve the group of subresources. It returns any other error unchanged.
func explainNotServed(err error) error {
	status, is := err.(apierrors.APIStatus) //nolint:errorlint // client-go does not wrap it
	if !is || !apierrors.IsNotFound(err) || status.Status().Details != nil && status.Status().Details.Name != "" {
		return err
	}
	return fmt.Errorf("the cluster does not serve %s: its administrator installs manifests/overlays/apiserver, or sets the chart's apiserver.enabled (%w)",
		v1.SubresourceGroupName, err)
}
