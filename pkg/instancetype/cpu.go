package instancetype

import (
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/pkg/internal/filled"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// Fields of an instancetype: cpu.guest (vCPUs), model, dedicatedCPUPlacement, numa, isolateEmulatorThread, realtime, maxSockets.
// Fields of a preference: cpu.preferredCPUTopology, spreadOptions, preferSpreadSocketToCoreRatio, preferredCPUFeatures.
// The instancetype gives the number of vCPUs, the preference arranges them. A VM with an instancetype sets neither.

// ownedCPUFields is KubeVirt's validateCPU, with maxSockets in addition.
func ownedCPUFields(set Set, vmi *v1.VirtualMachineInstance) []ownedField {
	wanted := set.Instancetype.Spec.CPU
	cpu := vmi.Spec.Domain.CPU
	if cpu == nil {
		cpu = &v1.CPU{}
	}
	topology := arrangeVCPUs(wanted.Guest, set.Preference)
	var vcpus any = guestCPUs(wanted.Guest)
	fields := []ownedField{
		podResource(vmi.Spec.Domain.Resources.Requests, corev1.ResourceCPU, "spec.domain.resources.requests.cpu", vcpus),
		podResource(vmi.Spec.Domain.Resources.Limits, corev1.ResourceCPU, "spec.domain.resources.limits.cpu", vcpus),
		{field: "spec.domain.cpu.sockets", given: countOrNil(cpu.Sockets), wanted: vcpus, same: cpu.Sockets == topology.Sockets},
		{field: "spec.domain.cpu.cores", given: countOrNil(cpu.Cores), wanted: vcpus, same: cpu.Cores == topology.Cores},
		{field: "spec.domain.cpu.threads", given: countOrNil(cpu.Threads), wanted: vcpus, same: cpu.Threads == topology.Threads},
	}
	if wanted.Model != nil {
		// An empty model sets nothing, and maxSockets of 0 below neither: the value in the VMI is the cluster's default.
		fields = append(fields, ownedField{field: "spec.domain.cpu.model", given: textOrNil(cpu.Model), wanted: *wanted.Model,
			same: *wanted.Model == "" || cpu.Model == *wanted.Model || isPinnedModel(*wanted.Model, cpu.Model)})
	}
	fields = append(fields, ownedSwitch("spec.domain.cpu.dedicatedCpuPlacement", &cpu.DedicatedCPUPlacement, wanted.DedicatedCPUPlacement)...)
	fields = append(fields, ownedSwitch("spec.domain.cpu.isolateEmulatorThread", &cpu.IsolateEmulatorThread, wanted.IsolateEmulatorThread)...)
	if wanted.NUMA != nil && cpu.NUMA != nil {
		fields = append(fields, ownedField{field: "spec.domain.cpu.numa", given: "set", same: equality.Semantic.DeepEqual(wanted.NUMA, cpu.NUMA)})
	}
	if wanted.Realtime != nil && cpu.Realtime != nil {
		fields = append(fields, ownedField{field: "spec.domain.cpu.realtime", given: "set", same: equality.Semantic.DeepEqual(wanted.Realtime, cpu.Realtime)})
	}
	if wanted.MaxSockets != nil {
		fields = append(fields, ownedField{field: "spec.domain.cpu.maxSockets", given: countOrNil(cpu.MaxSockets), wanted: *wanted.MaxSockets,
			same: *wanted.MaxSockets == 0 || cpu.MaxSockets == *wanted.MaxSockets || // by KubeVirt, which does not cap them
				cpu.MaxSockets == cappedSockets(*wanted.MaxSockets, topology, vmi.Spec.Architecture) ||
				cpu.MaxSockets == cappedSockets(*wanted.MaxSockets, topology, "")}) // the architecture may be filled after the instancetype
	}
	return fields
}

// isPinnedModel reports whether a VMI has a CPU model where the instancetype has host-model: beside KubeVirt, admission writes the recorded model into VMIs
// that KubeVirt creates. A VM with a model of its own is refused by Conflicts.
func isPinnedModel(wanted, given string) bool {
	return wanted == v1.CPUModeHostModel && given != "" && given != v1.CPUModeHostModel && given != v1.CPUModeHostPassthrough
}

// podResource returns the owned field of a request or limit of the pod. In a VM the field conflicts with the instancetype. In a VMI it never conflicts (same is
// true): it may be the cluster's default, and does not change what the guest sees.
func podResource(list corev1.ResourceList, name corev1.ResourceName, field string, guest any) ownedField {
	quantity, found := list[name]
	if !found {
		return ownedField{}
	}
	return ownedField{field: field, given: quantity.String(), wanted: guest, same: true}
}

// guestCPUs returns the number of vCPUs of an instancetype for messages. The preference sets sockets, cores and threads.
func guestCPUs(guest uint32) string {
	if guest == 1 {
		return "1 vCPU"
	}
	return fmt.Sprintf("%d vCPUs", guest)
}

// countOrNil returns a count as ownedField.given. It is nil for 0, which means unset.
func countOrNil(value uint32) any {
	if value == 0 {
		return nil
	}
	return value
}

// ownedSwitch returns the owned field of a switch. The field of the VMI is not a pointer: false means unset.
func ownedSwitch(field string, given, wanted *bool) []ownedField {
	if wanted == nil || !*given {
		return nil
	}
	return []ownedField{{field: field, given: true, wanted: *wanted, same: *wanted}}
}

// applyCPU is KubeVirt's applyCPU and applyGuestCPUTopology.
func applyCPU(set Set, vmi *v1.VirtualMachineInstance, log *filled.Log) {
	wanted := set.Instancetype.Spec.CPU
	if vmi.Spec.Domain.CPU == nil {
		vmi.Spec.Domain.CPU = &v1.CPU{}
	}
	cpu := vmi.Spec.Domain.CPU
	topology := arrangeVCPUs(wanted.Guest, set.Preference)
	putValue(log, &cpu.Sockets, topology.Sockets)
	putValue(log, &cpu.Cores, topology.Cores)
	putValue(log, &cpu.Threads, topology.Threads)
	if wanted.Model != nil && *wanted.Model != "" && !isPinnedModel(*wanted.Model, cpu.Model) {
		putValue(log, &cpu.Model, *wanted.Model)
	}
	if wanted.DedicatedCPUPlacement != nil {
		putValue(log, &cpu.DedicatedCPUPlacement, *wanted.DedicatedCPUPlacement)
	}
	if wanted.IsolateEmulatorThread != nil {
		putValue(log, &cpu.IsolateEmulatorThread, *wanted.IsolateEmulatorThread)
	}
	if wanted.NUMA != nil {
		cpu.NUMA = wanted.NUMA.DeepCopy()
		log.Note(&cpu.NUMA, wanted.NUMA)
	}
	if wanted.Realtime != nil {
		cpu.Realtime = wanted.Realtime.DeepCopy()
		log.Note(&cpu.Realtime, wanted.Realtime)
	}
	// A value that was filled before the architecture was known stays when admission sees the VMI again.
	if wanted.MaxSockets != nil && *wanted.MaxSockets > 0 && cpu.MaxSockets != cappedSockets(*wanted.MaxSockets, topology, "") {
		putValue(log, &cpu.MaxSockets, cappedSockets(*wanted.MaxSockets, topology, vmi.Spec.Architecture))
	}
}

// cappedSockets returns maxSockets, lowered so that its vCPUs are at most vm.MaxVCPUs, and never below the sockets at the start. An instancetype is written for
// sockets of one core: with a preference for many cores libvirt would refuse every domain.
func cappedSockets(most uint32, arranged arrangement, architecture string) uint32 {
	perSocket := uint64(max(arranged.Cores, 1)) * uint64(max(arranged.Threads, 1))
	limit, known := vm.MaxVCPUs(architecture)
	if !known || uint64(most)*perSocket <= limit {
		return most
	}
	return max(uint32(limit/perSocket), arranged.Sockets)
}

// arrangement is a CPU topology: Cores are per socket, Threads per core. The product of the three is the number of vCPUs.
type arrangement struct{ Sockets, Cores, Threads uint32 }

// arrangeVCPUs returns the topology of a number of vCPUs by preferredCPUTopology (applyGuestCPUTopology). The default is one vCPU a socket, with
// or without a preference. A number that cannot be spread evenly becomes sockets, because KubeVirt would lose vCPUs; CheckSpread refuses it. For 0
// vCPUs, which validation refuses, one count is 0.
func arrangeVCPUs(vcpus uint32, p *Preference) arrangement {
	if vcpus == 1 {
		return arrangement{Sockets: 1, Cores: 1, Threads: 1}
	}
	switch topologyOf(p) {
	case v1beta1.Cores:
		return arrangement{Sockets: 1, Cores: vcpus, Threads: 1}
	case v1beta1.Threads:
		return arrangement{Sockets: 1, Cores: 1, Threads: vcpus}
	case v1beta1.Spread:
		s := spreadOf(p)
		if divisor := s.unit(); uint64(vcpus)%divisor == 0 {
			return s.arrangeUnits(uint32(uint64(vcpus) / divisor))
		}
	}
	return arrangement{Sockets: vcpus, Cores: 1, Threads: 1}
}

// topologyOf returns preferredCPUTopology in its current spelling; sockets if it is unset (GetPreferredTopology).
func topologyOf(p *Preference) v1beta1.PreferredCPUTopology {
	if p == nil || p.Spec.CPU == nil || p.Spec.CPU.PreferredCPUTopology == nil {
		return v1beta1.Sockets
	}
	switch t := *p.Spec.CPU.PreferredCPUTopology; t {
	case v1beta1.DeprecatedPreferCores:
		return v1beta1.Cores
	case v1beta1.DeprecatedPreferThreads:
		return v1beta1.Threads
	case v1beta1.DeprecatedPreferSpread:
		return v1beta1.Spread
	case v1beta1.DeprecatedPreferSockets:
		return v1beta1.Sockets
	case v1beta1.DeprecatedPreferAny:
		return v1beta1.Any
	default:
		return t
	}
}

// spreadOptions is the levels of the topology across which vCPUs are spread, and the ratio: how many of the lower level one of the upper has.
type spreadOptions struct {
	across v1beta1.SpreadAcross
	ratio  uint32
}

// defaultRatio is the number of cores in a socket, or of threads in a core. A ratio of 0, by which KubeVirt divides, means the default.
const defaultRatio = 2

// spreadOf is GetSpreadOptions: spreadOptions.ratio takes precedence over the older preferSpreadSocketToCoreRatio.
func spreadOf(p *Preference) spreadOptions {
	s := spreadOptions{across: v1beta1.SpreadAcrossSocketsCores, ratio: defaultRatio}
	if r := p.Spec.PreferSpreadSocketToCoreRatio; r != 0 {
		s.ratio = r
	}
	if options := p.Spec.CPU.SpreadOptions; options != nil {
		if options.Ratio != nil && *options.Ratio != 0 {
			s.ratio = *options.Ratio
		}
		if options.Across != nil {
			s.across = *options.Across
		}
	}
	return s
}

// threadsPerCore is fixed if vCPUs are spread across all three levels: the ratio is then the number of cores in a socket.
const threadsPerCore = 2

// unit is what a number of vCPUs must be a multiple of. It has 64 bits because the API bounds no ratio: twice the ratio 2147483648 is 0
// in 32 bits.
func (s spreadOptions) unit() uint64 {
	if s.across == v1beta1.SpreadAcrossSocketsCoresThreads {
		return uint64(s.ratio) * threadsPerCore
	}
	return uint64(s.ratio)
}

// arrangeUnits puts units of divisor vCPUs together.
func (s spreadOptions) arrangeUnits(units uint32) arrangement {
	switch s.across {
	case v1beta1.SpreadAcrossCoresThreads:
		return arrangement{Sockets: 1, Cores: units, Threads: s.ratio}
	case v1beta1.SpreadAcrossSocketsCoresThreads:
		return arrangement{Sockets: units, Cores: s.ratio, Threads: threadsPerCore}
	}
	return arrangement{Sockets: units, Cores: s.ratio, Threads: 1}
}

// preferCPUFeatures is applyCPUPreferences: it adds the features whose names the VMI does not list. A feature that the preference lists twice is added twice,
// and validation refuses the VMI: the two may have different policies. Trap: KubeVirt panics if domain.cpu is unset.
func preferCPUFeatures(p *Preference, vmi *v1.VirtualMachineInstance, log *filled.Log) {
	if p.Spec.CPU == nil || len(p.Spec.CPU.PreferredCPUFeatures) == 0 {
		return
	}
	if vmi.Spec.Domain.CPU == nil {
		vmi.Spec.Domain.CPU = &v1.CPU{}
	}
	cpu := vmi.Spec.Domain.CPU
	mentioned := cpu.Features
	for _, feature := range p.Spec.CPU.PreferredCPUFeatures {
		if !slices.ContainsFunc(mentioned, func(f v1.CPUFeature) bool { return f.Name == feature.Name }) {
			cpu.Features = append(slices.Clip(cpu.Features), feature)
		}
	}
	for i := len(mentioned); i < len(cpu.Features); i++ { // after the loop: append moves the slice, and Note keeps addresses
		log.Note(&cpu.Features[i], nil)
	}
}
