package config

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Stage is the maturity of a feature gate.
type Stage string

// Stages, in the order in which a gate passes through them. A gate of stage Alpha, Deprecated or Discontinued is on if featureGates lists it, a Beta gate
// unless disabledFeatureGates lists it, and a GA gate always. Until KubeVirt 1.8 a Beta gate is on only if featureGates lists it.
const (
	Alpha        Stage = "Alpha"
	Beta         Stage = "Beta"
	GA           Stage = "GA"
	Deprecated   Stage = "Deprecated"
	Discontinued Stage = "Discontinued"
)

// Gates are the feature gates that are on, by name.
type Gates map[string]bool

// Enabled reports whether a gate is on. A gate that Kiln does not know is off.
func (g Gates) Enabled(name string) bool { return g[name] }

// AllGates returns gates that are all on. They are for objects that are meant for many clusters: what any of the clusters allows must not be refused.
func AllGates() Gates {
	on := Gates{}
	for name := range stages {
		on[name] = true
	}
	return on
}

// stages are the feature gates of KubeVirt v1.9.0 (its package pkg/virt-config/featuregate). Gates that Kiln does not read are listed too,
// because Warnings must tell them from typing errors. 'make kubevirt' prints the changes of a version.
var stages = map[string]Stage{
	"AlignCPUs":                          Alpha,
	"AutoResourceLimitsGate":             GA,
	"BochsDisplayForEFIGuests":           GA,
	"CPUManager":                         Alpha,
	"CPUNodeDiscovery":                   GA,
	"ClusterProfiler":                    GA,
	"CommonInstancetypesDeploymentGate":  GA,
	"ConfigurableHypervisor":             Alpha,
	"ContainerPathVolumes":               Alpha,
	"CrossArchitectureVirtualization":    Alpha,
	"DecentralizedLiveMigration":         Alpha,
	"DeclarativeHotplugVolumes":          Beta,
	"DisableCustomSELinuxPolicy":         GA,
	"DisableMDEVConfiguration":           Deprecated,
	"DockerSELinuxMCSWorkaround":         Deprecated,
	"DownwardMetrics":                    Alpha,
	"DynamicPodInterfaceNaming":          GA,
	"EnableVirtioFsConfigVolumes":        GA,
	"EnableVirtioFsStorageVolumes":       Alpha,
	"ExpandDisks":                        GA,
	"ExperimentalIgnitionSupport":        Alpha,
	"ExperimentalVirtiofsSupport":        Discontinued,
	"ExternalNetResourceInjection":       Beta,
	"FirmwareAutoSelection":              Alpha,
	"GPU":                                GA,
	"GPUsWithDRA":                        Beta,
	"GraceIOVirtualization":              Alpha,
	"HostDevices":                        Alpha,
	"HostDevicesWithDRA":                 Beta,
	"HostDisk":                           Alpha,
	"HotplugNICs":                        GA,
	"HotplugVolumes":                     Deprecated,
	"HypervStrictCheck":                  Alpha,
	"IOMMUFD":                            Alpha,
	"ImageVolume":                        Beta,
	"IncrementalBackup":                  Alpha,
	"InstancetypeReferencePolicy":        GA,
	"KubevirtSeccompProfile":             Beta,
	"LibvirtHooksServerAndClient":        Beta,
	"LiveMigration":                      GA,
	"LiveUpdateNADRef":                   GA,
	"Macvtap":                            Discontinued,
	"MigrationPriorityQueue":             GA,
	"MigrationStallDetection":            Alpha,
	"MultiArchitecture":                  Deprecated,
	"NUMA":                               GA,
	"NetworkBindingPlugins":              GA,
	"NetworkDevicesWithDRA":              Alpha,
	"NodeRestriction":                    Beta,
	"NonRoot":                            GA,
	"OCIExport":                          Alpha,
	"ObjectGraph":                        Alpha,
	"OptOutRoleAggregation":              Beta,
	"PCINUMAAwareTopology":               Alpha,
	"PSA":                                GA,
	"PanicDevices":                       GA,
	"Passt":                              Discontinued,
	"PasstBinding":                       Beta,
	"PasstIPStackMigration":              Discontinued,
	"PersistentReservation":              GA,
	"Plugins":                            Alpha,
	"PodSecondaryInterfaceNamingUpgrade": Beta,
	"PortRangesSpec":                     Alpha,
	"RebootPolicy":                       Beta,
	"ReservedOverheadMemlock":            Alpha,
	"Root":                               Alpha,
	"SRIOVLiveMigration":                 GA,
	"SecureExecution":                    GA,
	"Sidecar":                            Alpha,
	"Snapshot":                           Beta,
	"Template":                           Beta,
	"UtilityVolumes":                     Alpha,
	"VGPULiveMigration":                  Alpha,
	"VMExport":                           GA,
	"VMLiveUpdateFeatures":               GA,
	"VMPersistentState":                  GA,
	"VMStatsCollector":                   Alpha,
	"VSOCK":                              Alpha,
	"VideoConfig":                        GA,
	"VmiMemoryOverheadReport":            Beta,
	"VolumeMigration":                    GA,
	"VolumesUpdateStrategy":              GA,
	"WorkloadEncryptionSEV":              Beta,
	"WorkloadEncryptionTDX":              Alpha,
}

// unknown is the stage of a gate in a version that does not have the gate.
const unknown Stage = ""

// earlier are the gates that had another stage in a version than in the version after it.
var earlier = map[Version]map[string]Stage{
	8: {
		"CrossArchitectureVirtualization": unknown,
		"DeclarativeHotplugVolumes":       Alpha,
		"ExpandDisks":                     Alpha,
		"FirmwareAutoSelection":           unknown,
		"GPUsWithDRA":                     Alpha,
		"GraceIOVirtualization":           unknown,
		"HostDevicesWithDRA":              Alpha,
		"HotplugVolumes":                  Alpha,
		"IOMMUFD":                         unknown,
		"LibvirtHooksServerAndClient":     Alpha,
		"LiveUpdateNADRef":                Beta,
		"MigrationPriorityQueue":          Beta,
		"MigrationStallDetection":         unknown,
		"NetworkDevicesWithDRA":           unknown,
		"OCIExport":                       unknown,
		"ObjectGraph":                     unknown,
		"OptOutRoleAggregation":           Alpha,
		"PanicDevices":                    Beta,
		"PersistentReservation":           Alpha,
		"Plugins":                         unknown,
		"PortRangesSpec":                  unknown,
		"RebootPolicy":                    Alpha,
		"SecureExecution":                 Beta,
		"Template":                        Alpha,
		"VGPULiveMigration":               unknown,
		"VMExport":                        Beta,
		"VMStatsCollector":                unknown,
		"VideoConfig":                     Beta,
		"VmiMemoryOverheadReport":         Alpha,
		"WorkloadEncryptionSEV":           Alpha,
	},
	7: {
		"ConfigurableHypervisor":             unknown,
		"ContainerPathVolumes":               unknown,
		"DisableMDEVConfiguration":           Alpha,
		"EnableVirtioFsConfigVolumes":        Alpha,
		"ExperimentalVirtiofsSupport":        Deprecated,
		"ExternalNetResourceInjection":       unknown,
		"LibvirtHooksServerAndClient":        unknown,
		"LiveUpdateNADRef":                   unknown,
		"MigrationPriorityQueue":             Alpha,
		"MultiArchitecture":                  Alpha,
		"OptOutRoleAggregation":              unknown,
		"PCINUMAAwareTopology":               unknown,
		"PasstBinding":                       unknown,
		"PasstIPStackMigration":              Alpha,
		"PodSecondaryInterfaceNamingUpgrade": unknown,
		"RebootPolicy":                       unknown,
		"ReservedOverheadMemlock":            unknown,
		"Template":                           unknown,
		"UtilityVolumes":                     unknown,
		"VmiMemoryOverheadReport":            unknown,
	},
}

// StageOf returns the maturity of a gate in a version; empty for a gate that the version does not have.
func (v Version) StageOf(gate string) Stage {
	for at := v.Nearest(); at < Newest; at++ {
		if stage, differs := earlier[at][gate]; differs {
			return stage
		}
	}
	return stages[gate]
}

// betaIsOn reports whether Beta gates are on by default. Until v1.8 featureGates must list them, and disabledFeatureGates has no effect.
func (v Version) betaIsOn() bool { return v.Nearest() >= 9 }

// Warnings returns a warning for each listed gate that has no effect: an unknown gate, and a GA gate that is disabled.
func (v Version) Warnings(cfg v1.KubeVirtConfiguration) (warnings []string) {
	if cfg.DeveloperConfiguration == nil {
		return nil
	}
	for _, name := range slices.Concat(cfg.DeveloperConfiguration.FeatureGates, cfg.DeveloperConfiguration.DisabledFeatureGates) {
		if v.StageOf(name) == unknown {
			warnings = append(warnings, "feature gate '"+name+"' is unknown and has no effect")
		}
	}
	for _, name := range cfg.DeveloperConfiguration.DisabledFeatureGates {
		if v.StageOf(name) == GA {
			warnings = append(warnings, "feature gate '"+name+"' is generally available and cannot be disabled")
		}
	}
	return warnings
}

// gatesOf returns the gates that are on. A gate in both lists is an error, because its meaning is not certain. An unknown name is not an error, because a newer
// KubeVirt has gates that this table lacks; Warnings names it.
func (v Version) gatesOf(cfg *v1.DeveloperConfiguration, path *field.Path) (Gates, field.ErrorList) {
	on := Gates{}
	for name := range stages {
		stage := v.StageOf(name)
		on[name] = stage == GA || stage == Beta && v.betaIsOn()
	}
	if cfg == nil {
		return on, nil
	}
	for _, name := range cfg.FeatureGates {
		if v.StageOf(name) != unknown {
			on[name] = true
		}
	}
	if v.StageOf(oldVirtiofs) == Deprecated && on[oldVirtiofs] { // it was divided into these two
		on["EnableVirtioFsConfigVolumes"], on["EnableVirtioFsStorageVolumes"] = true, true
	}
	var errs field.ErrorList
	for i, name := range cfg.DisabledFeatureGates {
		if slices.Contains(cfg.FeatureGates, name) {
			errs = append(errs, field.Forbidden(path.Child("disabledFeatureGates").Index(i), "gate '"+name+"' is also in featureGates: list it in one of them"))
		}
		if stage := v.StageOf(name); stage != GA && stage != unknown {
			on[name] = false
		}
	}
	return on, errs
}

// oldVirtiofs is the gate of virtiofs before it was divided.
const oldVirtiofs = "ExperimentalVirtiofsSupport"
