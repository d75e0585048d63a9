package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/kilnvm/kiln/internal/command"
	"github.com/kilnvm/kiln/internal/daemon"
	"github.com/kilnvm/kiln/internal/guest"
	"github.com/kilnvm/kiln/internal/hostresources"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/pkg/pod"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	kubeconfig "sigs.k8s.io/controller-runtime/pkg/client/config"
)

// defaultLibvirtd is the libvirt daemon of the launcher's image.
const defaultLibvirtd = "/usr/sbin/libvirtd"

// guestOptions are the flags of 'launcher guest'. Their defaults are environment variables of the pod.
type guestOptions struct {
	vmi, namespace, podUID, node string
	network, libvirtd, root      string
	emulate                      bool
	log                          command.Process
}

// guestCommand returns 'launcher guest', process 1 in the container of a guest's pod.
func guestCommand() *cobra.Command {
	o := &guestOptions{}
	cmd := &cobra.Command{
		Use: "guest", Short: "Run the guest of this pod, as process 1 of its container",
		Long: "Run the guest of this pod, as process 1 of its container: start libvirt in session mode, report what the guest sees of the host, start what\n" +
			"Kiln's controller has made of that, and end with the guest. SIGTERM asks the guest to power off within the VMI's grace period.\n" +
			"Standard output has the guest's serial console, a log entry for each line; standard error has the log of the launcher and of libvirt.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if os.Getpid() != 1 {
				return asFailure(o.runGuest(cmd.Context()))
			}
			status, err := guest.Init()
			if err == nil {
				os.Exit(status) // the child has logged the reason
			}
			return asFailure(err)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.vmi, "vmi", os.Getenv(pod.EnvVMI), "name of the VirtualMachineInstance; VMI_NAME if that is set")
	flags.StringVar(&o.namespace, "namespace", os.Getenv(pod.EnvNamespace), "namespace of pod and VMI; POD_NAMESPACE if that is set")
	flags.StringVar(&o.podUID, "pod-uid", os.Getenv(pod.EnvPodUID), "UID of this pod; POD_UID if that is set")
	flags.StringVar(&o.node, "node-name", os.Getenv(pod.EnvNode), "name of the node, for messages; NODE_NAME if that is set")
	flags.StringVar(&o.network, "network", string(pod.Passt),
		"how the guest reaches the network of the pod: 'passt' gives it the pod's addresses, 'slirp' is QEMU's own NAT")
	flags.BoolVar(&o.emulate, "emulate", false, "emulate CPUs instead of using KVM (developerConfiguration.useEmulation)")
	flags.StringVar(&o.libvirtd, "libvirtd", defaultLibvirtd, "path of the libvirt daemon")
	flags.StringVar(&o.root, "root", "/", "folder that the volumes of the pod and the launcher's own folder are below")
	o.log.AddLog(flags)
	return cmd
}

// runGuest runs the guest until it has ended. The error is the reason why the guest failed, or a misuse.
func (o *guestOptions) runGuest(ctx context.Context) error {
	ctx = ctrl.LoggerInto(ctx, command.Log(o.log.LogLevel))
	// Ignore a second SIGTERM: kubelet sends one for each deletion of the pod, and the guest is stopping already.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT)
	if o.vmi == "" || o.namespace == "" || o.podUID == "" {
		return misuse{errors.New("--vmi, --namespace and --pod-uid must be set; the pod of a guest has them in VMI_NAME, POD_NAMESPACE and POD_UID")}
	}
	if network := pod.Network(o.network); network != pod.Passt && network != pod.Slirp {
		return misuse{fmt.Errorf("--network '%s' is not supported, use '%s' or '%s'", o.network, pod.Passt, pod.Slirp)}
	}
	access, err := kubeconfig.GetConfig()
	if err != nil {
		return err
	}
	client, err := guest.Connect(access)
	if err != nil {
		return err
	}
	cpus, err := allowedCPUs()
	if err != nil {
		return err
	}
	var files unix.Rlimit // passt raises its own limit to Max
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return err
	}
	if last := pod.LastForwardedPort(files.Max); pod.Network(o.network) == pod.Passt && last < pod.MostPort {
		ctrl.LoggerFrom(ctx).Info("this container may open too few files for all ports: an interface that lists none has the lower ones forwarded",
			"openFiles", files.Max, "lastPort", last)
	}
	own := &guest.Daemon{Program: o.libvirtd, Folder: filepath.Join(o.root, pod.Private), HugePages: filepath.Join(o.root, pod.HugePages), Log: os.Stderr}
	if o.emulate {
		own.Log = guest.WithoutDevice(os.Stderr)
	}
	own.Prepare = func() error { return daemon.ProvideCapabilities("/", own.CacheHome()) }
	libvirt := hypervisor.NewSession(own.Socket())
	defer libvirt.Close()
	g := &guest.Guest{
		NodeName: o.node, Emulate: o.emulate, Daemon: own, Hypervisor: libvirt, Agent: libvirt, Actions: libvirt, Live: libvirt, Serial: os.Stdout,
		Machine: &hostresources.Pod{Root: o.root, Network: pod.Network(o.network), CPUs: cpus, OpenFiles: files.Max, Getenv: os.Getenv},
		Channel: guest.NewChannel(client, types.NamespacedName{Namespace: o.namespace, Name: o.vmi}, types.UID(o.podUID)),
	}
	return g.Run(ctx)
}

// allowedCPUs returns the numbers of the CPUs in the pod's cpuset.
func allowedCPUs() (cpus []int, err error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("the CPUs of the pod: %w", err)
	}
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}
