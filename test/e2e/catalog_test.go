package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCatalogOfTheCluster: the objects of a real API server are linted, compared with files, and counted with the VMs that use them.
func TestCatalogOfTheCluster(t *testing.T) {
	s := newSpace(t)
	s.create(ownSize)
	s.create(own("web"))
	const object = "virtualmachineinstancetype/own"
	type used struct {
		State                              string
		VirtualMachines, Current, Outdated int
		Removal                            string
	}
	usage := func() used {
		var list []used
		if listed(s, s.must(s.kiln("catalog", "usage", object, "-o", "json")).stdout, &list); len(list) != 1 {
			t.Fatal(list)
		}
		return list[0]
	}
	const kept = "1 VM keeps its revision, and starts and restarts as before"
	if got, want := usage(), (used{"active", 1, 1, 0, kept}); got != want {
		t.Errorf("usage: %+v, want %+v", got, want)
	}

	file := filepath.Join(t.TempDir(), "own.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(ownSize, "1Gi", "2Gi", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	diff := s.kiln("catalog", "diff", "cluster", file)
	if want := "~ VirtualMachineInstancetype " + s.name + "/own: needs restart (minor)\n    spec.memory.guest: \"1Gi\" -> \"2Gi\"\n"; s.status(diff) != 3 ||
		!strings.Contains(diff.stdout, want) {
		t.Errorf("diff: status %d, want '%s' in\n%s%s", s.status(diff), want, diff.stdout, diff.stderr)
	}
	if lint := s.kiln("catalog", "lint", "cluster"); !strings.Contains(lint.stdout, "VirtualMachineInstancetype "+s.name+"/own: warning: labels are missing") {
		t.Errorf("lint: %s%s", lint.stdout, lint.stderr)
	}

	s.must(s.kubectl("", "apply", "--server-side", "--force-conflicts", "-n", s.name, "-f", file))
	if got, want := usage(), (used{"active", 1, 0, 1, kept}); got != want {
		t.Errorf("usage after an edit: %+v, want %+v", got, want)
	}
	s.must(s.kubectl("", "delete", "virtualmachineinstancetype", "own"))
	if got, want := usage(), (used{"gone", 1, 0, 1, "it is gone already"}); got != want {
		t.Errorf("usage after a removal: %+v, want %+v", got, want)
	}
}
