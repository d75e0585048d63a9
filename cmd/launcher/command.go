package main

import (
	"flag"
	"maps"
	"os"

	"github.com/kilnvm/kiln/internal/command"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	kubeconfig "sigs.k8s.io/controller-runtime/pkg/client/config"
)

// options are the flags of all of the launcher's commands, because a process runs one command.
type options struct {
	// Flags of all commands, about the machine and the configuration of the cluster.
	name, socket, kvm, config string
	labels                    map[string]string
	// Flags of 'node', about folders, which hostresources.Folders checks, and networks.
	volumeRoot, state, claims, tpmKeys, tpmStates string
	bridges                                       map[string]string
	guard                                         bool
	// leases is the namespace of the Leases.
	leases string
	// Flags of 'render' and 'capture'.
	file, namespace, bindings, hardware string
	command.Process
}

// newCommand returns the command 'launcher' with its subcommands. Health checks and metrics are off by default. cobra does not print errors, because main
// prints them once, without the usage text, which would hide them.
func newCommand() *cobra.Command {
	o := &options{Process: command.Process{Health: "0", Metrics: "0"}}
	cmd := &cobra.Command{
		Use: "launcher", Short: "Run the guest of a pod, or VMIs of a machine, and render the libvirt documents of admitted VMIs",
		SilenceUsage: true, SilenceErrors: true,
		Annotations: map[string]string{
			"status": "The exit status is 0 for success, 1 for a refused VMI or a node that cannot go on, and 2 for wrong usage and every\nother error.",
		},
	}
	hostname, _ := os.Hostname()
	flags := cmd.PersistentFlags()
	flags.AddGoFlag(flag.Lookup(kubeconfig.KubeconfigFlagName))
	flags.StringVar(&o.name, "node", hostname, "name of this machine, which VMIs that it claims have in status.nodeName")
	flags.StringVar(&o.socket, "libvirt", hypervisor.DefaultSocket, "unix socket of the libvirt daemon")
	flags.StringVar(&o.kvm, "kvm", string(hypervisor.KVMAuto), "'auto' uses KVM if libvirt offers it, 'never' emulates CPUs")
	flags.StringToStringVar(&o.labels, "labels", nil,
		"labels of this machine besides "+corev1.LabelHostname+", matched by spec.nodeSelector of VMIs and HostProfiles")
	flags.StringVar(&o.config, "config", "", command.ConfigUsage)
	cmd.AddCommand(guestCommand(), probeCommand(), devicesCommand(o), cpuCommand(o), nodeCommand(o), renderCommand(o), captureCommand(o), hookCommand(o))
	return cmd
}

// allLabels returns the labels of this machine. They include its name, as on a Node, so that a VMI can select one machine. A label kubernetes.io/hostname in
// --labels wins.
func (o *options) allLabels() map[string]string {
	labels := map[string]string{corev1.LabelHostname: o.name}
	maps.Copy(labels, o.labels)
	return labels
}
