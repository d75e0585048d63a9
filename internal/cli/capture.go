package cli

import (
	"fmt"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/spf13/cobra"
)

// captureRun is a run of 'capture'.
type captureRun struct{ cmdutil.Inputs }

// 'capture' is for a domain that another program created and whose VM moves to Kiln. Without a record, the guest would get other addresses at its first boot
// with Kiln. The record is printed as an object, so that a user can read it before it is created.

// captureOptions are the flags of one call. domain and host are files; domain may be '-'.
type captureOptions struct {
	domain, host string
	kubevirt     bool
}

// captureCommand returns 'capture'.
// The exit status is 1 if the VM is rejected or does not match the domain, and 2 if the domain cannot be read, or if the user does not name exactly one VM.
// The output is a manifest in every format, because it is piped to 'kubectl create -f -'.
func captureCommand(s *cmdutil.Session) *cobra.Command {
	o := &captureRun{cmdutil.NewInputs(s)}
	cmd := &cobra.Command{
		Use:   "capture (-f FILE|- | vm/NAME) --domain XML",
		Short: "Record the hardware of a running libvirt domain",
		Long: "Record the hardware of a running libvirt domain, so that the VM that takes it over boots with the same\n" +
			"addresses, MACs, UUID and machine. A domain that does not match the VM's spec is refused, with the field. The\n" +
			"output is the GuestHardware of the VM, which an administrator creates before the VM starts.",
		Example: "  kubectl kiln capture -f vm.yaml --domain web.xml\n" +
			"  kubectl kiln capture vm/web --domain web.xml | kubectl create -f -",
	}
	var c captureOptions
	cmd.Flags().StringVar(&c.domain, "domain", "", "file with the XML of the domain, or - for the standard input")
	cmd.Flags().StringVar(&c.host, "host", "", "file with the HostCapabilities of the host that it runs on")
	cmd.Flags().BoolVar(&c.kubevirt, "kubevirt", false,
		"KubeVirt will run the VM: record only the machine type, the CPU and the addresses of devices, also of hotplugged ones")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		running, err := workbench.ReadRunning(c.domain, o.In)
		if err != nil {
			return err
		}
		all, err := o.ReviewArguments(cmd.Context(), args)
		if err != nil {
			return err
		}
		found, err := o.BootableGuests(all)
		switch {
		case err != nil:
			return err
		case len(found) != 1: // a domain is the hardware of one VM
			return fmt.Errorf("name one VM or VMI for the domain, not %d", len(found))
		}
		return o.printHardware(found[0], running, c)
	}
	o.AddInputs(cmd)
	o.AddOutput(cmd, "yaml", "yaml", "json")
	return cmd
}

// printHardware prints the GuestHardware. If the domain differs from the spec, it prints the fields and refuses: with a partial record, the hardware that the
// record leaves out would move. manifests/policies/hardware.yaml says who may create a GuestHardware in a cluster.
func (o *captureRun) printHardware(r workbench.Reviewed, running workbench.Running, c captureOptions) error {
	if c.kubevirt {
		xml, domain := running.Places()
		taken, err := workbench.CapturePlaces(r, xml, domain)
		if err != nil {
			return err
		}
		return o.PrintManifest(taken, "")
	}
	taken, err := workbench.Capture(r, running, c.host)
	if err != nil {
		return o.PrintRefusal(err)
	}
	return o.PrintManifest(taken, "")
}
