package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"

	"github.com/kilnvm/kiln/internal/lifecycle"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/pipeline"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

func renderCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "render (-f FILE|DIR|- | -k DIR | vm/NAME ...)",
		Short: "Print the libvirt domain that each VM would boot",
		Long: "Print the libvirt domain that each VM would boot, on the host that --host describes, else on an assumed one:\n" +
			"QEMU in /usr/bin, firmware at Debian's paths, files below /var/lib/kiln. A VM of the cluster that has run before\n" +
			"keeps the hardware that is on record.",
		Example: "  kubectl kiln render -f vm.yaml | virt-xml-validate -\n" +
			"  kubectl kiln render vm/web -n shop --host host.yaml",
	}
	host := cmd.Flags().String("host", "", "YAML file with the host's capabilities")
	o.addProfiles(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return o.eachGuest(cmd, args, func(g guest) error { return o.printDomain(g, *host) })
	}
	o.addInputs(cmd)
	o.addOutput(cmd, "xml", "xml", "yaml", "json")
	return cmd
}

func (o *options) printDomain(g guest, host string) error {
	rendered, errs, err := o.boot(g, host, g.frozen)
	if err != nil {
		return err
	}
	if len(errs) > 0 {
		g.verdict.Errors = errs
		g.reject(o.ErrOut)
		return ErrRejected
	}
	xml, err := rendered.Documents.Domain.Marshal()
	if err != nil {
		return err
	}
	if o.output != "xml" {
		return o.print(map[string]string{"object": g.name(), "domain": xml})
	}
	_, err = fmt.Fprintln(o.Out, xml)
	return err
}

// boot renders a guest on a host, with the hardware of an earlier boot if there was one.
func (o *options) boot(g guest, host string, frozen *abi.Record) (pipeline.Rendered, field.ErrorList, error) {
	if g.forgotten != nil {
		return pipeline.Rendered{}, nil, fmt.Errorf("which hardware the guest had before is not known: %w", g.forgotten)
	}
	capabilities, err := readHost(host, g.explicit.Spec.Architecture)
	if err != nil {
		return pipeline.Rendered{}, nil, err
	}
	profiles, err := g.profiles()
	if err != nil {
		return pipeline.Rendered{}, nil, err
	}
	if host == "" {
		o.elsewhere(profiles, g.explicit.Labels)
	}
	vmi := g.explicit.DeepCopy()
	if frozen != nil {
		pipeline.Recall(vmi, frozen)
	}
	// A guest of a file has no UID yet, and its VM no identity: any that stays the same will do.
	pipeline.Identify(vmi, cmp.Or(vmi.Annotations[pipeline.AnnotationIdentity], string(vmi.UID), vmi.Namespace+"/"+vmi.Name))
	rendered, errs := pipeline.Render(pipeline.Machine{
		VMI: vmi, Defaults: g.input.Cluster.Frontend, Frozen: frozen, Host: capabilities, Bindings: backend.AssumedBindings(vmi), Profiles: profiles})
	return rendered, errs, nil
}

// readHost reads the capabilities of a host from a file; without one they are assumed for the guest's architecture.
func readHost(file, architecture string) (backend.Capabilities, error) {
	if file == "" {
		return backend.Assumed(architecture), nil
	}
	var host backend.Capabilities
	raw, err := os.ReadFile(file)
	if err != nil {
		return host, err
	}
	if err := yaml.UnmarshalStrict(raw, &host); err != nil {
		return host, fmt.Errorf("%s: %w", file, err)
	}
	return host, nil
}

// remember gives a guest the hardware that it had before: from its own annotation, or from the records of its VM. A rejected
// guest has none to be rendered with.
func (g *guest) remember(ctx context.Context, reader client.Reader) error {
	if !g.verdict.Allowed() {
		return nil
	}
	var err error
	if text := g.explicit.Annotations[pipeline.AnnotationFrontend]; text != "" {
		if g.frozen, err = abi.Parse(text); err != nil {
			at := field.NewPath("metadata", "annotations")
			if g.vm != nil {
				at = field.NewPath("spec", "template", "metadata", "annotations")
			}
			g.verdict.Errors = field.ErrorList{field.Invalid(at.Key(pipeline.AnnotationFrontend), field.OmitValueType{}, err.Error())}
		}
		return nil
	}
	if g.vm == nil || g.vm.UID == "" || g.vm.Annotations[pipeline.AnnotationHardware] == "latest" {
		return nil
	}
	records, err := lifecycle.Records(ctx, reader, g.vm)
	if apierrors.IsForbidden(err) {
		g.forgotten = err // only what is rendered needs it
		return nil
	}
	if err == nil && len(records) > 0 {
		g.frozen, err = abi.Parse(string(records[0].Data.Raw))
	}
	return err
}
