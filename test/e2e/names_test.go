package e2e

import (
	"strings"
	"testing"
)

// TestNamesThatNoObjectHas: a name with a slash leads to no other namespace, and is the user's mistake and no fault of Kiln's.
func TestNamesThatNoObjectHas(t *testing.T) {
	s := newSpace(t)
	const named = "instancetype: {name: small}"
	for _, test := range []struct {
		why     string
		changes []string
		want    string
	}{
		{"a revision of another namespace", []string{named, "instancetype: {name: small, revisionName: other/small}"},
			`spec.instancetype.revisionName: Invalid value: "other/small": no revision can have this name`},
		{"an instancetype of another namespace", []string{named, "instancetype: {kind: VirtualMachineInstancetype, name: ../other/small}"},
			`spec.instancetype.name: Invalid value: "../other/small": no object can have this name`},
		{"the claim of another namespace", []string{named, "instancetype: {inferFromVolume: data}",
			"emptyDisk: {capacity: 1Gi}", "persistentVolumeClaim: {claimName: ../other/persistentvolumeclaims/golden}"},
			"spec.instancetype.inferFromVolume: PersistentVolumeClaim"},
	} {
		result := s.kubectl(vm("demo", test.changes...), "create", "--dry-run=server", "-f", "-")
		if text := result.stdout + result.stderr; !strings.Contains(text, test.want) || strings.Contains(text, "kiln cannot process") {
			t.Errorf("%s: no '%s' in\n%s", test.why, test.want, text)
		}
	}
}
