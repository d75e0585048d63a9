package fields

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	pods "github.com/kilnvm/kiln/pkg/pod"
	"github.com/kilnvm/kiln/test/golden"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// judged has the verdicts of a runtime on the leaves of all samples, and on those that stage 1 refuses.
func judged(t *testing.T, r runtime, samples []Guest, of []string) verdicts {
	t.Helper()
	found, each := verdicts{}, make([]verdicts, len(samples))
	var group sync.WaitGroup
	for i, sample := range samples { // at once: most of the time, each waits for qemu-img
		each[i] = verdicts{}
		group.Go(func() {
			if err := (trial{r, generous(), of, each[i]}).trySample(sample.VMI.DeepCopy()); err != nil {
				t.Errorf("%s: %s: %v", r.name, sample.Name, err)
			}
		})
	}
	group.Wait()
	for _, verdicts := range each {
		for leaf, verdict := range verdicts {
			found.addVerdict(leaf, verdict)
		}
	}
	return found
}

// withRefused adds guests with the leaves that stage 1 refuses.
func withRefused(t *testing.T, samples []Guest) []Guest {
	t.Helper()
	for _, leaf := range slices.Sorted(maps.Keys(refusals)) {
		guest := Guest{Name: leaf}
		guest.VMI.Namespace, guest.VMI.Name, guest.VMI.UID = "default", "refused", "5f0c1f6e-6d2a-4c7b-9a43-8f3e1d2c7b6a"
		if err := yaml.UnmarshalStrict([]byte(refusals[leaf]), &guest.VMI.Spec); err != nil {
			t.Fatal(err)
		}
		samples = append(samples, guest)
	}
	return samples
}

// add puts in what acts at run time, and fails for rows that are not needed.
func add(t *testing.T, runtime string, found verdicts) {
	t.Helper()
	for _, a := range acts {
		if a.runtime != runtime {
			continue
		}
		if found[a.leaf] != "" {
			t.Errorf("%s: %s is %s without the row of acts: take it away", runtime, a.leaf, found[a.leaf])
		}
		exists(t, a.file, a.test)
		found[a.leaf] = Served
	}
}

func exists(t *testing.T, file, test string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(raw), "\nfunc "+test+"(t *testing.T)") {
		t.Errorf("%s has no %s (%v)", file, test, err)
	}
}

const runtimesHead = `# Runtimes

What becomes of each field in each runtime: in a pod of the cluster, on a bare machine (node), and in KubeVirt. 'make golden' writes this page from evidence in
'test/fields'. Sample guests lose each field, and get another value of it: a field is *served* if the libvirt domain changes, or what the launcher binds; it is
*served by the pod instead* if the pod alone changes. It is *warned of* if a warning names it (event 'NoEffect' of the VMI), and *refused* if an error
does, or if no guest can have it without a field that is refused. Of several places of one field the best counts. A field that none of this sees fails the
test, unless a row of 'test/fields/acts.go' names the code that acts on it, and its test.

The column of pods assumes an installation in which the administrator has declared nothing. *Refused¹*: admitted if the administrator declares a storage
class for state, locked memory and taps ([pods.md](../explanation/pods.md#refused-warned-of)). The launcher of a bare machine has all its flags.

The column of KubeVirt is what the code of KubeVirt 1.9 makes of the same guests ('test/kubevirt/answers'): its webhooks, the pod that virt-controller makes,
and the domain, cloud-init data and DHCP answers that virt-launcher makes. All feature gates are on but the three that need a real node
('PCINUMAAwareTopology', 'GraceIOVirtualization', 'IOMMUFD'). The cluster has every claim, network, binding and device that a guest names. *Not seen*:
KubeVirt accepts the field, and none of these changes; other parts of KubeVirt may act on it. *Served²*: they do, by the code that
'test/fields/kubevirt_acts.go' names. 'test/fields/kubevirt.yaml' has the evidence of each cell.

| fields | runtime | served | served by the pod instead | warned of | not seen | refused |
|---|---|---|---|---|---|---|
`

// TestRuntimes: no field is accepted without effect in silence.
func TestRuntimes(t *testing.T) {
	samples, all := withRefused(t, guests(t)), leavesOfType(reflect.TypeFor[v1.VirtualMachineInstanceSpec]())
	bare := judged(t, onMachine(imagesOf(samples)), samples, all)
	add(t, "node", bare)
	installed := judged(t, inPods(pods.Settings{}), samples, all)
	add(t, "pod", installed)
	// What is refused only until an administrator declares what nodes have.
	var refused []string
	for _, leaf := range all {
		if installed[leaf] == Refused {
			refused = append(refused, leaf)
		}
	}
	declared := judged(t, inPods(pods.Settings{StateClass: "fast", Taps: true, LockedMemory: true}), samples, refused)
	var rows strings.Builder
	fmt.Fprintf(&rows, "\n## VirtualMachineInstance\n\nPaths start at `spec`.\n\n| field | pod | node | kubevirt |\n|---|---|---|---|\n")
	other, cells := kubeVirtColumn(t, all)
	for _, leaf := range all {
		for name, found := range map[string]verdicts{"pod": installed, "node": bare} {
			if found[leaf] == "" {
				t.Errorf("%s: %s is accepted, and has no effect", name, leaf)
			}
		}
		cell := installed[leaf]
		if cell == Refused && declared[leaf] != Refused && declared[leaf] != "" {
			cell += "¹"
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s | %s |\n", leaf, cell, bare[leaf], cells[leaf])
	}
	counts := count(t, "VirtualMachineInstance", "pod", installed) + count(t, "VirtualMachineInstance", "node", bare) +
		count(t, "VirtualMachineInstance", "kubevirt", other)
	counts += vmRows(t, &rows)
	profiles := profileRows(t, &rows)
	if !t.Failed() {
		golden.Compare(t, "../../docs/reference/runtimes.md", strings.ReplaceAll(runtimesHead, "'", "`")+counts+profiles+rows.String())
	}
}

// count is a row of the first table.
func count(t *testing.T, kind, runtime string, found verdicts) string {
	row := fmt.Sprintf("| %s | %s |", kind, runtime)
	for _, rank := range ranks {
		n := 0
		for _, verdict := range found {
			if verdict == rank {
				n++
			}
		}
		row += fmt.Sprintf(" %d |", n)
	}
	t.Log(row)
	return row + "\n"
}

// profileRows writes the fields of HostProfiles. On a bare machine each has its element of the domain, which a test of package backend proves field by field.
// In a pod those are warned of, by condition Served, that backend.InSession leaves out.
func profileRows(t *testing.T, rows *strings.Builder) string {
	exists(t, "../../pkg/domain/backend/profile_test.go", "TestEveryFieldOfAProfile")
	exists(t, "../../internal/hostprofile/hostprofile_test.go", "TestServed")
	fmt.Fprintf(rows, "\n## HostProfile\n\nPaths start at `spec`. What is warned of stands in condition `Served`. KubeVirt has no such kind.\n\n"+
		"| field | pod | node |\n|---|---|---|\n")
	inPod, bare := verdicts{}, verdicts{}
	for _, leaf := range []string{"nodeSelector", "priority", "vmiSelector"} {
		exists(t, "../../pkg/domain/backend/profile_merge_test.go", "TestPolicyIsMerged")
		inPod[leaf], bare[leaf] = Served, Served
	}
	for _, leaf := range policyLeaves(reflect.TypeFor[v1alpha1.HostPolicy](), "") {
		var policy v1alpha1.HostPolicy
		set(t, reflect.ValueOf(&policy).Elem(), strings.Split(leaf, "."))
		if cpu := policy.CPU; cpu != nil && cpu.VCPUScheduler != nil {
			cpu.VCPUScheduler.Policy = words["policy"] // only these have a priority
		}
		inPod[leaf], bare[leaf] = Served, Served
		if _, left := backend.InSession(policy); len(left) > 0 {
			inPod[leaf] = Warned
		}
	}
	for _, leaf := range slices.Sorted(maps.Keys(bare)) {
		fmt.Fprintf(rows, "| `%s` | %s | %s |\n", leaf, inPod[leaf], bare[leaf])
	}
	return count(t, "HostProfile", "pod", inPod) + count(t, "HostProfile", "node", bare)
}

// policyLeaves are the fields of a policy that have no fields themselves, as TestEveryFieldOfAProfile lists them.
func policyLeaves(kind reflect.Type, at string) (paths []string) {
	for i := range kind.NumField() {
		name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
		if inner := kind.Field(i).Type; inner.Kind() == reflect.Pointer && inner.Elem().Kind() == reflect.Struct && inner != reflect.TypeFor[*resource.Quantity]() {
			paths = append(paths, policyLeaves(inner.Elem(), at+name+".")...)
		} else {
			paths = append(paths, at+name)
		}
	}
	return paths
}

// words are values of a policy whose verdict depends on them: the worst counts.
var words = map[string]string{"policy": "FIFO"}

// set gives a field of a policy a value.
func set(t *testing.T, part reflect.Value, path []string) {
	t.Helper()
	for i := range part.NumField() {
		name, _, _ := strings.Cut(part.Type().Field(i).Tag.Get("json"), ",")
		if name != path[0] {
			continue
		}
		value := part.Field(i)
		if value.Kind() == reflect.Pointer {
			value.Set(reflect.New(value.Type().Elem()))
			value = value.Elem()
		}
		switch {
		case len(path) > 1:
			set(t, value, path[1:])
		case value.Type() == reflect.TypeFor[resource.Quantity]():
			value.Set(reflect.ValueOf(resource.MustParse("1Gi")))
		case value.Kind() == reflect.String:
			value.SetString(cmp.Or(words[path[0]], "x"))
		case value.Kind() == reflect.Bool:
			value.SetBool(true)
		case value.Kind() == reflect.Slice:
			value.Set(reflect.MakeSlice(value.Type(), 1, 1))
		case value.CanInt():
			value.SetInt(7)
		default:
			t.Errorf("%v has a type without a value", path)
		}
		return
	}
	t.Errorf("no field %v", path)
}
