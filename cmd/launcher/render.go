package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	goruntime "runtime"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/clusterconfig"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/hostprofile"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/internal/node"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kubeconfig "sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/yaml"
)

// renderCommand returns 'launcher render'. Unlike 'kubectl kiln render', it renders an explicit VMI for this machine.
func renderCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use: "render (-f FILE | NAME)", Short: "Print the libvirt documents of one VMI, from a file or the cluster",
		Long: "Print the libvirt documents of one VMI, from a file ('-' is standard input) or the cluster.\n" +
			"The host is this machine if its libvirt answers, else an assumed one. Nothing is made or started: file paths are those\n" +
			"that the launcher assumes before it has bound anything, or what --bindings says. Secrets (without values), network filters\n" +
			"and node devices of the domain stand before it, all below one root: <documents>.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.renderVMI(cmd, args) },
	}
	cmd.Flags().StringVarP(&o.file, "filename", "f", "", "file with one explicit VirtualMachineInstance")
	cmd.Flags().StringVarP(&o.namespace, "namespace", "n", "default", "namespace of the VMI")
	cmd.Flags().StringVar(&o.hardware, "hardware", "", "YAML file with the GuestHardware that the VMI boots with; a VMI of the cluster has its own")
	cmd.Flags().StringVar(&o.bindings, "bindings", "", "YAML file with the bindings of this start, instead of assumed ones")
	return cmd
}

// renderVMI prints the documents of one VMI. A record from --hardware is checked like one from the cluster.
func (o *options) renderVMI(cmd *cobra.Command, args []string) error {
	// All mistakes in the input are reported before libvirt is called.
	machine, profiles, err := o.readMachine(cmd, args)
	if err != nil {
		return err
	}
	vmi := machine.VMI
	if o.hardware != "" {
		var given v1alpha1.GuestHardware
		if err := readYAML(o.hardware, &given); err != nil {
			return fmt.Errorf("--hardware %s: %w", o.hardware, err)
		}
		machine.Frozen = given.Spec.Hardware
	}
	// A record is hostile input, whether from a file or from the cluster.
	if err := record.Check(machine.Frozen); err != nil {
		return err
	}
	host, daemon, err := o.hostCapabilities(cmd.Context())
	if err != nil {
		return err
	}
	if daemon != nil {
		defer daemon.Close()
	}
	// Assumed paths are below /var/lib/kiln, as with the launcher's defaults.
	machine.Host, machine.Bindings = host, backend.AssumedBindings(vmi)
	if o.bindings != "" {
		// The file overrides the assumed bindings: it has only the fields that differ.
		if err := readYAML(o.bindings, &machine.Bindings); err != nil {
			return fmt.Errorf("--bindings %s: %w", o.bindings, err)
		}
	}
	xml, err := renderBundle(machine, profiles)
	if err == nil {
		_, err = fmt.Fprintln(cmd.OutOrStdout(), xml)
	}
	return err
}

// readMachine returns the VMI of a file or of the cluster, with its configuration and the HostProfiles of the cluster. A VMI of a file has no HostProfiles.
func (o *options) readMachine(cmd *cobra.Command, args []string) (m render.Machine, profiles []v1alpha1.HostProfile, err error) {
	var reader client.Reader
	var pinned *v1alpha1.Frontend
	switch {
	case o.file != "" && len(args) == 0:
		m.VMI, err = readVMI(o.file, cmd.InOrStdin())
	case o.file == "" && len(args) == 1:
		if reader, err = clusterReader(); err != nil {
			return m, profiles, err
		}
		// A VMI of the cluster has a record and HostProfiles.
		m.VMI = &v1.VirtualMachineInstance{}
		if err = reader.Get(cmd.Context(), client.ObjectKey{Namespace: o.namespace, Name: args[0]}, m.VMI); err == nil {
			profiles, err = hostprofile.All(cmd.Context(), reader)
		}
		if err == nil {
			m.Frozen, pinned, err = assignedHardware(cmd.Context(), reader, m.VMI)
		}
	default:
		err = errors.New("give either -f FILE or the name of a VMI")
	}
	if err != nil {
		return m, profiles, err
	}
	// The reader is nil for a VMI of a file, which needs no cluster: --config or the defaults apply.
	configured, err := clusterconfig.Read(cmd.Context(), o.config, reader)
	if err != nil {
		return m, profiles, fmt.Errorf("configuration: %w", err)
	}
	m.Defaults = configured.Frontend.With(pinned)
	return m, profiles, nil
}

// assignedHardware returns the record of a VMI of the cluster, and the frontend settings that it is pinned to. Each is nil if the VMI does not have it.
func assignedHardware(ctx context.Context, reader client.Reader, vmi *v1.VirtualMachineInstance) (*record.Record, *v1alpha1.Frontend, error) {
	hardware, err := node.Assigned(ctx, reader, vmi)
	if err != nil || hardware.Status.Guest == nil {
		return nil, nil, err
	}
	return hardware.Spec.Hardware, hardware.Status.Guest.Frontend, nil
}

// renderBundle returns the side documents of a domain and the domain as one XML document, in the order in which libvirt must get them.
func renderBundle(machine render.Machine, profiles []v1alpha1.HostProfile) (string, error) {
	rendered, err := renderMachine(machine, profiles)
	if err != nil {
		return "", err
	}
	all, err := rendered.SideDocuments()
	if err != nil {
		return "", err
	}
	xml, err := rendered.Documents.Domain.Marshal()
	if err != nil {
		return "", err
	}
	// XML tools need one root. virsh takes its children one by one.
	return render.Bundle(append(all, render.Document{Kind: "domain", Name: rendered.Documents.Domain.Name, XML: xml}))
}

// renderMachine runs stages 2 and 3. An error is a failure, with exit status 1, because the VMI is refused and the command was right. The error for a spec
// that is not explicit names the command that expands it.
func renderMachine(machine render.Machine, profiles []v1alpha1.HostProfile) (render.Result, error) {
	rendered, errs := render.UnderProfiles(machine, profiles)
	switch {
	case len(errs) == 0:
		return rendered, nil
	case !condition.Explicit(errs):
		return rendered, asFailure(fmt.Errorf("the spec is not explicit; make it so with 'kubectl kiln expand -f FILE': %w", errs.ToAggregate()))
	}
	return rendered, asFailure(errs.ToAggregate())
}

// readVMI reads one VMI, strictly, because a mistyped field would silently render another machine. It refuses other kinds, such as VirtualMachines, whose
// spec is not explicit. Rendering refuses a VMI whose spec is not explicit, with the missing fields.
func readVMI(file string, in io.Reader) (*v1.VirtualMachineInstance, error) {
	raw, err := readFile(file, in)
	if err != nil {
		return nil, err
	}
	vmi := &v1.VirtualMachineInstance{}
	if err := yaml.UnmarshalStrict(raw, vmi); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if vmi.Kind != "VirtualMachineInstance" {
		return nil, fmt.Errorf("%s: kind is '%s', want one VirtualMachineInstance; 'kubectl kiln expand -f %s' makes it", file, vmi.Kind, file)
	}
	return vmi, nil
}

// readYAML reads a file into an object, strictly. Fields that the file leaves out keep their values.
func readYAML(file string, into any) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return yaml.UnmarshalStrict(raw, into)
}

// readFile returns the content of a file, or of standard input for '-'.
func readFile(path string, in io.Reader) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(in)
	}
	return os.ReadFile(path)
}

// clusterReader returns a reader of the cluster of the kubeconfig, or of the pod. It has no cache, because these commands read a few objects once.
func clusterReader() (client.Reader, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(v1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	cluster, err := kubeconfig.GetConfig()
	if err != nil {
		return nil, err
	}
	return client.New(cluster, client.Options{Scheme: scheme})
}

// hostCapabilities returns this machine's capabilities and its libvirt. Without a libvirt it returns assumed capabilities and nil. A libvirt whose socket
// exists but that does not answer is an error, because the caller would mistake assumed documents for the documents of this machine.
func (o *options) hostCapabilities(ctx context.Context) (backend.Capabilities, *hypervisor.Libvirt, error) {
	if _, err := os.Stat(o.socket); err != nil {
		return o.assumedCapabilities(), nil, nil
	}
	daemon := hypervisor.New(o.socket)
	facts, err := daemon.Capabilities(ctx, o.name, hypervisor.KVM(o.kvm))
	if err != nil {
		return backend.Capabilities{}, nil, err
	}
	facts.Labels = o.allLabels() // libvirt knows none; HostProfiles select by them
	return facts, daemon, nil
}

// assumedCapabilities returns the capabilities to assume without libvirt, for the architecture that this program was built for. They have this machine's
// labels, so that the HostProfiles that select it apply.
func (o *options) assumedCapabilities() backend.Capabilities {
	facts := backend.Assumed(goruntime.GOARCH)
	facts.Labels = o.allLabels()
	return facts
}
