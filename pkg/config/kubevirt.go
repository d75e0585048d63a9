package config

import (
	"path"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// architectures are the architectures that Kiln supports, with KubeVirt's default machine types and default patterns of allowed machine types. The machine
// types are aliases of QEMU's newest version; the record keeps the version of the first start.
var architectures = []struct {
	name, machine string
	emulated      []string
	configured    func(*v1.ArchConfiguration) *v1.ArchSpecificConfiguration
}{
	{"amd64", "q35", []string{"q35*", "pc-q35*"}, func(a *v1.ArchConfiguration) *v1.ArchSpecificConfiguration { return a.Amd64 }},
	{"arm64", "virt", []string{"virt*"}, func(a *v1.ArchConfiguration) *v1.ArchSpecificConfiguration { return a.Arm64 }},
	{"s390x", "s390-ccw-virtio", []string{"s390-ccw-virtio*"}, func(a *v1.ArchConfiguration) *v1.ArchSpecificConfiguration { return a.S390x }},
}

// persistentReservation is the gate of LUNs with SCSI persistent reservations, until KubeVirt 1.8.
const persistentReservation = "PersistentReservation"

// KubeVirt's defaults (pkg/virt-config/virt-config.go) and names.
const (
	defaultCPUModel    = v1.DefaultCPUModel
	defaultQuoteSocket = "/var/run/tdx-qgs/qgs.socket"
	defaultRatio       = 4
	bridge, masquerade = "bridge", "masquerade"
)

// unsetCPURequest is KubeVirt's default (DefaultCPURequest). Kiln treats it as unset, as KubeVirt (setDefaultResourceRequests): the pod then gets a request by
// the number of vCPUs.
var unsetCPURequest = resource.MustParse("100m")

// FromKubeVirt returns the configuration for spec.configuration of the newest KubeVirt. The paths of errors are below spec.configuration. If there are errors,
// the returned value must not be used.
func FromKubeVirt(cfg v1.KubeVirtConfiguration) (Cluster, field.ErrorList) {
	return Newest.FromKubeVirt(cfg)
}

// FromKubeVirt returns what spec.configuration means in this version of KubeVirt, or in the nearest known one.
func (v Version) FromKubeVirt(cfg v1.KubeVirtConfiguration) (Cluster, field.ErrorList) {
	v = v.Nearest()
	root := field.NewPath("spec", "configuration")
	gates, errs := v.gatesOf(cfg.DeveloperConfiguration, root.Child("developerConfiguration"))
	c := Cluster{Frontend: frontendDefaults(cfg, gates), Limits: Limits{Version: v, Gates: gates, BridgeOnPodNetwork: true}, Policy: v1.Reference}
	c = c.InstalledIn(Installation{})
	c.Limits.PermittedHostDevices = cfg.PermittedHostDevices.DeepCopy()
	reservation := cfg.PersistentReservationConfiguration
	c.Limits.PersistentReservation = reservation != nil && reservation.Enabled != nil && *reservation.Enabled
	if v.StageOf(persistentReservation) == Alpha { // the field is newer than this version
		c.Limits.PersistentReservation = gates.Enabled(persistentReservation)
	}
	for _, read := range []func(*Cluster, v1.KubeVirtConfiguration, *field.Path) field.ErrorList{
		applyMachines, applyCPU, applyEviction, applyNetwork, liveUpdate, applyReferencePolicy, quoteSocket, podSettings,
	} {
		errs = append(errs, read(&c, cfg, root)...)
	}
	return c, errs
}

// applyMachines reads machineType, emulatedMachines and architectureConfiguration. Trap: KubeVirt gives machineType, which is of amd64, to VMIs
// of every architecture.
func applyMachines(c *Cluster, cfg v1.KubeVirtConfiguration, root *field.Path) (errs field.ErrorList) {
	c.Defaults.Architecture, c.Limits.Architecture = "amd64", "amd64"
	c.Defaults.Machines = map[string]string{}
	c.Limits.EmulatedMachines = map[string][]string{}
	for _, arch := range architectures {
		c.Defaults.Machines[arch.name], c.Limits.EmulatedMachines[arch.name] = arch.machine, slices.Clone(arch.emulated)
	}
	// Both settings are older than architectureConfiguration, and apply only to amd64.
	overrideMachine(c, "amd64", cfg.MachineType, cfg.EmulatedMachines)
	errs = append(errs, checkPatterns(cfg.EmulatedMachines, root.Child("emulatedMachines"))...)
	if cfg.ArchitectureConfiguration == nil {
		return errs
	}
	root = root.Child("architectureConfiguration")
	var names []string
	for _, arch := range architectures {
		names = append(names, arch.name)
		if own := arch.configured(cfg.ArchitectureConfiguration); own != nil {
			overrideMachine(c, arch.name, own.MachineType, own.EmulatedMachines)
			errs = append(errs, checkPatterns(own.EmulatedMachines, root.Child(arch.name, "emulatedMachines"))...)
		}
	}
	if name := cfg.ArchitectureConfiguration.DefaultArchitecture; slices.Contains(names, name) {
		c.Defaults.Architecture, c.Limits.Architecture = name, name
	} else if name != "" {
		errs = append(errs, field.NotSupported(root.Child("defaultArchitecture"), name, names))
	}
	return errs
}

// overrideMachine replaces the defaults of an architecture by what is configured for it.
func overrideMachine(c *Cluster, arch, machine string, emulated []string) {
	if machine != "" {
		c.Defaults.Machines[arch] = machine
	}
	if len(emulated) > 0 {
		c.Limits.EmulatedMachines[arch] = slices.Clone(emulated)
	}
}

// checkPatterns returns errors about malformed globs. In KubeVirt such a glob silently matches no machine type.
func checkPatterns(globs []string, at *field.Path) (errs field.ErrorList) {
	for i, glob := range globs {
		if _, err := path.Match(glob, ""); err != nil {
			errs = append(errs, field.Invalid(at.Index(i), glob, "must be a glob pattern such as 'pc-q35*'"))
		}
	}
	return errs
}

// applyCPU reads cpuModel and cpuRequest.
func applyCPU(c *Cluster, cfg v1.KubeVirtConfiguration, root *field.Path) field.ErrorList {
	c.Defaults.CPUModel = defaultCPUModel
	if cfg.CPUModel != "" {
		c.Defaults.CPUModel = cfg.CPUModel
	}
	if cfg.CPURequest == nil || cfg.CPURequest.Cmp(unsetCPURequest) == 0 {
		return nil
	}
	if cfg.CPURequest.Sign() < 0 {
		return field.ErrorList{field.Invalid(root.Child("cpuRequest"), cfg.CPURequest.String(), "must not be negative")}
	}
	request := cfg.CPURequest.DeepCopy()
	c.Defaults.CPURequest = &request
	return nil
}

// applyEviction sets evictionStrategy as a default and as a limit: the cluster's strategy is judged as a VMI's own strategy.
func applyEviction(c *Cluster, cfg v1.KubeVirtConfiguration, root *field.Path) field.ErrorList {
	strategy := v1.EvictionStrategyNone
	if cfg.EvictionStrategy != nil {
		strategy = *cfg.EvictionStrategy
	}
	c.Defaults.EvictionStrategy, c.Limits.EvictionStrategy = new(strategy), new(strategy)
	known := []v1.EvictionStrategy{v1.EvictionStrategyExternal, v1.EvictionStrategyLiveMigrate, v1.EvictionStrategyLiveMigrateIfPossible, v1.EvictionStrategyNone}
	if !slices.Contains(known, strategy) {
		return field.ErrorList{field.NotSupported(root.Child("evictionStrategy"), strategy, known)}
	}
	return nil
}

func applyNetwork(c *Cluster, cfg v1.KubeVirtConfiguration, root *field.Path) field.ErrorList {
	c.Defaults.NetworkInterface = bridge
	own := cfg.NetworkConfiguration
	if own == nil {
		return nil
	}
	if own.PermitBridgeInterfaceOnPodNetwork != nil {
		c.Limits.BridgeOnPodNetwork = *own.PermitBridgeInterfaceOnPodNetwork
	}
	switch own.NetworkInterface {
	case "":
	case bridge, masquerade:
		c.Defaults.NetworkInterface = own.NetworkInterface
	default: // also slirp, which KubeVirt removed in v1.3
		return field.ErrorList{field.NotSupported(root.Child("network", "defaultNetworkInterface"), own.NetworkInterface, []string{bridge, masquerade})}
	}
	return nil
}

// liveUpdate sets LiveUpdate, which stays nil under the rollout strategy Stage: nothing grows while a guest runs, and maxSockets and maxGuest are not filled.
func liveUpdate(c *Cluster, cfg v1.KubeVirtConfiguration, root *field.Path) (errs field.ErrorList) {
	strategies := []v1.VMRolloutStrategy{v1.VMRolloutStrategyLiveUpdate, v1.VMRolloutStrategyStage}
	if s := cfg.VMRolloutStrategy; s != nil && !slices.Contains(strategies, *s) {
		errs = append(errs, field.NotSupported(root.Child("vmRolloutStrategy"), *s, strategies))
	} else if s != nil && *s == v1.VMRolloutStrategyStage {
		return nil
	}
	update := &LiveUpdate{MaxHotplugRatio: defaultRatio}
	if own := cfg.LiveUpdateConfiguration; own != nil {
		own = own.DeepCopy()
		update.MaxCPUSockets, update.MaxGuest = own.MaxCpuSockets, own.MaxGuest
		if own.MaxHotplugRatio > 0 {
			update.MaxHotplugRatio = own.MaxHotplugRatio
		}
		if own.MaxGuest != nil && own.MaxGuest.Sign() <= 0 {
			errs = append(errs, field.Invalid(root.Child("liveUpdateConfiguration", "maxGuest"), own.MaxGuest.String(), "must be greater than 0"))
		}
	}
	c.Defaults.LiveUpdate, c.Limits.LiveUpdate = update, update
	return errs
}

// applyReferencePolicy reads instancetype.referencePolicy. KubeVirt's default is 'reference'.
func applyReferencePolicy(c *Cluster, cfg v1.KubeVirtConfiguration, root *field.Path) field.ErrorList {
	if cfg.Instancetype == nil || cfg.Instancetype.ReferencePolicy == nil {
		return nil
	}
	c.Policy = *cfg.Instancetype.ReferencePolicy
	if known := []v1.InstancetypeReferencePolicy{v1.Expand, v1.ExpandAll, v1.Reference}; !slices.Contains(known, c.Policy) {
		return field.ErrorList{field.NotSupported(root.Child("instancetype", "referencePolicy"), c.Policy, known)}
	}
	return nil
}

// quoteSocket reads confidentialCompute.tdx.attestation.qgsSocketPath.
func quoteSocket(c *Cluster, cfg v1.KubeVirtConfiguration, root *field.Path) field.ErrorList {
	c.Defaults.QuoteSocket = defaultQuoteSocket
	cc := cfg.ConfidentialCompute
	if cc == nil || cc.TDX == nil || cc.TDX.Attestation == nil || cc.TDX.Attestation.QgsSocketPath == nil {
		return nil
	}
	socket := *cc.TDX.Attestation.QgsSocketPath
	if !path.IsAbs(socket) || path.Clean(socket) != socket {
		return field.ErrorList{field.Invalid(root.Child("confidentialCompute", "tdx", "attestation", "qgsSocketPath"), socket,
			"must be an absolute path without '.' and '..'")}
	}
	c.Defaults.QuoteSocket = socket
	return nil
}
