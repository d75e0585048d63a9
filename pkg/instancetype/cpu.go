package instancetype

import (
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/pkg/internal/filled"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// Fields of a size: cpu.guest (vCPUs), model, dedicatedCPUPlacement, numa, isolateEmulatorThread, realtime, maxSockets.
// Fields of a preference: cpu.preferredCPUTopology, spreadOptions, preferSpreadSocketToCoreRatio, preferredCPUFeatures.
// The size says how many vCPUs, the preference how they are arranged. A guest of such a size names neither.

func cpuClaims(set Set, vmi *v1.VirtualMachineInstance, path *field.Path) []claim {
	size, domain := set.Instancetype.Spec.CPU, path.Child("spec", "domain")
	cpu := vmi.Spec.Domain.CPU
	if cpu == nil {
		cpu = &v1.CPU{}
	}
	at := domain.Child("cpu")
	want := Arrange(size.Guest, set.Preference)
	claims := []claim{
		podResource(vmi.Spec.Domain.Resources.Requests, corev1.ResourceCPU, domain.Child("resources", "requests", "cpu"), guestCPUs(size.Guest)),
		podResource(vmi.Spec.Domain.Resources.Limits, corev1.ResourceCPU, domain.Child("resources", "limits", "cpu"), guestCPUs(size.Guest)),
		{path: at.Child("sockets"), given: number(cpu.Sockets), size: guestCPUs(size.Guest), same: cpu.Sockets == want.Sockets},
		{path: at.Child("cores"), given: number(cpu.Cores), size: guestCPUs(size.Guest), same: cpu.Cores == want.Cores},
		{path: at.Child("threads"), given: number(cpu.Threads), size: guestCPUs(size.Guest), same: cpu.Threads == want.Threads},
	}
	if size.Model != nil {
		// An empty model, like no sockets below, sets nothing: what the guest has got since is the cluster's default.
		claims = append(claims, claim{path: at.Child("model"), given: text(cpu.Model), size: *size.Model, same: *size.Model == "" || cpu.Model == *size.Model})
	}
	claims = append(claims, flag(at.Child("dedicatedCpuPlacement"), &cpu.DedicatedCPUPlacement, size.DedicatedCPUPlacement)...)
	claims = append(claims, flag(at.Child("isolateEmulatorThread"), &cpu.IsolateEmulatorThread, size.IsolateEmulatorThread)...)
	if size.NUMA != nil && cpu.NUMA != nil {
		claims = append(claims, claim{path: at.Child("numa"), given: "set", same: equality.Semantic.DeepEqual(size.NUMA, cpu.NUMA)})
	}
	if size.Realtime != nil && cpu.Realtime != nil {
		claims = append(claims, claim{path: at.Child("realtime"), given: "set", same: equality.Semantic.DeepEqual(size.Realtime, cpu.Realtime)})
	}
	if size.MaxSockets != nil {
		claims = append(claims, claim{path: at.Child("maxSockets"), given: number(cpu.MaxSockets), size: *size.MaxSockets,
			same: *size.MaxSockets == 0 || cpu.MaxSockets == room(*size.MaxSockets, want, vmi.Spec.Architecture)})
	}
	return claims
}

// podResource is what the guest's pod asks for. On a VM it conflicts with the size; on a VMI it is the cluster's own
// default or the platform's, which does not change what the guest sees.
func podResource(list corev1.ResourceList, name corev1.ResourceName, path *field.Path, guest string) claim {
	c := claim{path: path, size: guest, same: true}
	if quantity, found := list[name]; found {
		c.given = quantity.String()
	}
	return c
}

// guestCPUs is what a size sets where the guest says how its vCPUs are arranged or paid for: their number, not their arrangement.
func guestCPUs(guest uint32) string {
	if guest == 1 {
		return "1 vCPU"
	}
	return fmt.Sprintf("%d vCPUs", guest)
}

// number is a count as a claim's given value: zero means not given.
func number(value uint32) any {
	if value == 0 {
		return nil
	}
	return value
}

// flag is a switch that the size sets. A false one cannot be told from an absent one.
func flag(path *field.Path, given, size *bool) []claim {
	if size == nil || !*given {
		return nil
	}
	return []claim{{path: path, given: true, size: *size, same: *size}}
}

func applyCPU(set Set, vmi *v1.VirtualMachineInstance, log *filled.Log) {
	size := set.Instancetype.Spec.CPU
	if vmi.Spec.Domain.CPU == nil {
		vmi.Spec.Domain.CPU = &v1.CPU{}
	}
	cpu := vmi.Spec.Domain.CPU
	want := Arrange(size.Guest, set.Preference)
	put(log, &cpu.Sockets, want.Sockets)
	put(log, &cpu.Cores, want.Cores)
	put(log, &cpu.Threads, want.Threads)
	if size.Model != nil && *size.Model != "" {
		put(log, &cpu.Model, *size.Model)
	}
	if size.DedicatedCPUPlacement != nil {
		put(log, &cpu.DedicatedCPUPlacement, *size.DedicatedCPUPlacement)
	}
	if size.IsolateEmulatorThread != nil {
		put(log, &cpu.IsolateEmulatorThread, *size.IsolateEmulatorThread)
	}
	if size.NUMA != nil {
		cpu.NUMA = size.NUMA.DeepCopy()
		log.Note(&cpu.NUMA, size.NUMA)
	}
	if size.Realtime != nil {
		cpu.Realtime = size.Realtime.DeepCopy()
		log.Note(&cpu.Realtime, size.Realtime)
	}
	if size.MaxSockets != nil && *size.MaxSockets > 0 {
		put(log, &cpu.MaxSockets, room(*size.MaxSockets, want, vmi.Spec.Architecture))
	}
}

// room is how many of the size's maxSockets its guest's machine has room for: a size that grows by sockets of one core, beside a
// preference for many cores, would else keep every guest from being defined.
func room(most uint32, arranged Arrangement, architecture string) uint32 {
	perSocket := uint64(max(arranged.Cores, 1)) * uint64(max(arranged.Threads, 1))
	limit, known := vm.MaxVCPUs(architecture)
	if !known || uint64(most)*perSocket <= limit {
		return most
	}
	return max(uint32(limit/perSocket), arranged.Sockets)
}

// Arrangement is a CPU topology. Its product is the number of vCPUs.
type Arrangement struct{ Sockets, Cores, Threads uint32 }

// Arrange spreads vCPUs as the preference wants them, by default one a socket. A count that cannot be spread evenly goes to
// sockets whole, so that no vCPU is lost: Requirements reports it. Of no vCPUs, which no legal size has, one count is 0: not given.
func Arrange(vcpus uint32, p *Preference) Arrangement {
	if vcpus == 1 {
		return Arrangement{Sockets: 1, Cores: 1, Threads: 1}
	}
	switch topologyOf(p) {
	case v1beta1.Cores:
		return Arrangement{Sockets: 1, Cores: vcpus, Threads: 1}
	case v1beta1.Threads:
		return Arrangement{Sockets: 1, Cores: 1, Threads: vcpus}
	case v1beta1.Spread:
		s := spreadOf(p)
		if divisor := s.divisor(); vcpus%divisor == 0 {
			return s.arrange(vcpus / divisor)
		}
	}
	return Arrangement{Sockets: vcpus, Cores: 1, Threads: 1}
}

// topologyOf is the preferred topology in its current spelling.
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

// spread says across which levels vCPUs are spread, and how many of the lower go into one of the upper.
type spread struct {
	across v1beta1.SpreadAcross
	ratio  uint32
}

// defaultRatio of cores to a socket, or threads to a core. A ratio of zero means the default: nothing divides by zero.
const defaultRatio = 2

func spreadOf(p *Preference) spread {
	s := spread{across: v1beta1.SpreadAcrossSocketsCores, ratio: defaultRatio}
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

// threadsPerCore is what a core with hyper-threading has.
const threadsPerCore = 2

// divisor is what a number of vCPUs must be a multiple of.
func (s spread) divisor() uint32 {
	if s.across == v1beta1.SpreadAcrossSocketsCoresThreads {
		return s.ratio * threadsPerCore
	}
	return s.ratio
}

// arrange puts units of divisor vCPUs together.
func (s spread) arrange(units uint32) Arrangement {
	switch s.across {
	case v1beta1.SpreadAcrossCoresThreads:
		return Arrangement{Sockets: 1, Cores: units, Threads: s.ratio}
	case v1beta1.SpreadAcrossSocketsCoresThreads:
		return Arrangement{Sockets: units, Cores: s.ratio, Threads: threadsPerCore}
	}
	return Arrangement{Sockets: units, Cores: s.ratio, Threads: 1}
}

// preferCPUFeatures adds those that the guest does not mention. One that a preference has twice is added twice, so that validation
// finds it: which of the two is meant, nobody knows.
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
	for i := len(mentioned); i < len(cpu.Features); i++ { // all are in their final place now
		log.Note(&cpu.Features[i], nil)
	}
}
