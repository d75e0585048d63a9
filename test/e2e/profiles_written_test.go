package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
)

// TestGuestProfileIsJudgedWhenWritten: kubectl prints the path of each mistake, a circle by its names, and the rule's words for an illegal value. A base
// that does not exist is a warning.
func TestGuestProfileIsJudgedWhenWritten(t *testing.T) {
	s := newSpace(t)
	text := func(kind, name, spec string) string {
		return "{apiVersion: kilnvm.io/v1alpha1, kind: " + kind + ", metadata: {name: " + name + "}, spec: {" + spec + "}}"
	}
	s.profile("first", "extends: [{name: second}]")
	for _, test := range []struct{ why, manifest, want string }{
		{"an unknown field", text("GuestProfile", "p", "template: {spec: {domain: {cpu: {coers: 2}}}}"),
			"spec.template.spec.domain.cpu.coers: Forbidden: unknown field"},
		{"a wrong type", text("ClusterGuestProfile", s.name, "template: {spec: {domain: {devices: {disks: [{name: a, bootOrder: first}]}}}}"),
			"spec.template.spec.domain.devices.disks[0].bootOrder: Invalid value"},
		{"a record of admission", text("GuestProfile", "p", "template: {metadata: {annotations: {kilnvm.io/pins: '{}'}}}"),
			"spec.template.metadata.annotations[kilnvm.io/pins]: Forbidden"},
		{"a selector", text("GuestProfile", "p", "selector: {matchExpressions: [{key: a, operator: Like}]}"), "spec.selector: Forbidden"},
		{"an illegal value", text("GuestProfile", "p", "template: {spec: {domain: {devices: {disks: [{name: root, disk: {bus: nvme}}]}}}}"),
			`spec.template.spec.domain.devices.disks[0].disk.bus: Unsupported value: "nvme"`},
		{"a circle", text("GuestProfile", "second", "extends: [{name: first}]"),
			"leads in a circle: GuestProfile 'second' extends GuestProfile 'first' extends GuestProfile 'second'"},
	} {
		s.settled(test.why, func() bool {
			result := s.kubectl(test.manifest, "apply", "-f", "-")
			return result.err != nil && strings.Contains(result.stderr, test.want)
		})
	}
	later := s.must(s.kubectl(text("GuestProfile", "third", "extends: [{name: later}]"), "apply", "-f", "-"))
	if !strings.Contains(later.stderr, "Warning: spec.extends[0].name: GuestProfile 'later' does not exist") {
		t.Errorf("no warning of the base: %s", later.stderr)
	}
}

// TestStatusOfGuestProfiles: the status follows profiles and VMs.
func TestStatusOfGuestProfiles(t *testing.T) {
	s := newSpace(t)
	s.profile("one", "selector: {matchLabels: {app: web}}, "+threads("auto"))
	s.profile("two", "selector: {matchLabels: {app: web}}, priority: 1, extends: [{name: later}]")
	s.create(strings.Replace(vm("halted"), "  template:\n", "  template:\n    metadata: {labels: {app: api}}\n", 1))
	s.eventually("the statuses are written", func() bool {
		one, two := s.profileStatus("one"), s.profileStatus("two")
		return meta.IsStatusConditionTrue(one.Conditions, v1alpha1.ConditionAccepted) && meta.IsStatusConditionFalse(one.Conditions, v1alpha1.ConditionConflicting) &&
			meta.IsStatusConditionFalse(two.Conditions, v1alpha1.ConditionAccepted) &&
			meta.FindStatusCondition(two.Conditions, v1alpha1.ConditionAccepted).Reason == v1alpha1.ReasonBaseMissing
	})
	s.profile("later", "selector: {}, "+threads("shared"))
	s.profile("three", "selector: {matchLabels: {app: api}}, "+threads("auto"))
	s.eventually("a base is created, a VM is counted, and two disagree", func() bool {
		two, three := s.profileStatus("two"), s.profileStatus("three")
		return meta.IsStatusConditionTrue(two.Conditions, v1alpha1.ConditionAccepted) && three.Selected == 1 && s.profileStatus("one").Selected == 0 &&
			meta.IsStatusConditionTrue(three.Conditions, v1alpha1.ConditionConflicting)
	})
}

func (s space) profileStatus(name string) (status v1alpha1.GuestProfileStatus) {
	s.Helper()
	raw, err := json.Marshal(s.get("guestprofile", name).Object["status"])
	if err == nil {
		err = json.Unmarshal(raw, &status)
	}
	if err != nil {
		s.Fatal(err)
	}
	return status
}
