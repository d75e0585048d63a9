package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/spf13/cobra"
	"libvirt.org/go/libvirtxml"
)

// captureOptions are the flags of one call.
type captureOptions struct{ domain, host string }

func captureCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "capture (-f FILE|- | vm/NAME) --domain XML",
		Short: "Record the hardware of a libvirt domain that runs already",
		Long: "Record the hardware of a libvirt domain that runs already, started by whomever, so that the VM that takes it over\n" +
			"boots with the same addresses, MACs, UUID and machine. What the VM's spec does not match is refused, with the\n" +
			"field that it comes from. It is printed as the GuestHardware of the VM, for an administrator to create before the\n" +
			"VM starts.",
		Example: "  kubectl kiln capture -f vm.yaml --domain web.xml\n" +
			"  kubectl kiln capture vm/web --domain web.xml | kubectl create -f -",
	}
	var c captureOptions
	cmd.Flags().StringVar(&c.domain, "domain", "", "file with the XML of the domain, or - for the standard input")
	cmd.Flags().StringVar(&c.host, "host", "", "YAML file with the capabilities of the host that it runs on")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		running, err := o.readDomain(c.domain)
		if err != nil {
			return err
		}
		all, err := o.guests(cmd.Context(), args)
		if err != nil {
			return err
		}
		found, err := o.explicit(all)
		switch {
		case err != nil:
			return err
		case len(found) != 1:
			return fmt.Errorf("a domain is that of one VM or VMI, and %d are given", len(found))
		}
		return o.capture(found[0], running, c.host)
	}
	o.addInputs(cmd)
	o.addOutput(cmd, "yaml", "yaml", "json")
	return cmd
}

func (o *options) capture(g guest, running *libvirtxml.Domain, host string) error {
	capabilities, err := readHost(host, g.explicit.Spec.Architecture)
	if err != nil {
		return err
	}
	if host == "" {
		capabilities.Machines = nil // which machines its host has is not known: that of the domain is one
	}
	taken, errs := render.Capture(render.Machine{VMI: g.explicit, Defaults: g.input.Cluster.Frontend,
		Host: capabilities, Bindings: backend.AssumedBindings(g.explicit)}, running)
	if len(errs) > 0 {
		g.verdict = admit.Verdict{Errors: errs} // its warnings have been told
		return o.refuse(g, host)
	}
	return o.print(render.GuestHardware(g.explicit, taken))
}

func (o *options) readDomain(file string) (*libvirtxml.Domain, error) {
	var raw []byte
	var err error
	switch file {
	case "":
		return nil, errors.New("name the file with the XML of the domain: --domain FILE")
	case "-":
		raw, err = io.ReadAll(o.In)
	default:
		raw, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, err
	}
	dom := &libvirtxml.Domain{}
	if err := dom.Unmarshal(string(raw)); err != nil {
		return nil, fmt.Errorf("%s is not the XML of a libvirt domain: %w", file, err)
	}
	return dom, nil
}
