package launch

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	goruntime "runtime"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/pipeline"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kubeconfig "sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/yaml"
)

func renderCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use: "render (-f FILE | NAME)", Short: "Print the libvirt documents of one VMI, from a file or the cluster",
		Long: "Print the libvirt documents of one VMI, from a file ('-' is standard input) or the cluster.\n" +
			"The host is this machine if its libvirt answers, else an assumed one. Nothing is made or started: file paths are those\n" +
			"that the launcher assumes before it has bound anything.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.render(cmd, args) },
	}
	cmd.Flags().StringVarP(&o.file, "filename", "f", "", "file with one explicit VirtualMachineInstance")
	cmd.Flags().StringVarP(&o.namespace, "namespace", "n", "default", "namespace of the VMI")
	return cmd
}

func (o *options) render(cmd *cobra.Command, args []string) error {
	vmi, err := o.readVMI(cmd.Context(), cmd.InOrStdin(), args)
	if err != nil {
		return err
	}
	frozen, err := abi.Parse(vmi.Annotations[pipeline.AnnotationFrontend])
	if err != nil {
		return fmt.Errorf("annotation '%s': %w", pipeline.AnnotationFrontend, err)
	}
	host, daemon, err := o.host()
	if err != nil {
		return err
	}
	if daemon != nil {
		defer daemon.Close()
	}
	xml, err := Document(pipeline.Machine{
		VMI: vmi, Defaults: config.Default().Frontend, Frozen: frozen,
		Host: host.Capabilities, Bindings: backend.AssumedBindings(vmi)})
	if err == nil {
		_, err = fmt.Fprintln(cmd.OutOrStdout(), xml)
	}
	return err
}

// Document is the domain of a VMI as XML. The error of a spec that is not explicit names the command that makes it so.
func Document(machine pipeline.Machine) (string, error) {
	rendered, errs := pipeline.Render(machine)
	if len(errs) == 0 {
		return rendered.Documents.Domain.Marshal()
	}
	if reasonOf(errs) == reasonNotExplicit {
		return "", fmt.Errorf("the spec is not explicit; make it so with 'kubectl kiln expand -f FILE': %w", errs.ToAggregate())
	}
	return "", errs.ToAggregate()
}

func (o *options) readVMI(ctx context.Context, in io.Reader, args []string) (*v1.VirtualMachineInstance, error) {
	vmi := &v1.VirtualMachineInstance{}
	switch {
	case o.file != "" && len(args) == 0:
		raw, err := readFile(o.file, in)
		if err != nil {
			return nil, err
		}
		if err := yaml.UnmarshalStrict(raw, vmi); err != nil {
			return nil, fmt.Errorf("%s: %w", o.file, err)
		}
		if vmi.Kind != "VirtualMachineInstance" {
			return nil, fmt.Errorf("%s: kind is '%s', want one VirtualMachineInstance; 'kubectl kiln expand -f %s' makes it", o.file, vmi.Kind, o.file)
		}
		return vmi, nil
	case o.file == "" && len(args) == 1:
		return vmi, o.getVMI(ctx, args[0], vmi)
	}
	return nil, fmt.Errorf("give either -f FILE or the name of a VMI")
}

func readFile(path string, in io.Reader) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(in)
	}
	return os.ReadFile(path)
}

func (o *options) getVMI(ctx context.Context, name string, vmi *v1.VirtualMachineInstance) error {
	scheme := runtime.NewScheme()
	if err := v1.AddToScheme(scheme); err != nil {
		return err
	}
	cluster, err := kubeconfig.GetConfig()
	if err != nil {
		return err
	}
	reader, err := client.New(cluster, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	return reader.Get(ctx, client.ObjectKey{Namespace: o.namespace, Name: name}, vmi)
}

// host is this machine as its libvirt describes it; without libvirt an assumed one and no connection.
func (o *options) host() (*Host, *Libvirt, error) {
	if _, err := os.Stat(o.socket); err != nil {
		return &Host{Capabilities: backend.Assumed(goruntime.GOARCH)}, nil, nil
	}
	daemon, err := Connect(o.socket)
	if err != nil {
		return nil, nil, err
	}
	facts, err := daemon.Capabilities(o.name, KVM(o.kvm))
	if err != nil {
		return nil, nil, err
	}
	return &Host{Capabilities: facts}, daemon, nil
}

// writeDocument leaves what would be started in the VMI's folder, for a machine without libvirt.
func (n *Node) writeDocument(vmi *v1.VirtualMachineInstance) error {
	xml, err := Document(pipeline.Machine{VMI: vmi, Defaults: n.Defaults, Host: n.Host.Capabilities, Bindings: backend.AssumedBindings(vmi)})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(n.Host.dir(vmi), 0o711); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(n.Host.dir(vmi), "domain.xml"), []byte(xml), 0o600)
}
