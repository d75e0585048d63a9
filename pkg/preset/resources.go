package preset

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/internal/filled"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	v1 "kubevirt.io/api/core/v1"
)

// areas in the order in which they are compared and filled. Requests are merged key by key: one preset may give CPU, another
// memory, and which is first does not matter.
var areas = []area{
	{"resources.requests", requests, fillRequest},
	{"cpu", one(func(d *v1.DomainSpec) **v1.CPU { return &d.CPU }), copied(func(d *v1.DomainSpec) **v1.CPU { return &d.CPU })},
	{"firmware", one(func(d *v1.DomainSpec) **v1.Firmware { return &d.Firmware }), copied(func(d *v1.DomainSpec) **v1.Firmware { return &d.Firmware })},
	{"clock", clockOffset, fillClockOffset},
	{"clock.timer", timer, fillTimer},
	{"features", one(func(d *v1.DomainSpec) **v1.Features { return &d.Features }), copied(func(d *v1.DomainSpec) **v1.Features { return &d.Features })},
	{"devices.watchdog", one(func(d *v1.DomainSpec) **v1.Watchdog { return &d.Devices.Watchdog }),
		copied(func(d *v1.DomainSpec) **v1.Watchdog { return &d.Devices.Watchdog })},
	{"ioThreadsPolicy", one(func(d *v1.DomainSpec) **v1.IOThreadsPolicy { return &d.IOThreadsPolicy }),
		copied(func(d *v1.DomainSpec) **v1.IOThreadsPolicy { return &d.IOThreadsPolicy })},
}

func (a area) path(key string) string {
	if key == "" {
		return "spec.domain." + a.name
	}
	return "spec.domain." + a.name + "." + key
}

// note tells the log what was filled; a key is one of a map.
func (a area) note(log *filled.Log, key string, value any) {
	if key != "" {
		log.Key(a.path(""), key)
		return
	}
	log.Leaves(a.path(""), value)
}

// one is an area that is a single pointer.
func one[T any](at func(*v1.DomainSpec) **T) func(*v1.DomainSpec) map[string]any {
	return func(d *v1.DomainSpec) map[string]any {
		if p := *at(d); p != nil {
			return map[string]any{"": p}
		}
		return nil
	}
}

// copied hands the pointer of a preset's copy to the guest.
func copied[T any](at func(*v1.DomainSpec) **T) func(guest, preset *v1.DomainSpec, key string) {
	return func(guest, preset *v1.DomainSpec, _ string) { *at(guest) = *at(preset) }
}

func requests(d *v1.DomainSpec) map[string]any {
	values := map[string]any{}
	for name, quantity := range d.Resources.Requests {
		values[string(name)] = quantity
	}
	return values
}

func fillRequest(guest, preset *v1.DomainSpec, key string) {
	if guest.Resources.Requests == nil {
		guest.Resources.Requests = corev1.ResourceList{}
	}
	guest.Resources.Requests[corev1.ResourceName(key)] = preset.Resources.Requests[corev1.ResourceName(key)]
}

func clockOffset(d *v1.DomainSpec) map[string]any {
	if d.Clock == nil || d.Clock.ClockOffset == (v1.ClockOffset{}) {
		return nil
	}
	return map[string]any{"": d.Clock.ClockOffset}
}

func fillClockOffset(guest, preset *v1.DomainSpec, _ string) {
	if guest.Clock == nil {
		guest.Clock = &v1.Clock{}
	}
	guest.Clock.ClockOffset = preset.Clock.ClockOffset
}

func timer(d *v1.DomainSpec) map[string]any {
	if d.Clock == nil || d.Clock.Timer == nil {
		return nil
	}
	return map[string]any{"": d.Clock.Timer}
}

func fillTimer(guest, preset *v1.DomainSpec, _ string) {
	if guest.Clock == nil {
		guest.Clock = &v1.Clock{}
	}
	guest.Clock.Timer = preset.Clock.Timer
}

func same(a, b any) bool { return equality.Semantic.DeepEqual(a, b) }

func keys(values map[string]any) []string { return slices.Sorted(maps.Keys(values)) }

// maxText is about the length of a value, or of a list of names, in a message: a preset may have a kernel's arguments of a megabyte.
const maxText = 1024

// print is a value for a message.
func print(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		raw = fmt.Append(nil, value)
	}
	return short(string(raw))
}

func short(text string) string {
	if len(text) > maxText {
		return strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}

// ignored names what a preset sets beyond the eight areas: KubeVirt drops it in silence.
func ignored(name string, domain *v1.DomainSpec) (skipped []Skipped) {
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
	for _, key := range keys(left) {
		inner, nested := left[key].(map[string]any)
		switch {
		case nested && parts[key]:
			for _, part := range keys(inner) {
				skipped = append(skipped, Skipped{name, "spec.domain." + key + "." + part, uncovered})
			}
		case !nested || len(inner) > 0:
			skipped = append(skipped, Skipped{name, "spec.domain." + key, uncovered})
		}
	}
	return skipped
}

const uncovered = "presets do not cover it"

// parts are objects of which presets cover a part, so that the others are named one by one.
var parts = map[string]bool{"devices": true, "resources": true}
