package main

import (
	"errors"
	"fmt"
	goruntime "runtime"

	"github.com/kilnvm/kiln/internal/command"
	"github.com/kilnvm/kiln/internal/devices"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kubeconfig "sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// mostDevices keeps the list of a device's copies, which kubelet gets in one gRPC message, far below the limit of 4 MiB for such a message.
const mostDevices = 10000

// devicesCommand returns 'launcher devices', which runs until it is stopped. Guests continue to run when it ends.
func devicesCommand(o *options) *cobra.Command {
	agent := &devices.Agent{}
	cmd := &cobra.Command{
		Use: "devices", Short: "Serve this machine's devices to kubelet, and tell what the node lacks",
		Long: "Serve /dev/kvm, /dev/net/tun, /dev/vhost-net and /dev/vhost-vsock to kubelet as KubeVirt's resources, install the seccomp\n" +
			"profile of guests whose network passt serves, and write to the Node of this machine what is missing: labels kilnvm.io/passt and\n" +
			"kilnvm.io/kvm, and condition KilnGuests. Annotation kilnvm.io/machine-types of the Node lists the machine types of QEMU in the\n" +
			"image. The command runs as root, without privileges: manifests/devices has its DaemonSet.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if agent.Count < 1 || agent.Count > mostDevices {
				return misuse{fmt.Errorf("--device-count is %d, want 1 to %d", agent.Count, mostDevices)}
			}
			return asFailure(command.Stopped(cmd.Context(), o.runDevices(cmd, agent)))
		},
	}
	flags, folders := cmd.Flags(), &agent.Folders
	flags.IntVar(&agent.Count, "device-count", 1000, "how many guests may have a device at a time; KubeVirt's default")
	flags.StringVar(&folders.Plugins, "device-plugins", "/var/lib/kubelet/device-plugins", "kubelet's folder of sockets, which no flag of kubelet moves")
	flags.StringVar(&folders.Seccomp, "seccomp", "/var/lib/kubelet/seccomp", "kubelet's folder of seccomp profiles, 'seccomp' of its --root-dir")
	flags.StringVar(&folders.CDI, "cdi", "/var/run/cdi", "folder in which the container runtime finds descriptions of devices")
	flags.StringVar(&folders.Dev, "dev", "/dev", "/dev of the machine")
	flags.StringVar(&folders.Containerd, "containerd", "/etc/containerd", "folder of containerd's config.toml")
	folders.Proc = "/proc"
	agent.Emulator = backend.Assumed(goruntime.GOARCH).Emulators[goruntime.GOARCH]
	o.AddLog(flags)
	o.AddServing(flags)
	return cmd
}

// runDevices returns when the context ends, or with the error of a wrong configuration. It has no cache: it reads one Node every two minutes.
func (o *options) runDevices(cmd *cobra.Command, agent *devices.Agent) error {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return err
	}
	agent.Node, agent.Log = o.name, command.Log(o.LogLevel)
	access, err := kubeconfig.GetConfig()
	if err != nil {
		return err
	}
	if agent.Cluster, err = client.New(access, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(access, ctrl.Options{
		Scheme: scheme, HealthProbeBindAddress: o.Health, Metrics: metricsserver.Options{BindAddress: o.Metrics},
	})
	if err != nil {
		return err
	}
	if err := errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("node", agent.Ready), mgr.Add(agent)); err != nil {
		return err
	}
	return mgr.Start(cmd.Context())
}
