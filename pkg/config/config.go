// Package config holds the configuration of a cluster as values: the defaults that mutate fills in, the limits that validate compares
// with, and the frontend's values that no API field governs. It reads no file and no cluster: callers give it KubeVirt's
// spec.configuration (KubeVirtConfiguration). Fields of that which this package does not read have no effect in Kiln.
package config

import (
	"github.com/kilnvm/kiln/api/v1alpha1"
	v1 "kubevirt.io/api/core/v1"
)

// Cluster is all that the pipeline is given of a cluster besides its objects.
type Cluster struct {
	Defaults Defaults
	Limits   Limits
	// Frontend is without the FrontendProfile in force, which Defaults holds: FrontendDefaults returns both together.
	Frontend FrontendDefaults
	// Policy is instancetype.referencePolicy: whether a VM keeps its references to instancetype and preference, or is expanded.
	Policy v1.InstancetypeReferencePolicy
	Pods   Pods
}

// Defaults are the values that the passes of mutate fill in. They are the spec of a ClusterConfiguration, to which a VM is pinned.
type Defaults = v1alpha1.ClusterConfigurationSpec

// LiveUpdate is liveUpdateConfiguration: how far CPUs and memory may grow while a guest runs.
type LiveUpdate = v1alpha1.LiveUpdateLimits

// Limits are what the rules of validate compare with. Unlike Defaults they are never pinned: a VM is judged by those of today.
type Limits struct {
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
	// KubeVirt are the accounts among Controllers that are KubeVirt's: they change what KubeVirt changes in a VMI that runs, and its webhooks judge that.
	KubeVirt []string
	// Updaters are the accounts among Controllers that change the spec of a VMI whose guest runs, by the rollout strategy LiveUpdate.
	Updaters []string
	// Launchers are the accounts among Controllers that run the VMIs of one node.
	Launchers []string
	// Migrators are the accounts among Controllers that may change status.nodeName of a running VMI.
	Migrators []string
	// Restorers are the accounts among Controllers that bring a VM back as it was, pins included, for whoever asked for it.
	Restorers []string
	// Collectors are the accounts of the garbage collector. They may remove a VMI's owner ('kubectl delete vm --cascade=orphan').
	Collectors []string
	// KubeVirtGuests means that KubeVirt makes VMIs and runs their guests, beside Kiln. What Kiln's launcher alone serves is refused, or warned of.
	KubeVirtGuests bool
	// Assumed means that nobody has read the configuration of the cluster, such as offline. No warning then says what the configuration lacks.
	Assumed bool
	Gates   Gates
}

// FrontendDefaults are the facts that a guest sees and no API field governs. They are one versioned value.
type FrontendDefaults struct {
	// Version names this set of values. Every hardware record holds it. It is the name of a FrontendProfile, or the number of Kiln's own
	// values.
	Version string
	SMBIOS  SMBIOS
	// FreePorts is how many empty PCIe root ports a new guest gets, for devices that are plugged in later.
	FreePorts int
	// EFIVideo is the video model of VMIs on amd64 that boot by EFI and set no devices.video.type. Video is that of all others, by
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

// SMBIOS are the system strings of the guest's DMI table (smbios). Empty strings are left out.
type SMBIOS struct{ Manufacturer, Product, Family, Version, SKU string }

// Default returns the configuration of a cluster that sets nothing.
func Default() Cluster { c, _ := FromKubeVirt(v1.KubeVirtConfiguration{}); return c }
