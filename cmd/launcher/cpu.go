package main

import (
	"context"
	"os"

	"github.com/kilnvm/kiln/internal/command"
	"github.com/kilnvm/kiln/internal/daemon"
	"github.com/kilnvm/kiln/internal/guest"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/internal/nodecpu/reporter"
	"github.com/kilnvm/kiln/pkg/pod"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kubeconfig "sigs.k8s.io/controller-runtime/pkg/client/config"
)

// cpuCommand returns 'launcher cpu', which runs until it is stopped.
func cpuCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use: "cpu", Short: "Tell which CPUs guests in pods have on this machine",
		Long: "Start libvirt in session mode for a moment, ask which CPUs it offers to guests, and write the answer into the labels of the Node of this\n" +
			"machine: cpu-feature.kilnvm.io/NAME, cpu-model.kilnvm.io/NAME and cpu-vendor.kilnvm.io/NAME. Pods of guests select these labels. If the\n" +
			"process cannot use /dev/kvm, or with --kvm=never, the answer is about guests without KVM, and the Node gets label\n" +
			"kilnvm.io/cpu-emulated. The process needs the account of the pods of guests: manifests/devices contains its DaemonSet.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if os.Getpid() != 1 {
				return asFailure(o.runCPU(cmd.Context()))
			}
			status, err := guest.Init() // it reaps the QEMUs that libvirt probes
			if err == nil {
				os.Exit(status) // the child has logged the reason
			}
			return asFailure(err)
		},
	}
	o.AddLog(cmd.Flags())
	return cmd
}

// runCPU returns when the context ends, or with the error of a wrong configuration.
func (o *options) runCPU(ctx context.Context) error {
	if err := o.checkKVM(); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return err
	}
	access, err := kubeconfig.GetConfig()
	if err != nil {
		return err
	}
	cluster, err := client.New(access, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	log := command.Log(o.LogLevel)
	own := &guest.Daemon{Program: defaultLibvirtd, Folder: pod.Private, Log: os.Stderr}
	own.Prepare = func() error { return daemon.ProvideCapabilities("/", own.CacheHome()) }
	reports := &reporter.Reporter{Node: o.name, Cluster: cluster, Log: log, Ask: func(ctx context.Context) (offered hypervisor.OfferedCPUs, err error) {
		err = own.RunWhile(ctx, func(ctx context.Context) error {
			libvirt := hypervisor.NewSession(own.Socket())
			defer libvirt.Close()
			offered, err = libvirt.OfferedCPUs(ctx, hypervisor.KVM(o.kvm))
			return err
		})
		return offered, err
	}}
	reports.Run(ctrl.LoggerInto(ctx, log))
	return nil
}
