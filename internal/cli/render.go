package cli

import (
	"fmt"
	"os"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/pipeline"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

func renderCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "render (-f FILE|DIR|- | vm/NAME ...)",
		Short: "Print the libvirt domain that each VM would boot",
		Long: "Print the libvirt domain that each VM would boot, on the host that --host describes, else on an assumed one:\n" +
			"QEMU in /usr/bin, firmware at Debian's paths, files below /var/lib/kiln.",
		Example: "  kubectl kiln render -f vm.yaml | virt-xml-validate -\n" +
			"  kubectl kiln render vm/web -n shop --host host.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.eachGuest(cmd, args, o.printDomain)
		},
	}
	o.addInputs(cmd)
	cmd.Flags().StringVar(&o.host, "host", "", "YAML file with the host's capabilities")
	return cmd
}

func (o *options) printDomain(g guest) error {
	host, err := o.capabilities(g.explicit.Spec.Architecture)
	if err != nil {
		return err
	}
	frozen, err := abi.Parse(g.explicit.Annotations[pipeline.AnnotationFrontend])
	if err != nil {
		return err
	}
	cluster, err := o.configuration()
	if err != nil {
		return err
	}
	vmi := g.explicit.DeepCopy()
	if seed := vmi.Annotations[pipeline.AnnotationIdentity]; seed != "" {
		pipeline.Identify(vmi, seed)
	} else if vmi.UID == "" {
		pipeline.Identify(vmi, vmi.Namespace+"/"+vmi.Name) // no cluster has given it a UID yet
	}
	rendered, errs := pipeline.Render(pipeline.Machine{
		VMI: vmi, Defaults: cluster.Frontend, Frozen: frozen, Host: host, Bindings: backend.AssumedBindings(vmi)})
	if len(errs) > 0 {
		g.verdict.Errors = errs
		g.reject(o.ErrOut)
		return ErrRejected
	}
	xml, err := rendered.Documents.Domain.Marshal()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(o.Out, xml)
	return err
}

// capabilities are those of --host, else assumed ones for the guest's architecture.
func (o *options) capabilities(architecture string) (backend.Capabilities, error) {
	if o.host == "" {
		return backend.Assumed(architecture), nil
	}
	var host backend.Capabilities
	raw, err := os.ReadFile(o.host)
	if err == nil {
		err = yaml.UnmarshalStrict(raw, &host)
	}
	return host, err
}
