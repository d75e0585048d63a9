package main

import (
	"fmt"

	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// captureCommand is 'launcher capture', for machines whose guests another program started, such as KubeVirt's virt-launcher or virsh.
func captureCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use: "capture (-f FILE | NAME)", Short: "Record the hardware of a running domain of this machine, for the VMI that replaces it",
		Long: "Record the hardware of a domain that runs on this machine, whichever program started it. Where the VMI's spec differs\n" +
			"from the domain, the field is refused. It is printed as GuestHardware, for an administrator to create before the VMI.",
		Args: cobra.MaximumNArgs(1),
	}
	cmd.Flags().StringVarP(&o.file, "filename", "f", "", "file with one explicit VirtualMachineInstance")
	cmd.Flags().StringVarP(&o.namespace, "namespace", "n", "default", "namespace of the VMI")
	name := cmd.Flags().String("domain", "", "name of the domain; defaults to the name that the launcher gives to the VMI's domain")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return o.captureDomain(cmd, args, *name) }
	return cmd
}

// captureDomain prints the record of a running domain. It does not change anything. libvirt must answer, because the record is compared with the domain that
// this host would render; an assumed host is not enough.
func (o *options) captureDomain(cmd *cobra.Command, args []string, name string) error {
	machine, _, err := o.readMachine(cmd, args)
	if err != nil {
		return err
	}
	host, daemon, err := o.hostCapabilities(cmd.Context())
	if err != nil {
		return err
	}
	if daemon == nil { // assumed capabilities
		return fmt.Errorf("libvirt is not reachable at '%s'", o.socket)
	}
	defer daemon.Close()
	// KubeVirt's domains have the same names, because Kiln has adopted their form.
	if name == "" {
		name = hypervisor.Owner{Namespace: machine.VMI.Namespace, Name: machine.VMI.Name}.Domain()
	}
	running, err := daemon.ActiveDomain(cmd.Context(), name)
	if err != nil {
		return err
	}
	// Paths and taps of the running domain do not matter: a record has only what the guest sees.
	machine.Host, machine.Bindings = host, backend.AssumedBindings(machine.VMI)
	record, errs := render.Capture(machine, running)
	if len(errs) > 0 {
		return asFailure(errs.ToAggregate())
	}
	text, err := yaml.Marshal(render.GuestHardware(machine.VMI, record))
	if err == nil {
		_, err = cmd.OutOrStdout().Write(text)
	}
	return err
}
