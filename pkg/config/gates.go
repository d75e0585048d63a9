package config

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Stage is the maturity of a feature gate.
type Stage string

// Stages in the order in which a gate goes through them. Alpha, Deprecated and Discontinued gates are on when listed in
// featureGates, Beta ones unless listed in disabledFeatureGates, GA ones always.
const (
	Alpha        Stage = "Alpha"
	Beta         Stage = "Beta"
	GA           Stage = "GA"
	Deprecated   Stage = "Deprecated"
	Discontinued Stage = "Discontinued"
)

// Gates says which feature gates are on. Beta and GA gates are on unless disabled, Alpha ones off unless listed.
type Gates map[string]bool

// Enabled tells whether the gate is on.
func (g Gates) Enabled(name string) bool { return g[name] }

// stages are the gates of KubeVirt v1.9. A gate that is on when this table does not know it says nothing to Kiln.
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
	"DecentralizedLiveMigration":         Beta,
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
	"LibvirtHooksServerAndClient":        GA,
	"LiveMigration":                      GA,
	"LiveUpdateNADRef":                   GA,
	"Macvtap":                            Discontinued,
	"MigrationDowntimeTuning":            Alpha,
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
	"VmiMemoryOverheadReport":            GA,
	"VolumeMigration":                    GA,
	"VolumesUpdateStrategy":              GA,
	"WorkloadEncryptionSEV":              Beta,
	"WorkloadEncryptionTDX":              Alpha,
}

// StageOf is the maturity of a gate, empty for a gate that Kiln does not know.
func StageOf(gate string) Stage { return stages[gate] }

// Warnings name listed gates that have no effect: unknown ones, and disabled ones that are always on.
func Warnings(cfg v1.KubeVirtConfiguration) (warnings []string) {
	if cfg.DeveloperConfiguration == nil {
		return nil
	}
	for _, name := range slices.Concat(cfg.DeveloperConfiguration.FeatureGates, cfg.DeveloperConfiguration.DisabledFeatureGates) {
		if stages[name] == "" {
			warnings = append(warnings, "feature gate '"+name+"' is unknown and has no effect")
		}
	}
	for _, name := range cfg.DeveloperConfiguration.DisabledFeatureGates {
		if stages[name] == GA {
			warnings = append(warnings, "feature gate '"+name+"' is generally available and cannot be disabled")
		}
	}
	return warnings
}

// gates refuses a gate in both lists, since either reading of it would surprise somebody. Unknown names are no error: a
// newer KubeVirt may have gates that this version has never heard of (see Warnings).
func gates(cfg *v1.DeveloperConfiguration, path *field.Path) (Gates, field.ErrorList) {
	on := Gates{}
	for name, stage := range maps.All(stages) {
		on[name] = stage == Beta || stage == GA
	}
	if cfg == nil {
		return on, nil
	}
	for _, name := range cfg.FeatureGates {
		if stages[name] != "" {
			on[name] = true
		}
	}
	var errs field.ErrorList
	for i, name := range cfg.DisabledFeatureGates {
		if slices.Contains(cfg.FeatureGates, name) {
			errs = append(errs, field.Forbidden(path.Child("disabledFeatureGates").Index(i), "gate '"+name+"' is also in featureGates: list it in one of them"))
		}
		if stages[name] != GA && stages[name] != "" {
			on[name] = false
		}
	}
	return on, errs
}
