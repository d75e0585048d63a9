package profile

import (
	"fmt"
	"testing"
)

// fifty returns 50 profiles, each of a handful of fields, that select VMIs by a label.
func fifty(t testing.TB, label string) (all []*Profile) {
	for i := range 50 {
		all = append(all, read(t, fmt.Sprintf("p%d", i), fmt.Sprintf(`{selector: {matchLabels: {tier: %s}}, priority: %d, extends: [{name: base}], template: {
			metadata: {labels: {l%d: a}, annotations: {a%d: b}}, spec: {nodeSelector: {k%d: v}, domain: {cpu: {model: m%d}, devices: {rng: {},
				autoattachMemBalloon: false,
			disks: [{name: root, cache: none}]}}}}}`, label, i%5, i, i, i, i%5)))
	}
	return append(all, read(t, "base", `{template: {spec: {terminationGracePeriodSeconds: 30, evictionStrategy: None, domain: {machine: {type: q35},
		clock: {utc: {}}}}}}`))
}

const mid = `{metadata: {labels: {tier: web}, annotations: {a: b}}, spec: {networks: [{name: a, pod: {}}, {name: b, multus: {networkName: b}}],
	domain: {cpu: {cores: 2}, memory: {guest: 2Gi}, devices: {disks: [{name: root, disk: {bus: virtio}}, {name: data, disk: {bus: virtio}}],
		interfaces: [{name: a, masquerade: {}}, {name: b, bridge: {}}]}}, volumes: [{name: root, containerDisk: {image: i}}, {name: data,
			emptyDisk: {capacity: 1Gi}}]}}`

// BenchmarkFill fills a VMI from 50 profiles that select it, and from 50 that do not.
func BenchmarkFill(b *testing.B) {
	for _, label := range []string{"web", "other"} {
		b.Run(label, func(b *testing.B) {
			all, vmi := fifty(b, label), vmiOf(b, mid)
			b.ReportAllocs()
			for b.Loop() {
				filled := vmi.DeepCopy()
				if errs := Fill(all, filled, Observer{}); len(errs) > 0 {
					b.Fatal(errs)
				}
			}
		})
	}
}

// TestOthersCostNothing: profiles that do not select a VMI cost no allocation.
func TestOthersCostNothing(t *testing.T) {
	all, vmi := fifty(t, "other"), vmiOf(t, mid)
	if allocations := testing.AllocsPerRun(100, func() {
		if errs := Fill(all, vmi, Observer{}); len(errs) > 0 {
			t.Fatal(errs)
		}
	}); allocations > 0 {
		t.Errorf("%v allocations", allocations)
	}
}
