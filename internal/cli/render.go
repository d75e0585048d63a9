package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/lifecycle"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/identity"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Stages of 'render'.
const (
	stageFrontend = "frontend"
	stageBackend  = "backend"
)

// renderOptions are the flags of one call.
type renderOptions struct {
	placing
	stage, folder string
	documents     bool
}

// placing is where and with what a guest is rendered.
type placing struct {
	// host is a file of capabilities, bindings one of what the host gives to this start; assumed where empty.
	host, bindings string
}

func renderCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "render (-f FILE|DIR|- | -k DIR | vm/NAME ...)",
		Short: "Print the libvirt domain that each VM would boot",
		Long: "Print the libvirt domain that each VM would boot, on the host that --host describes, else on an assumed one: QEMU in\n" +
			"/usr/bin, firmware at Debian's paths, files below /var/lib/kiln. A VM of the cluster that has run before keeps the\n" +
			"hardware that is on record. Several documents stand below one root, <documents>, or in files of --output-dir.",
		Example: "  kubectl kiln render -f vm.yaml | virt-xml-validate -\n" +
			"  kubectl kiln render vm/web -n shop --host host.yaml --documents --output-dir out/",
	}
	var r renderOptions
	flags := cmd.Flags()
	flags.StringVar(&r.host, "host", "", "YAML file with the host's capabilities")
	flags.StringVar(&r.bindings, "bindings", "", "YAML file with what the host gives to this start, in the place of what is assumed")
	flags.StringVar(&r.stage, "stage", stageBackend, "'frontend' prints all that the guest sees (stage 2), 'backend' the complete domain")
	_ = cmd.RegisterFlagCompletionFunc("stage", cobra.FixedCompletions([]string{stageFrontend, stageBackend}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	flags.BoolVar(&r.documents, "documents", false, "print the secrets (without values), network filters and node devices of the domain too")
	flags.StringVar(&r.folder, "output-dir", "", "write each document to DIR/NAMESPACE/NAME/KIND[-NAME].xml")
	o.addProfiles(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return o.render(cmd, args, r) }
	o.addInputs(cmd)
	o.addOutput(cmd, "xml", "xml", "yaml", "json")
	return cmd
}

func (o *options) render(cmd *cobra.Command, args []string, r renderOptions) error {
	switch {
	case r.stage != stageFrontend && r.stage != stageBackend:
		return fmt.Errorf("--stage '%s' is not supported, use %s or %s", r.stage, stageFrontend, stageBackend)
	case r.stage == stageFrontend && r.documents:
		return fmt.Errorf("--documents are those of the complete domain: leave out --stage %s", stageFrontend)
	case r.folder != "" && cmd.Flags().Changed("output"):
		return errors.New("--output-dir takes XML alone: leave out -o")
	}
	var all []render.Document
	err := o.eachGuest(cmd, args, func(g guest) error {
		documents, err := o.documentsOf(g, r)
		if err != nil {
			return err
		}
		if o.output != "xml" {
			return o.printDocuments(g, r.stage, documents)
		}
		if r.folder != "" {
			return writeDocuments(r.folder, g, documents)
		}
		all = append(all, documents...)
		return nil
	})
	if len(all) == 0 {
		return err
	}
	text, bundled := render.Bundle(all)
	if bundled != nil {
		return bundled
	}
	if _, failed := fmt.Fprintln(o.Out, text); failed != nil {
		return failed
	}
	return err
}

// boot renders a guest on a host, with the hardware of an earlier boot if there was one.
func (o *options) boot(g guest, at placing, frozen *record.Record) (render.Result, field.ErrorList, error) {
	machine, profiles, err := o.machine(g, at, frozen)
	if err != nil {
		return render.Result{}, nil, err
	}
	rendered, errs := render.UnderProfiles(machine, profiles)
	return rendered, errs, nil
}

// machine is the guest on a host, and the HostProfiles that may select both.
func (o *options) machine(g guest, at placing, frozen *record.Record) (m render.Machine, profiles []v1alpha1.HostProfile, err error) {
	if g.forgotten != nil {
		return m, profiles, fmt.Errorf("which hardware the guest had before is not known: %w", g.forgotten)
	}
	if m.Host, err = readHost(at.host, g.explicit.Spec.Architecture); err != nil {
		return m, profiles, err
	}
	if profiles, err = g.profiles(); err != nil {
		return m, profiles, err
	}
	if at.host == "" {
		o.elsewhere(profiles, g.explicit.Labels)
	}
	vmi := g.explicit.DeepCopy()
	if frozen != nil {
		identity.Recall(vmi, frozen)
	}
	// A guest of a file has no UID yet, and its VM no identity: any that stays the same will do.
	identity.Fill(vmi, cmp.Or(vmi.Annotations[v1alpha1.AnnotationIdentity], string(vmi.UID), vmi.Namespace+"/"+vmi.Name))
	m.VMI, m.Defaults, m.Frozen, m.Bindings = vmi, g.input.Cluster.Frontend, frozen, backend.AssumedBindings(vmi)
	return m, profiles, readYAML(at.bindings, &m.Bindings)
}

// readHost reads the capabilities of a host from a file; without one they are assumed for the guest's architecture.
func readHost(file, architecture string) (host backend.Capabilities, err error) {
	if file == "" {
		return backend.Assumed(architecture), nil
	}
	return host, readYAML(file, &host)
}

// readYAML reads a file over what is there; without one that stays.
func readYAML(file string, into any) error {
	if file == "" {
		return nil
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(raw, into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// remember gives a guest the hardware of its name, if it is the guest's. A rejected guest has none.
func (g *guest) remember(ctx context.Context, reader client.Reader) error {
	if !g.verdict.Allowed() {
		return nil
	}
	claim := lifecycle.Claim{VMI: g.explicit.UID, Identity: g.explicit.Annotations[v1alpha1.AnnotationIdentity]}
	if g.vm != nil {
		claim = lifecycle.ClaimOf(g.vm)
	}
	hardware, err := lifecycle.Hardware(ctx, reader, client.ObjectKeyFromObject(g.explicit))
	title := claim.Title(hardware)
	switch { // only what is rendered needs it
	case apierrors.IsForbidden(err):
		g.forgotten = err
	case err != nil:
		return err
	case title == lifecycle.Foreign:
		g.forgotten = errors.New(lifecycle.Foreigner(hardware))
	case title == lifecycle.Own && g.explicit.Annotations[v1alpha1.AnnotationHardware] != v1alpha1.HardwareLatest:
		g.frozen, g.forgotten = hardware.Spec.Hardware, record.Check(hardware.Spec.Hardware)
	}
	return nil
}
