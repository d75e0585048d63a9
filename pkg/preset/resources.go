package preset

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/internal/filled"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	v1 "kubevirt.io/api/core/v1"
)

// areas are in the order in which they are compared and filled. Requests are merged key by key: one preset may set CPU and another memory.
// Trap: KubeVirt copies requests only if the VMI has no requests, so that chance decides which of two presets it applies.
var areas = []area{
	{"resources.requests", requestValues, fillRequest},
	{"cpu", pointerArea(func(d *v1.DomainSpec) **v1.CPU { return &d.CPU }), copyPointer(func(d *v1.DomainSpec) **v1.CPU { return &d.CPU })},
	{"firmware", pointerArea(func(d *v1.DomainSpec) **v1.Firmware { return &d.Firmware }),
		copyPointer(func(d *v1.DomainSpec) **v1.Firmware { return &d.Firmware })},
	{"clock", clockOffsetValue, fillClockOffset},
	{"clock.timer", timerValue, fillTimer},
	{"features", pointerArea(func(d *v1.DomainSpec) **v1.Features { return &d.Features }),
		copyPointer(func(d *v1.DomainSpec) **v1.Features { return &d.Features })},
	{"devices.watchdog", pointerArea(func(d *v1.DomainSpec) **v1.Watchdog { return &d.Devices.Watchdog }),
		copyPointer(func(d *v1.DomainSpec) **v1.Watchdog { return &d.Devices.Watchdog })},
	{"ioThreadsPolicy", pointerArea(func(d *v1.DomainSpec) **v1.IOThreadsPolicy { return &d.IOThreadsPolicy }),
		copyPointer(func(d *v1.DomainSpec) **v1.IOThreadsPolicy { return &d.IOThreadsPolicy })},
}

func (a area) pathOf(key string) string {
	if key == "" {
		return "spec.domain." + a.name
	}
	return "spec.domain." + a.name + "." + key
}

// noteFilled adds what was filled to the log: the key of a map, or all leaves of the value.
func (a area) noteFilled(log *filled.Log, key string, value any) {
	if key != "" {
		log.Key(a.pathOf(""), key)
		return
	}
	log.Leaves(a.pathOf(""), value)
}

// pointerArea is an area that is a single pointer.
func pointerArea[T any](at func(*v1.DomainSpec) **T) func(*v1.DomainSpec) map[string]any {
	return func(d *v1.DomainSpec) map[string]any {
		if p := *at(d); p != nil {
			return map[string]any{"": p}
		}
		return nil
	}
}

// copyPointer moves the pointer from the preset's domain, which is a copy already, to the VMI.
func copyPointer[T any](at func(*v1.DomainSpec) **T) func(vmi, preset *v1.DomainSpec, key string) {
	return func(vmi, preset *v1.DomainSpec, _ string) { *at(vmi) = *at(preset) }
}

func requestValues(d *v1.DomainSpec) map[string]any {
	values := map[string]any{}
	for name, quantity := range d.Resources.Requests {
		values[string(name)] = quantity
	}
	return values
}

func fillRequest(vmi, preset *v1.DomainSpec, key string) {
	if vmi.Resources.Requests == nil {
		vmi.Resources.Requests = corev1.ResourceList{}
	}
	vmi.Resources.Requests[corev1.ResourceName(key)] = preset.Resources.Requests[corev1.ResourceName(key)]
}

// clockOffsetValue and timerValue are two areas of one object. Trap: KubeVirt compares and fills clock as a whole, so that a preset with an offset disagrees
// with a preset that has only timers.
func clockOffsetValue(d *v1.DomainSpec) map[string]any {
	if d.Clock == nil || d.Clock.ClockOffset == (v1.ClockOffset{}) {
		return nil
	}
	return map[string]any{"": d.Clock.ClockOffset}
}

func fillClockOffset(vmi, preset *v1.DomainSpec, _ string) {
	if vmi.Clock == nil {
		vmi.Clock = &v1.Clock{}
	}
	vmi.Clock.ClockOffset = preset.Clock.ClockOffset
}

func timerValue(d *v1.DomainSpec) map[string]any {
	if d.Clock == nil || d.Clock.Timer == nil {
		return nil
	}
	return map[string]any{"": d.Clock.Timer}
}

func fillTimer(vmi, preset *v1.DomainSpec, _ string) {
	if vmi.Clock == nil {
		vmi.Clock = &v1.Clock{}
	}
	vmi.Clock.Timer = preset.Clock.Timer
}

// sameValue compares quantities by amount. Trap: KubeVirt compares requests with !=, so that 1 and 1000m differ.
func sameValue(a, b any) bool { return equality.Semantic.DeepEqual(a, b) }

func sortedKeys(values map[string]any) []string { return slices.Sorted(maps.Keys(values)) }

// Covered returns the part of a preset's domain that Fill would fill into an empty VMI, and the fields that Fill never fills. The domain is nil for a preset
// that fills nothing.
func Covered(p *v1.VirtualMachineInstancePreset) (*v1.DomainSpec, []Skipped) {
	if p.Spec.Domain == nil {
		return nil, nil
	}
	domain, covered := p.Spec.Domain.DeepCopy(), (*v1.DomainSpec)(nil)
	for _, a := range areas {
		for _, key := range sortedKeys(a.values(domain)) {
			if covered == nil {
				covered = &v1.DomainSpec{}
			}
			a.fill(covered, domain, key)
		}
	}
	return covered, uncoveredFields(p.Name, domain)
}

// AreaOf returns the path of the area to which a field of a VMI belongs, such as spec.domain.cpu; empty for a field that no preset fills.
func AreaOf(path string) string {
	found := ""
	for _, a := range areas {
		if below := a.pathOf(""); (path == below || strings.HasPrefix(path, below+".") || strings.HasPrefix(path, below+"[")) && len(below) > len(found) {
			found = below
		}
	}
	return found
}

// uncoveredFields returns the fields that a preset sets outside the eight areas.
func uncoveredFields(name string, domain *v1.DomainSpec) (skipped []Skipped) {
	rest := domain.DeepCopy()
	rest.Resources.Requests, rest.CPU, rest.Firmware, rest.Clock, rest.Features = nil, nil, nil, nil, nil
	rest.Devices.Watchdog, rest.IOThreadsPolicy = nil, nil
	raw, err := json.Marshal(rest)
	if err != nil {
		return nil
	}
	var left map[string]any
	if err := json.Unmarshal(raw, &left); err != nil {
		return nil
	}
	for _, key := range sortedKeys(left) {
		inner, nested := left[key].(map[string]any)
		switch {
		case nested && partlyCovered[key]:
			for _, part := range sortedKeys(inner) {
				skipped = append(skipped, Skipped{name, "spec.domain." + key + "." + part, uncovered})
			}
		case !nested || len(inner) > 0:
			skipped = append(skipped, Skipped{name, "spec.domain." + key, uncovered})
		}
	}
	return skipped
}

const uncovered = "presets do not cover it"

// partlyCovered are objects of which presets cover some fields. The other fields are listed one by one.
var partlyCovered = map[string]bool{"devices": true, "resources": true}
