package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/test/nightly"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestRehearsalIsRepin: for random VMs and edits, a rehearsal says before each edit what 'repin --dry-run' says after it: the changes of the hardware, and the
// pins. A plan then gives the VMs exactly these pins. 'make nightly' runs VMS=1000 VMs and CHANGES=30 edits.
func TestRehearsalIsRepin(t *testing.T) {
	s := newSpace(t)
	random := rand.New(rand.NewPCG(46, 46))
	vms, edits := 6, 4
	if os.Getenv("NIGHTLY") != "" {
		vms, edits = nightly.Number(t, "VMS", 1000), nightly.Number(t, "CHANGES", 30)
	}
	const kinds, wave = 3, 100
	var objects, names []string
	for i := range kinds {
		objects = append(objects, sizeOf(i, 1+i, "1Gi"), tasteOf(i, "preferredDiskBus: virtio"))
	}
	for i := range vms {
		disk := []string{"disk: {}", "disk: {bus: sata}"}[random.IntN(2)]
		objects = append(objects, fmt.Sprintf(`{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: r%d}, spec: {runStrategy: Halted, `+
			`instancetype: {name: size-%d, kind: VirtualMachineInstancetype}, preference: {name: taste-%d, kind: VirtualMachinePreference}, `+
			`template: {spec: {domain: {devices: {disks: [{name: root, %s}]}}, volumes: [{name: root, emptyDisk: {capacity: 1Gi}}]}}}}`,
			i, random.IntN(kinds), random.IntN(kinds), disk))
		names = append(names, fmt.Sprintf("vm/r%d", i))
	}
	s.must(s.kubectl(strings.Join(objects, "\n---\n"), "apply", "--server-side", "-f", "-"))
	s.eventually("all VMs are pinned", func() bool {
		out := s.must(s.kubectl("", "get", "vm", "-o", `jsonpath={.items[*].metadata.annotations.kilnvm\.io/pins}`)).stdout
		return strings.Count(out, `"configuration"`) == vms
	})
	dir, compared := t.TempDir(), 0
	for n := range edits {
		change := editOf(random, kinds)
		file, plan := filepath.Join(dir, "change.yaml"), filepath.Join(dir, "plan.json")
		if err := os.WriteFile(file, []byte(change), 0o600); err != nil {
			t.Fatal(err)
		}
		rehearsed := s.kiln("rehearse", "--with", file, "--plan", plan, "-o", "json")
		var answer rehearsedVMs
		if err := json.Unmarshal([]byte(rehearsed.stdout), &answer); err != nil || len(answer.VirtualMachines) != vms {
			t.Fatalf("%v: %s%s", err, rehearsed.stdout, rehearsed.stderr)
		}
		s.must(s.kubectl(change, "apply", "--server-side", "--force-conflicts", "-f", "-"))
		compared += s.compareRepin(change, answer, plan, names)
		if n%2 == 0 { // other edits leave pins that are older than what is installed
			continue
		}
		for waves := 0; ; waves++ {
			out := s.must(s.kiln("repin", "--plan", plan, "--only", "same,live,restart,breaks", "--max", fmt.Sprint(wave))).stdout
			if strings.Contains(out, "; 0 left") {
				break
			}
			if waves > vms {
				t.Fatalf("the waves do not end:\n%s", out)
			}
		}
		if again := s.must(s.kiln("repin", "--plan", plan, "--only", "same,live,restart,breaks")).stdout; !strings.HasPrefix(again, "0 repinned") {
			t.Errorf("a second run of the plan of %s does something:\n%s", change, again)
		}
		stored := storedPins(s)
		for _, item := range readPlan(t, plan) {
			for _, key := range []string{"instancetype", "preference", "configuration"} {
				if is := stored[item.Name][key]; is != item.To[key] {
					t.Errorf("%s after the plan of %s: %s is %v, want %v", item.Name, change, key, is, item.To[key])
				}
			}
		}
	}
	if compared == 0 {
		t.Error("no VM was compared")
	}
}

// rehearsedVMs is what the test reads of a rehearsal.
type rehearsedVMs struct {
	VirtualMachines []struct {
		Name, Verdict string
		Group         int
	}
	Groups []struct{ Changes []any }
}

// plannedVM is what the test reads of an item of a plan.
type plannedVM struct {
	Name string
	To   map[string]any
}

func readPlan(t *testing.T, path string) []plannedVM {
	t.Helper()
	raw, err := os.ReadFile(path)
	var plan struct{ Items []plannedVM }
	if err != nil || json.Unmarshal(raw, &plan) != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return plan.Items
}

// storedPins returns the pins of all VMs by name.
func storedPins(s space) map[string]map[string]any {
	s.Helper()
	var list metav1.PartialObjectMetadataList
	text := s.must(s.kubectl("", "get", "vm", "-o", "json")).stdout
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		s.Fatalf("%v: %.500s", err, text)
	}
	all := map[string]map[string]any{}
	for _, vm := range list.Items {
		var pins map[string]any
		if err := json.Unmarshal([]byte(vm.Annotations["kilnvm.io/pins"]), &pins); err != nil {
			s.Fatalf("%s: %v: %v", vm.Name, err, vm.Annotations)
		}
		all[vm.Name] = pins
	}
	return all
}

// compareRepin compares a rehearsal with 'repin --dry-run', and returns the number of VMs that both compare.
func (s space) compareRepin(change string, rehearsed rehearsedVMs, plan string, names []string) (compared int) {
	s.Helper()
	type answer struct {
		Object     string
		Difference *struct {
			Verdict string
			Changes []any
		}
		Instancetype, Preference struct{ After string }
		Allowed                  *bool
	}
	var all []answer
	const together = 50 // a call has two minutes
	for some := range slices.Chunk(names, together) {
		var next []answer
		listed(s, s.kiln(append(append([]string{"repin"}, some...), "--dry-run", "-o", "json")...).stdout, &next)
		all = append(all, next...)
	}
	byName := map[string]answer{}
	for _, one := range all {
		byName[one.Object] = one
	}
	planned := map[string]plannedVM{}
	for _, item := range readPlan(s.T, plan) {
		planned[item.Name] = item
	}
	for _, vm := range rehearsed.VirtualMachines {
		repin := byName["VirtualMachine "+s.name+"/"+vm.Name]
		if repin.Difference == nil {
			if vm.Verdict != "refused" {
				s.Errorf("%s: %s is '%s', and 'repin' refuses it: %+v", change, vm.Name, vm.Verdict, repin)
			}
			continue
		}
		changes := []any{}
		if vm.Group > 0 {
			changes = rehearsed.Groups[vm.Group-1].Changes
		}
		if diff := cmp.Diff(repin.Difference.Changes, changes); diff != "" {
			s.Errorf("%s: %s (-repin +rehearsal):\n%s", change, vm.Name, diff)
		}
		want := map[string]string{"compatible": "same", "needs restart": "restart", "breaks the guest's hardware": "breaks"}[repin.Difference.Verdict]
		if vm.Verdict != want {
			s.Errorf("%s: %s is '%s', and 'repin' says '%s'", change, vm.Name, vm.Verdict, repin.Difference.Verdict)
		}
		if to := planned[vm.Name].To; to["instancetype"] != repin.Instancetype.After || to["preference"] != repin.Preference.After {
			s.Errorf("%s: %s would be pinned to %v, and 'repin' pins it to %s and %s", change, vm.Name, to, repin.Instancetype.After, repin.Preference.After)
		}
		compared++
	}
	return compared
}

func sizeOf(n, cpus int, memory string) string {
	return fmt.Sprintf(`{apiVersion: instancetype.kubevirt.io/v1beta1, kind: VirtualMachineInstancetype, metadata: {name: size-%d}, spec: {cpu: {guest: %d}, `+
		`memory: {guest: %s}}}`, n, cpus, memory)
}

func tasteOf(n int, devices string) string {
	return fmt.Sprintf(`{apiVersion: instancetype.kubevirt.io/v1beta1, kind: VirtualMachinePreference, metadata: {name: taste-%d}, spec: {devices: {%s}, `+
		`requirements: {cpu: {guest: 1}}}}`, n, devices)
}

// editOf returns a random edit of an instancetype or a preference.
func editOf(random *rand.Rand, kinds int) string {
	n := random.IntN(kinds)
	switch random.IntN(4) {
	case 0:
		return sizeOf(n, 1+random.IntN(4), []string{"1Gi", "2Gi", "3Gi"}[random.IntN(3)])
	case 1:
		return strings.Replace(tasteOf(n, "preferredRng: {}"), "guest: 1", "guest: 3", 1)
	case 2:
		return tasteOf(n, "preferredDiskBus: "+[]string{"virtio", "sata", "scsi"}[random.IntN(3)])
	}
	return tasteOf(n, "preferredTPM: {}, preferredDiskBus: virtio")
}
