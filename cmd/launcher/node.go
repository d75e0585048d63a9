package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/clusterconfig"
	"github.com/kilnvm/kiln/internal/command"
	"github.com/kilnvm/kiln/internal/hostresources"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/internal/node"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	kubeconfig "sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// nodeCommand returns 'launcher node', which runs until it is stopped. Guests continue to run when it ends.
func nodeCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use: "node", Short: "Claim, define, start, stop and report the VMIs of this machine",
		Long: "Claim, define, start, stop and report the VMIs of this machine, outside of any pod. It is for one machine of one tenant: it separates no tenants,\n" +
			"and knows neither storage classes nor the networks of the cluster. In a cluster, Kiln's controller makes a pod for each VMI ('launcher guest').",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return asFailure(command.Stopped(cmd.Context(), o.runNode(cmd.Context())))
		},
	}
	cmd.Flags().StringVar(&o.volumeRoot, "volume-root", "", "folder of hostDisk and containerDisk files; empty serves none")
	cmd.Flags().StringVar(&o.claims, "claims", "", "folder with descriptions of PersistentVolumeClaims and their keys; empty serves no claims")
	cmd.Flags().StringVar(&o.state, "state", "/var/lib/kiln", "folder for overlays, empty disks, cloud-init images, sockets and logs")
	cmd.Flags().StringVar(&o.tpmKeys, "tpm-keys", "",
		"folder of the keys that TPM states are encrypted with, each created at the first start of its VMI; empty encrypts none")
	cmd.Flags().StringVar(&o.leases, "lease-namespace", os.Getenv("POD_NAMESPACE"),
		"namespace of the Lease that only one launcher of a --node can hold; POD_NAMESPACE if that is set")
	cmd.Flags().StringVar(&o.tpmStates, "tpm-states", hostresources.DefaultTPMStates,
		"folder of libvirt's TPM states; the states of VMIs are in its folder '"+hostresources.OwnTPMStates+"'")
	cmd.Flags().BoolVar(&o.guard, "guard", false, "allow guests on bridges to send under their own MAC addresses only; requires ebtables on this machine")
	cmd.Flags().StringToStringVar(&o.bridges, "bridge", nil, "NETWORK=BRIDGE: bridge of this machine for interfaces of NETWORK with the bridge binding")
	o.AddLog(cmd.Flags())
	o.AddServing(cmd.Flags())
	return cmd
}

// runNode runs until the context ends. Until libvirt answers, it claims no VMI, and only writes the domain XML of VMIs that it could run into the state
// folder. It returns an error if a flag or folder is refused, if the cluster does not answer at the start, or if another launcher with the same name is
// running.
func (o *options) runNode(ctx context.Context) error {
	log := command.Log(o.LogLevel)
	libvirt := hypervisor.New(o.socket)
	defer libvirt.Close()
	n, err := o.newNode(libvirt)
	if err != nil {
		return err
	}
	// If libvirt starts later, Node learns the capabilities without a restart of the launcher.
	first, cancel := context.WithTimeout(ctx, hypervisor.QueryDeadline)
	defer cancel()
	if err := n.Learn(first); err != nil {
		log.Info("libvirt is not reachable: no VMI is claimed until it is; documents are only rendered into the state folder", "reason", err.Error())
	}
	mgr, err := o.newManager(ctx)
	if err != nil {
		return err
	}
	// The Lease is in the cluster of the manager, in which the machine's name is unique.
	if n.Lease, err = node.NewLease(mgr.GetConfig(), o.leases, o.name); err != nil {
		return err
	}
	// Live reads from the API server: before a start, an old VMI or record would do harm.
	n.Client, n.Live, n.Events = mgr.GetClient(), mgr.GetAPIReader(), mgr.GetEventRecorder("kiln-launcher")
	n.Configuration = &clusterconfig.Watcher{File: o.config, Cache: mgr.GetCache(), Mapper: mgr.GetRESTMapper(), Log: log.WithName("configuration")}
	if err := n.Configuration.Load(ctx); err != nil {
		return err
	}
	if err := errors.Join(mgr.Add(n.Configuration), n.SetupWithManager(mgr), metrics.Registry.Register(node.StraysEnded)); err != nil {
		return err
	}
	// The manager starts, and with it reconciling, only while this process holds the Lease.
	return n.Lease.During(ctx, func(ctx context.Context) error {
		if err := n.Identify(ctx); err != nil {
			return err
		}
		return mgr.Start(ctx)
	})
}

// newManager returns a manager for the cluster of the kubeconfig, which serves health checks and metrics. It does not elect a leader, because the Lease of the
// machine's name allows one launcher for each machine. The scheme has only VMIs and Kiln's kinds, so that reading another kind by mistake is an error.
func (o *options) newManager(ctx context.Context) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(v1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	access, err := kubeconfig.GetConfig()
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(access, ctrl.Options{Scheme: scheme, HealthProbeBindAddress: o.Health, Metrics: metricsserver.Options{BindAddress: o.Metrics}})
	if err != nil {
		return nil, err
	}
	return mgr, command.Probe(ctx, mgr)
}

// checkKVM checks --kvm. A mistyped 'never' must not count as 'auto': guests would hang on machines where KVM does not work.
func (o *options) checkKVM() error {
	if kvm := hypervisor.KVM(o.kvm); kvm != hypervisor.KVMAuto && kvm != hypervisor.KVMNever {
		return misuse{fmt.Errorf("--kvm '%s' is not supported, use '%s' or '%s'", o.kvm, hypervisor.KVMAuto, hypervisor.KVMNever)}
	}
	return nil
}

// newNode returns the Node of this machine, without the capabilities that libvirt reports. It creates the folders that the launcher writes to. A wrong flag is
// a misuse, with exit status 2. A folder that is not safe is a failure.
func (o *options) newNode(libvirt *hypervisor.Libvirt) (*node.Node, error) {
	if err := o.checkKVM(); err != nil {
		return nil, err
	}
	if o.leases == "" {
		return nil, misuse{errors.New("--lease-namespace must name the namespace of the Leases of launchers, which manifests/rbac makes")}
	}
	// All folders are checked before one is opened, because an overlap would give a tenant the keys of others.
	folders := hostresources.Folders{VolumeRoot: o.volumeRoot, Claims: o.claims, State: o.state, TPMKeys: o.tpmKeys, TPMStates: o.tpmStates}
	if err := folders.Prepare(); err != nil {
		return nil, err
	}
	volumes, err := hostresources.OpenRoot(o.volumeRoot)
	if err != nil {
		return nil, err
	}
	claims, err := hostresources.OpenClaims(o.claims)
	if err != nil {
		return nil, err
	}
	machine := &hostresources.BareMachine{Volumes: volumes, Claims: claims, State: o.state, TPMKeys: o.tpmKeys, TPMStates: o.tpmStates,
		Bridges: o.bridges, Guard: o.guard}
	return &node.Node{Name: o.name, Labels: o.allLabels(), KVM: hypervisor.KVM(o.kvm), Hypervisor: libvirt, Machine: machine,
		Assumed: o.assumedCapabilities()}, nil
}
