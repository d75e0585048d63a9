// Package config holds the configuration of a cluster as values: what mutate copies from, what validate compares
// against, and what stage 2 uses where no API field governs. It reads nothing; callers hand it a parsed
// KubeVirtConfiguration. What KubeVirt's own configuration has beyond the fields read here has no meaning for Kiln.
package config

import (
	"github.com/kilnvm/kiln/api/v1alpha1"
	v1 "kubevirt.io/api/core/v1"
)

// Cluster is everything that the pipeline knows of a cluster besides its objects.
type Cluster struct {
	Defaults Defaults
	Limits   Limits
	Frontend FrontendDefaults
	// Policy is KubeVirt's instancetype.referencePolicy: what happens to the reference to a size.
	Policy v1.InstancetypeReferencePolicy
}

// Defaults are the values that passes of mutate copy from. VMs keep them: they are the spec of a pinned ClusterConfiguration.
type Defaults = v1alpha1.ClusterConfigurationSpec

// LiveUpdate bounds what can be added to a running guest.
type LiveUpdate = v1alpha1.LiveUpdateLimits

// Limits are what rules of validate compare against.
type Limits struct {
	// EmulatedMachines are glob patterns of allowed machine types per architecture.
	EmulatedMachines     map[string][]string
	BridgeOnPodNetwork   bool
	LiveUpdate           *LiveUpdate
	EvictionStrategy     *v1.EvictionStrategy
	PermittedHostDevices *v1.PermittedHostDevices
	// PersistentReservation allows LUNs with SCSI persistent reservations.
	PersistentReservation bool
	// Controllers are the accounts that make guests and manage them. They alone set labels by which guests are managed.
	Controllers []string
	// Launchers are those of Controllers that run the guests of one node.
	Launchers []string
	// Migrators are those of Controllers that move a running guest to another node.
	Migrators []string
	// Collectors are the accounts of the garbage collector, which lets guests outlive their VM.
	Collectors []string
	Gates      Gates
}

// FrontendDefaults is one versioned value for guest-visible facts that no API field governs.
type FrontendDefaults struct {
	// Version names this set of defaults; it is recorded in every frozen frontend.
	Version string
	SMBIOS  SMBIOS
	// FreePorts is the number of empty PCIe root ports kept for hotplug.
	FreePorts int
	// EFIVideo is the video model of EFI guests on amd64 that name none ("bochs"), Video of all others ("vga", "virtio").
	EFIVideo string
	Video    map[string]string
	// GenerationID gives guests a device that tells them when they were restored or cloned.
	GenerationID bool
	// HostDevicesByNUMANode shows guests that mirror NUMA nodes which of them their host devices are next to.
	HostDevicesByNUMANode bool
}

// SMBIOS are the system strings that a guest reads from its DMI table. Empty strings are left out.
type SMBIOS struct{ Manufacturer, Product, Family, Version, SKU string }

// Default is the configuration of a cluster that configures nothing.
func Default() Cluster { c, _ := FromKubeVirt(v1.KubeVirtConfiguration{}); return c }
