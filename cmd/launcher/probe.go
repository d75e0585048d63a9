package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/kilnvm/kiln/internal/guest"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/pkg/identity"
	"github.com/kilnvm/kiln/pkg/pod"
	"github.com/spf13/cobra"
)

// probeOptions are the flags of 'launcher probe'. kubelet runs it in the container of the guest's pod.
type probeOptions struct {
	vmi, namespace, root string
	seconds              int
}

// probeCommand returns 'launcher probe'. Package pod has the names of its subcommands.
func probeCommand() *cobra.Command {
	o := &probeOptions{}
	cmd := &cobra.Command{Use: pod.ProbeCommand, Short: "Ask the guest agent of this pod's guest, for the probes of the pod"}
	flags := cmd.PersistentFlags()
	flags.StringVar(&o.vmi, "vmi", os.Getenv(pod.EnvVMI), "name of the VirtualMachineInstance; VMI_NAME if that is set")
	flags.StringVar(&o.namespace, "namespace", os.Getenv(pod.EnvNamespace), "namespace of pod and VMI; POD_NAMESPACE if that is set")
	flags.StringVar(&o.root, "root", "/", "folder that the launcher's own folder is below")
	flags.IntVar(&o.seconds, "timeout", 1, "seconds in which the guest must answer")
	cmd.AddCommand(
		&cobra.Command{
			Use: pod.ProbePing, Short: "Succeed if the guest agent answers", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return asFailure(o.askLibvirt(cmd.Context(), func(ctx context.Context, libvirt *hypervisor.Libvirt, domain string) error {
					return libvirt.Ping(ctx, domain)
				}))
			},
		},
		&cobra.Command{
			Use: pod.ProbeExec + " -- COMMAND [ARGUMENT...]", Short: "Run a command in the guest, and succeed if it does", Args: cobra.MinimumNArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				return asFailure(o.askLibvirt(cmd.Context(), func(ctx context.Context, libvirt *hypervisor.Libvirt, domain string) error {
					ended, err := libvirt.Execute(ctx, domain, args)
					if err != nil {
						return err
					}
					return printExecution(cmd, args[0], ended)
				}))
			},
		})
	return cmd
}

// printExecution prints the output of a command in the guest. An exit status other than 0 is an error.
func printExecution(cmd *cobra.Command, program string, ended hypervisor.Execution) error {
	fmt.Fprint(cmd.OutOrStdout(), string(ended.Output))
	fmt.Fprint(cmd.ErrOrStderr(), string(ended.Errors))
	if ended.ExitStatus != 0 {
		return fmt.Errorf("'%s' has ended with status %d in the guest", program, ended.ExitStatus)
	}
	return nil
}

// askLibvirt calls question with the libvirt of the pod, within the time limit.
func (o *probeOptions) askLibvirt(ctx context.Context, question func(context.Context, *hypervisor.Libvirt, string) error) error {
	if o.vmi == "" || o.namespace == "" {
		return misuse{errors.New("--vmi and --namespace must be set")}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(max(1, o.seconds))*time.Second)
	defer cancel()
	daemon := guest.Daemon{Folder: filepath.Join(o.root, pod.Private)}
	libvirt := hypervisor.NewSession(daemon.Socket())
	defer libvirt.Close()
	return question(ctx, libvirt, identity.DomainName(o.namespace, o.vmi))
}
