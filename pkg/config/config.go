// Package config has the configuration of a cluster as values: the defaults that package mutate fills, the limits with which package validate compares, and the
// values of the frontend that no field of the API governs. It reads no files and no cluster: callers pass KubeVirt's spec.configuration
// (KubeVirtConfiguration). Fields of spec.configuration that this package does not read have no effect in Kiln.
package config

import (
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	v1 "kubevirt.io/api/core/v1"
)

// Cluster is the configuration of a cluster.
type Cluster struct {
	Defaults Defaults
	Limits   Limits
	// Frontend does not include the FrontendProfile in force, which is in Defaults. The method FrontendDefaults returns both together.
	Frontend FrontendDefaults
	// Policy is instancetype.referencePolicy. It decides whether a VM keeps its references to instancetype and preference, or is expanded.
	Policy v1.InstancetypeReferencePolicy
	Pods   Pods
}

// Defaults are the values that the passes of package mutate fill. They are the spec of a ClusterConfiguration, to which a VM is pinned.
type Defaults = v1alpha1.ClusterConfigurationSpec

// LiveUpdate is liveUpdateConfiguration: the limits to which CPUs and memory may grow while a guest runs.
type LiveUpdate = v1alpha1.LiveUpdateLimits

// Limits are the values with which the rules of package validate compare. Unlike Defaults they are never pinned: a VM is judged by the current limits.
type Limits struct {
	// Version is the KubeVirt whose rules apply: the one that runs the guests, or the newest.
	Version Version
	// Architecture is the default architecture of the cluster.
	Architecture string
	// EmulatedMachines are the glob patterns of allowed machine types, by architecture.
	EmulatedMachines map[string][]string
	// BridgeOnPodNetwork is network.permitBridgeInterfaceOnPodNetwork.
	BridgeOnPodNetwork   bool
	LiveUpdate           *LiveUpdate
	EvictionStrategy     *v1.EvictionStrategy
	PermittedHostDevices *v1.PermittedHostDevices
	// PersistentReservation allows LUNs with SCSI persistent reservations (persistentReservationConfiguration.enabled).
	PersistentReservation bool
	// Controllers are the accounts that create and manage VMIs. Only they may set the owner and the labels by which VMIs are managed.
	Controllers []string
	// KubeVirt are KubeVirt's accounts among Controllers. They may change what KubeVirt changes in a running VMI; KubeVirt's webhooks judge these changes.
	KubeVirt []string
	// Updaters are the accounts among Controllers that change the spec of a VMI whose guest runs, by the rollout strategy LiveUpdate.
	Updaters []string
	// Launchers are the accounts among Controllers that run the VMIs of one node.
	Launchers []string
	// Migrators are the accounts among Controllers that may change status.nodeName of a running VMI.
	Migrators []string
	// Restorers are the accounts among Controllers that restore a VM as it was, including its pins, on behalf of other users.
	Restorers []string
	// Collectors are the accounts of the garbage collector. They may remove a VMI's owner ('kubectl delete vm --cascade=orphan').
	Collectors []string
	// KubeVirtGuests means that KubeVirt, beside Kiln, makes VMIs and runs their guests. VMs with features that only Kiln's launcher supports are refused or get
	// a warning.
	KubeVirtGuests bool
	// Runtime is how guests run that KubeVirt does not run. It is empty if that is not known, such as offline.
	Runtime Runtime
	// Assumed means that the configuration was not read from a cluster, such as offline. There are then no warnings about what the configuration lacks.
	Assumed bool
	Gates   Gates
}

// Runtime is how Kiln runs guests.
type Runtime string

// Runtimes. RuntimePod makes a pod of each VMI, RuntimeNode leaves VMIs to 'launcher node' on bare machines. A VM that the runtime never starts is refused.
const (
	RuntimePod  Runtime = "pod"
	RuntimeNode Runtime = "node"
)

// CheckRuntime returns an error for a value of --runtime that does not exist.
func CheckRuntime(value string) error {
	if runtime := Runtime(value); runtime != RuntimePod && runtime != RuntimeNode {
		return fmt.Errorf("--runtime is '%s': it must be '%s' or '%s'", value, RuntimePod, RuntimeNode)
	}
	return nil
}

// RunsInPods reports whether guests run in Kiln's pods.
func (l Limits) RunsInPods() bool { return l.Runtime == RuntimePod && !l.KubeVirtGuests }

// FrontendDefaults are values that a guest sees and no field of the API governs. They have one version together.
type FrontendDefaults struct {
	// Version is the version of all values, which every hardware record has. It is the name of a FrontendProfile, or the number of Kiln's own values.
	Version string
	SMBIOS  SMBIOS
	// BIOS are the strings of the BIOS of guests that boot by BIOS.
	BIOS BIOS
	// FreePorts is the number of empty PCIe root ports of a new guest, for devices that are plugged in later.
	FreePorts int
	// EFIVideo is the video model of VMIs on amd64 that boot by EFI and do not set devices.video.type. Video is the video model of all other VMIs, by
	// architecture.
	EFIVideo string
	Video    map[string]string
	// USBModel is the model of the USB controllers; empty for qemu-xhci.
	USBModel string
	// DeflateOnOOM lets the guest take memory back from the balloon before it kills a process.
	DeflateOnOOM bool
	// GenerationID adds the VM Generation ID device, by which a guest detects that it was restored or cloned.
	GenerationID bool
	// HostDevicesByNUMANode shows the guest of a VMI with numa.guestMappingPassthrough which mirrored NUMA node each of its host devices is
	// attached to. It is the feature gate PCINUMAAwareTopology.
	HostDevicesByNUMANode bool
}

// SMBIOS are the system strings of the guest's DMI table, KubeVirt's smbios. Empty strings are left out.
type SMBIOS struct{ Manufacturer, Product, Family, Version, SKU string }

// BIOS are the strings of the BIOS in the guest's DMI table. If they are empty, the firmware writes its own strings.
type BIOS struct{ Vendor, Version, Date string }

// Default returns the configuration of a cluster that sets nothing.
func Default() Cluster { c, _ := FromKubeVirt(v1.KubeVirtConfiguration{}); return c }

// RunsOnMachines reports whether guests run on bare machines.
func (l Limits) RunsOnMachines() bool { return l.Runtime == RuntimeNode && !l.KubeVirtGuests }
