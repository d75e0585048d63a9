package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	v1 "kubevirt.io/api/core/v1"
)

// 'start', 'stop', 'restart', 'pause' and 'unpause' call the same subresources as virtctl. The API server answers when the request is taken, and not when the
// guest is there: 'kubectl wait' waits for that.

// action is one of the commands.
type action struct {
	name, short, long string
	// done is what is printed, after the name of the VM.
	done string
	// resource is that of the subresource.
	resource string
	// flags adds the flags that change the body, which is nil without flags.
	flags func(*cobra.Command) func() any
}

var actions = []action{
	{
		name: "start", resource: "virtualmachines", done: "is to start", short: "Start a VM",
		long: "Start a VM. Its run strategy says how: Halted becomes Always; Manual and RerunOnFailure stay as they are.",
		flags: func(cmd *cobra.Command) func() any {
			paused := cmd.Flags().Bool("paused", false, "start the guest without letting its CPUs run, until 'unpause'")
			dry := dryRunFlag(cmd)
			return func() any { return v1.StartOptions{Paused: *paused, DryRun: dry()} }
		},
	},
	{
		name: "stop", resource: "virtualmachines", done: "is to stop", short: "Stop a VM",
		long: "Stop a VM: its guest is asked to power off, and ended after its grace period. Always and Once become Halted; Manual and\n" +
			"RerunOnFailure stay as they are.",
		flags: func(cmd *cobra.Command) func() any {
			grace := cmd.Flags().Int64("grace-period", 0, "seconds in which the guest must power off, in the place of terminationGracePeriodSeconds; 0 ends it at once")
			dry := dryRunFlag(cmd)
			return func() any {
				options := v1.StopOptions{DryRun: dry()}
				if cmd.Flags().Changed("grace-period") {
					options.GracePeriod = grace
				}
				return options
			}
		},
	},
	{
		name: "restart", resource: "virtualmachines", done: "is to restart", short: "Restart a VM: its changes take effect",
		long: "Restart a VM: its guest is stopped, and starts with the VM's configuration as it is now.",
		flags: func(cmd *cobra.Command) func() any {
			force := cmd.Flags().Bool("force", false, "end the guest after one second, in the place of its grace period")
			dry := dryRunFlag(cmd)
			return func() any {
				options := v1.RestartOptions{DryRun: dry()}
				if *force {
					options.GracePeriodSeconds = new(int64)
				}
				return options
			}
		},
	},
	{
		name: "pause", resource: "virtualmachineinstances", done: "is paused", short: "Stop the CPUs of a guest",
		long: "Stop the CPUs of a guest. It keeps its memory and its place, and notices nothing until 'unpause'.",
		flags: func(cmd *cobra.Command) func() any {
			dry := dryRunFlag(cmd)
			return func() any { return v1.PauseOptions{DryRun: dry()} }
		},
	},
	{
		name: "unpause", resource: "virtualmachineinstances", done: "runs again", short: "Let the CPUs of a paused guest run",
		long: "Let the CPUs of a guest run that is paused.",
		flags: func(cmd *cobra.Command) func() any {
			dry := dryRunFlag(cmd)
			return func() any { return v1.UnpauseOptions{DryRun: dry()} }
		},
	},
}

// dryRunFlag adds --dry-run, and returns its value as bodies have it.
func dryRunFlag(cmd *cobra.Command) func() []string {
	on := cmd.Flags().Bool("dry-run", false, "ask whether it could be done, without doing it")
	return func() []string {
		if *on {
			return []string{metav1.DryRunAll}
		}
		return nil
	}
}

// actionCommands are the commands of all actions. The exit status is 2 for a refusal, as for any error of the API server.
func actionCommands(o *options) (list []*cobra.Command) {
	for _, a := range actions {
		cmd := &cobra.Command{
			Use: a.name + " vm/NAME", Short: a.short, Args: cobra.ExactArgs(1),
			Long:    a.long + "\nThe cluster must have Kiln's API server of subresources, or KubeVirt's.",
			Example: "  kubectl kiln " + a.name + " vm/web -n shop",
		}
		body := a.flags(cmd)
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			name, err := o.put(cmd.Context(), a, args[0], body())
			if err == nil {
				fmt.Fprintf(o.Out, "virtualmachine.kubevirt.io/%s %s\n", name, a.done)
			}
			return err
		}
		list = append(list, cmd)
	}
	return list
}

// put calls the subresource of a command, and returns the name of the VM.
func (o *options) put(ctx context.Context, a action, arg string, body any) (name string, err error) {
	name, namespace, err := o.machine(arg)
	if err != nil {
		return "", err
	}
	client, _, err := o.subresources()
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(body)
	if err != nil {
		return "", err
	}
	err = client.Put().AbsPath(pathOf(namespace, a.resource, name, a.name)).Body(text).Do(ctx).Error()
	return name, explained(err)
}

// subresourceGroup is the group and version of the calls.
var subresourceGroup = schema.GroupVersion{Group: v1.SubresourceGroupName, Version: "v1"}

// pathOf is the path of a subresource.
func pathOf(namespace, resource, name, subresource string) string {
	return "/apis/" + subresourceGroup.String() + "/namespaces/" + namespace + "/" + resource + "/" + name + "/" + subresource
}

// subresources is a client of the group, with the access that it uses.
func (o *options) subresources() (*rest.RESTClient, *rest.Config, error) {
	access, err := o.cluster.ToRESTConfig()
	if err != nil {
		return nil, nil, err
	}
	access = rest.CopyConfig(access)
	access.GroupVersion, access.NegotiatedSerializer, access.APIPath = &subresourceGroup, scheme.Codecs.WithoutConversion(), "/apis"
	access.WarningHandler = rest.NewWarningWriter(o.ErrOut, rest.WarningWriterOptions{Deduplicate: true})
	client, err := rest.RESTClientFor(access)
	return client, access, err
}

// machineKinds are the words for a VM or its VMI, as kubectl takes them.
var machineKinds = []string{
	"vm", "vms", "virtualmachine", "virtualmachines", "virtualmachine.kubevirt.io", "virtualmachines.kubevirt.io",
	"vmi", "vmis", "virtualmachineinstance", "virtualmachineinstances", "virtualmachineinstance.kubevirt.io", "virtualmachineinstances.kubevirt.io",
}

// machine is the name and the namespace of vm/NAME or vmi/NAME, which share a name.
func (o *options) machine(arg string) (name, namespace string, err error) {
	if err := namesObject(arg); err != nil {
		return "", "", err
	}
	kind, name, _ := strings.Cut(arg, "/")
	if !slices.Contains(machineKinds, strings.ToLower(kind)) {
		return "", "", fmt.Errorf("'%s' is no VM: write vm/%s", arg, name)
	}
	namespace, _, err = o.cluster.ToRawKubeConfigLoader().Namespace()
	return name, namespace, err
}

// explained adds the remedy to the answer of a cluster that does not serve the group.
func explained(err error) error {
	status, is := err.(apierrors.APIStatus) //nolint:errorlint // client-go does not wrap it
	if !is || !apierrors.IsNotFound(err) || status.Status().Details != nil && status.Status().Details.Name != "" {
		return err
	}
	return fmt.Errorf("the cluster does not serve %s: its administrator installs manifests/overlays/apiserver, or sets the chart's apiserver.enabled (%w)",
		v1.SubresourceGroupName, err)
}
