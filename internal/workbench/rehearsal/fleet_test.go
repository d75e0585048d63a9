package rehearsal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/guestdiff"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/test/fleet"
	"github.com/kilnvm/kiln/test/nightly"
	"github.com/kilnvm/kiln/test/samples"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// readCatalog returns the catalog of a set of samples.
func readCatalog(t testing.TB, s samples.Set) []*unstructured.Unstructured {
	t.Helper()
	return fleet.ReadCatalog(t, s.Path("catalog"))
}

// edited returns a copy of an object with fields that are given as YAML.
func edited(t testing.TB, object *unstructured.Unstructured, fields string) *unstructured.Unstructured {
	t.Helper()
	var change map[string]any
	if err := yaml.Unmarshal([]byte(fields), &change); err != nil {
		t.Fatal(err)
	}
	changed := object.DeepCopy()
	merge(changed.Object, change)
	return changed
}

func merge(into, from map[string]any) {
	for key, value := range from {
		below, is := value.(map[string]any)
		have, has := into[key].(map[string]any)
		if is && has {
			merge(have, below)
		} else {
			into[key] = value
		}
	}
}

// text returns objects as YAML documents.
func text(t testing.TB, objects ...*unstructured.Unstructured) string {
	t.Helper()
	var all strings.Builder
	for _, object := range objects {
		raw, err := yaml.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString("---\n" + string(raw))
	}
	return all.String()
}

// file writes documents into a file.
func file(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// changes returns the documents as changes.
func changes(t testing.TB, documents string) *Laid {
	t.Helper()
	laid := &Laid{}
	if documents != "" {
		if err := laid.AddFiles("change", manifest.Files{Names: []string{file(t, documents)}}); err != nil {
			t.Fatal(err)
		}
	}
	return laid
}

// rehearse rehearses changes for a dump.
func rehearse(t testing.TB, dump string, o Options) *Rehearsal {
	t.Helper()
	read, err := manifest.Files{Names: []string{dump}}.ReadDump()
	if err != nil {
		t.Fatal(err)
	}
	found, err := OfDump(t.Context(), &workbench.Bench{}, read, o)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// someChanges returns changes of a catalog and its settings, by name.
func someChanges(t testing.TB, catalog []*unstructured.Unstructured) map[string]string {
	t.Helper()
	all := map[string]string{"nothing": ""}
	for i, object := range catalog {
		switch name := object.GetName(); {
		case object.GetKind() == fleet.Preferences && i%2 == 0:
			all["cores of "+name] = text(t, edited(t, object, "spec: {cpu: {preferredCPUTopology: cores}}"))
			all["another bus of "+name] = text(t, edited(t, object, "spec: {devices: {preferredDiskBus: scsi}}"))
			all["a grace period of "+name] = text(t, edited(t, object, "spec: {preferredTerminationGracePeriodSeconds: 77}"))
		case object.GetKind() == fleet.Preferences:
			all["a model of "+name] = text(t, edited(t, object, "spec: {devices: {preferredInterfaceModel: e1000e, preferredRng: {}}}"))
			all["a label of "+name] = text(t, edited(t, object, "metadata: {labels: {a: b}}"))
			all["requirements of "+name] = text(t, edited(t, object, "spec: {requirements: {cpu: {guest: 64}}}"))
		case i%2 == 0:
			all["memory of "+name] = text(t, edited(t, object, "spec: {memory: {guest: 3Gi}}"))
			all["obsolete "+name] = text(t, edited(t, object, "metadata: {labels: {kilnvm.io/lifecycle: obsolete}}"))
		default:
			all["CPUs of "+name] = text(t, edited(t, object, "spec: {cpu: {guest: 3}}"))
		}
	}
	const head = "apiVersion: kilnvm.io/v1alpha1\n"
	all["configuration"] = "apiVersion: kubevirt.io/v1\nkind: KubeVirt\nmetadata: {name: kubevirt, namespace: kubevirt}\n" +
		"spec: {configuration: {cpuModel: Nehalem, machineType: pc-q35-7.2}}\n"
	all["profile"] = head + "kind: ClusterGuestProfile\nmetadata: {name: rng}\n" +
		"spec: {selector: {matchLabels: {app: a}}, template: {spec: {domain: {devices: {rng: {}}}}}}\n"
	all["policy"] = head + "kind: GuestPolicy\nmetadata: {name: small}\n" +
		"spec:\n  validations:\n  - {expression: \"guest.spec.domain.cpu.sockets < 3u\", message: too many sockets}\n"
	all["frontend"] = head + "kind: FrontendProfile\nmetadata: {name: v5}\nspec: {freePorts: 16}\n"
	all["preset"] = "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstancePreset\nmetadata: {name: p, namespace: team-000}\n" +
		"spec: {selector: {matchLabels: {app: b}}, domain: {devices: {watchdog: {name: w, i6300esb: {action: reset}}}}}\n"
	return all
}

// sortedNames returns the names of changes; at most most of them, evenly chosen.
func sortedNames(all map[string]string, most int) []string {
	var names []string
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	for len(names) > most {
		names = slices.Delete(names, (len(names)-most)%len(names), (len(names)-most)%len(names)+1)
	}
	return names
}

// few returns an instancetype and two preferences with devices, so that many VMs have the same content, except that some are pinned to an older one.
func few(catalog []*unstructured.Unstructured) (some []*unstructured.Unstructured) {
	most := map[string]int{fleet.Instancetypes: 1, fleet.Preferences: 2}
	for _, object := range catalog {
		_, devices, _ := unstructured.NestedMap(object.Object, "spec", "devices")
		if most[object.GetKind()] > 0 && (devices || object.GetKind() == fleet.Instancetypes) {
			most[object.GetKind()]--
			some = append(some, object)
		}
	}
	return some
}

// sizeOf returns how much a test tries: the number in an environment variable, else the larger one in 'make nightly'.
func sizeOf(t testing.TB, variable string, usual, night int) int {
	t.Helper()
	if os.Getenv("NIGHTLY") != "" {
		usual = night
	}
	return nightly.Number(t, variable, usual)
}

// TestSharing: results that VMs share are the results that each has by itself.
func TestSharing(t *testing.T) {
	t.Parallel()
	catalog := few(readCatalog(t, samples.Sets(t)[0]))
	f := fleet.Make(t, 3, sizeOf(t, "VMS", 70, 1000), catalog)
	dump := f.Write(t)
	shared := 0
	for _, name := range sortedNames(someChanges(t, catalog), sizeOf(t, "CHANGES", 6, 30)) {
		documents := someChanges(t, catalog)[name]
		with := rehearse(t, dump, Options{Laid: changes(t, documents)})
		without := rehearse(t, dump, Options{Laid: changes(t, documents), Unshared: true})
		if without.Computed != len(f.VMs) {
			t.Errorf("%s: %d of %d VMs were judged by themselves", name, without.Computed, len(f.VMs))
		}
		shared += len(f.VMs) - with.Computed
		if diff := cmp.Diff(without, with, cmpopts.IgnoreFields(Rehearsal{}, "Computed")); diff != "" {
			t.Errorf("%s (-by itself +shared):\n%s", name, diff)
		}
	}
	if shared == 0 {
		t.Error("no result was shared, so nothing is shown")
	}
}

// TestSameAsDiff: a rehearsal says of each VM what 'diff' says of the VM of the dump and the VM without pins in a cluster with the changes.
func TestSameAsDiff(t *testing.T) {
	t.Parallel()
	for _, set := range samples.Sets(t) {
		t.Run(set.Name, func(t *testing.T) {
			t.Parallel()
			catalog := readCatalog(t, set)
			f := fleet.Make(t, 7, sizeOf(t, "VMS", 20, 1000), catalog)
			dump := f.Write(t)
			all := someChanges(t, catalog)
			verdicts := map[Verdict]int{}
			for _, name := range sortedNames(all, sizeOf(t, "CHANGES", 5, 30)) {
				r := rehearse(t, dump, Options{Laid: changes(t, all[name])})
				for verdict, n := range r.Counts {
					verdicts[verdict] += n
				}
				compareWithDiff(t, name, f, all[name], r)
			}
			t.Log(verdicts)
			for _, verdict := range []Verdict{Same, Restart, Breaks} {
				if verdicts[verdict] == 0 {
					t.Errorf("no VM has verdict '%s', so nothing is shown about it", verdict)
				}
			}
		})
	}
}

// objectsOf returns the objects of documents.
func objectsOf(t *testing.T, documents string) (all []*unstructured.Unstructured) {
	t.Helper()
	for _, document := range strings.Split(documents, "---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatal(err)
		}
		if object.Object != nil {
			all = append(all, object)
		}
	}
	return all
}

// compareWithDiff compares a rehearsal with guestdiff.Compare, VM by VM.
func compareWithDiff(t *testing.T, name string, f *fleet.Fleet, documents string, r *Rehearsal) {
	t.Helper()
	base := slices.Concat(f.Catalog, f.Namespaces, f.Revisions)
	replaced := map[objectID]bool{}
	changed := objectsOf(t, documents)
	for _, object := range changed {
		replaced[idOf(object)] = true
	}
	later := append(slices.DeleteFunc(slices.Clone(base), func(o *unstructured.Unstructured) bool { return replaced[idOf(o)] }), changed...)
	var vms []*unstructured.Unstructured
	for _, vm := range f.VMs {
		unpinned := vm.DeepCopy()
		annotations := unpinned.GetAnnotations()
		delete(annotations, v1alpha1.AnnotationPins)
		unpinned.SetAnnotations(annotations)
		vms = append(vms, unpinned)
	}
	before, after := guests(t, text(t, append(base, f.VMs...)...)), guests(t, text(t, append(later, vms...)...))
	for _, vm := range r.VMs {
		key := vm.Namespace + "/" + vm.Name
		was, is := before[key], after[key]
		if was == nil || is == nil {
			if vm.Verdict != AlreadyRefused && vm.Verdict != Unjudged && vm.Verdict != Refused {
				t.Errorf("%s: %s is '%s', and 'diff' refuses it: before %t, after %t", name, key, vm.Verdict, was == nil, is == nil)
			}
			continue
		}
		d, err := guestdiff.Compare(t.Context(), &workbench.Bench{}, guestdiff.Side{Reviewed: *was}, guestdiff.Side{Reviewed: *is})
		if err != nil {
			t.Fatalf("%s: %s: %v", name, key, err)
		}
		got := []record.Change{}
		if vm.Group > 0 {
			got = r.Groups[vm.Group-1].Changes
		}
		if vm.Verdict == Refused && len(got) == 0 {
			continue // by a policy, which 'diff' does not ask: a rehearsal compares no refused guests
		}
		if diff := cmp.Diff(d.Changes, got); diff != "" {
			t.Errorf("%s: %s (-diff +rehearsal):\n%s", name, key, diff)
		}
		want := map[record.Verdict]Verdict{record.Compatible: Same, record.NeedsRestart: Restart, record.Breaks: Breaks}[d.Verdict]
		if vm.Verdict != want && vm.Verdict != Refused {
			t.Errorf("%s: %s is '%s', and 'diff' says '%s'", name, key, vm.Verdict, d.Verdict)
		}
	}
}

// guests reviews the VMs of documents as 'diff' does, and returns those that it compares.
func guests(t *testing.T, documents string) map[string]*workbench.Reviewed {
	t.Helper()
	in, err := manifest.Load(manifest.Files{Names: []string{file(t, documents)}})
	if err != nil {
		t.Fatal(err)
	}
	in.Named = slices.DeleteFunc(in.Named, func(o manifest.Object) bool { return o.GetKind() != "VirtualMachine" })
	for i := range in.Named {
		in.Named[i].Stored = true
	}
	all, err := (&workbench.Bench{}).Review(t.Context(), in, nil)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*workbench.Reviewed{}
	for i, reviewed := range all.Objects {
		if reviewed.Fault == nil && reviewed.Verdict.Allowed() && !reviewed.Unknown {
			found[reviewed.GetNamespace()+"/"+reviewed.GetName()] = &all.Objects[i]
		}
	}
	return found
}

// TestJuly2026: the change of common-instancetypes of July 2026, which sets preferredCPUTopology of Windows 10 and 11 from sockets to cores, is found for the
// VMs whose CPUs it changes, and for no others.
func TestJuly2026(t *testing.T) {
	t.Parallel()
	published := fleet.ReadCatalog(t, samples.Catalog(t))
	var earlier, later []*unstructured.Unstructured
	for _, object := range published {
		was := object
		if strings.HasPrefix(object.GetName(), "windows.10") || strings.HasPrefix(object.GetName(), "windows.11") {
			if topology, _, _ := unstructured.NestedString(object.Object, "spec", "cpu", "preferredCPUTopology"); topology != "cores" {
				t.Fatalf("the published catalog is from before the change: %s has '%s'", object.GetName(), topology)
			}
			was = edited(t, object, "spec: {cpu: {preferredCPUTopology: sockets}}")
			later = append(later, object)
		}
		earlier = append(earlier, was)
	}
	if len(later) != 4 {
		t.Fatalf("the change concerns %d preferences, want windows.10, windows.11 and their virtio variants", len(later))
	}
	f := fleet.Make(t, 2026, sizeOf(t, "VMS", 300, 3000), earlier)
	r := rehearse(t, f.Write(t), Options{Laid: changes(t, text(t, later...))})
	if len(r.Changes) != 4 || r.Changes[0].Action != Changed || r.Changes[0].Name != "windows.10" {
		t.Errorf("changes: %+v", r.Changes)
	}
	uses := map[string]bool{}
	for _, vm := range f.VMs {
		preference, _, _ := unstructured.NestedString(vm.Object, "spec", "preference", "name")
		size, _, _ := unstructured.NestedString(vm.Object, "spec", "instancetype", "name")
		cpus, _, _ := unstructured.NestedFieldNoCopy(fleet.Find(t, published, fleet.Instancetypes, size).Object, "spec", "cpu", "guest")
		uses[vm.GetNamespace()+"/"+vm.GetName()] = slices.ContainsFunc(later, func(o *unstructured.Unstructured) bool { return o.GetName() == preference }) &&
			fmt.Sprint(cpus) != "1"
	}
	found := 0
	for _, vm := range r.VMs {
		touched := vm.Group > 0 && !r.Groups[vm.Group-1].Installed && vm.Verdict != Same
		if vm.Verdict == AlreadyRefused {
			continue
		}
		if touched {
			found++
		}
		if key := vm.Namespace + "/" + vm.Name; touched != uses[key] {
			t.Errorf("%s: touched %t, and it uses a changed preference with more than one CPU: %t", key, touched, uses[key])
		}
	}
	if found == 0 {
		t.Error("no VM is touched")
	}
	for _, g := range r.Groups {
		if g.Installed || g.Verdict == Same {
			continue
		}
		ofCPUs := func(c record.Change) bool {
			return c.Part == record.PartTopology || c.Part == record.PartCPU || strings.Contains(c.Text, "CPU")
		}
		if !slices.ContainsFunc(g.Changes, ofCPUs) {
			t.Errorf("a guest that the change touches notices nothing of its CPUs: %+v", g.Changes)
		}
	}
}

// TestState: a second run computes only what has changed since, and a state is never believed that this program has not written for these settings.
func TestState(t *testing.T) {
	t.Parallel()
	catalog := readCatalog(t, samples.Sets(t)[0])
	f := fleet.Make(t, 5, 40, catalog)
	dump, path := f.Write(t), filepath.Join(t.TempDir(), "state")
	all := someChanges(t, catalog)
	names := sortedNames(all, len(all))
	cores := all[names[slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, "cores of") })]]
	run := func(documents string) *Rehearsal {
		return rehearse(t, dump, Options{Laid: changes(t, documents), State: NewState(path)})
	}
	first := run("")
	again := run("")
	if first.Computed == 0 || again.Computed != 0 {
		t.Errorf("the first run computes %d VMs, and the second %d", first.Computed, again.Computed)
	}
	edited := run(cores)
	plain := rehearse(t, dump, Options{Laid: changes(t, cores)})
	if edited.Computed == 0 || edited.Computed >= plain.Computed {
		t.Errorf("after an edit of one preference %d VMs are computed, without a state %d", edited.Computed, plain.Computed)
	}
	if diff := cmp.Diff(plain, edited, cmpopts.IgnoreFields(Rehearsal{}, "Computed")); diff != "" {
		t.Errorf("with a state (-without +with):\n%s", diff)
	}
	other := run(all["configuration"])
	if other.Computed == 0 || len(other.Warnings) != 1 || !strings.Contains(other.Warnings[0], "other settings") {
		t.Errorf("with another configuration %d VMs are computed: %q", other.Computed, other.Warnings)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	forged := strings.Replace(string(raw), `"verdict":"same"`, `"verdict":"live"`, 1)
	if forged == string(raw) {
		t.Fatal("the state has no VM that stays the same")
	}
	for why, content := range map[string]string{"forged": forged, "cut": string(raw[:len(raw)/2])} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := run(all["configuration"]); got.Computed != other.Computed || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "is damaged") {
			t.Errorf("%s: %d VMs are computed: %q", why, got.Computed, got.Warnings)
		}
	}
	if err := os.WriteFile(path, []byte("my notes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	read, err := manifest.Files{Names: []string{dump}}.ReadDump()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OfDump(t.Context(), &workbench.Bench{}, read, Options{State: NewState(path)}); err == nil || !strings.Contains(err.Error(), "is not a state") {
		t.Errorf("a file of somebody else: %v", err)
	}
	if kept, err := os.ReadFile(path); err != nil || string(kept) != "my notes\n" {
		t.Errorf("a file of somebody else is overwritten: %v %q", err, kept)
	}
	if _, err := os.Stat(path + ".tmp"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// BenchmarkRehearsal rehearses one edited preference for VMS=10000 VMs of the published catalog, and again with the state of the first run and another edit.
func BenchmarkRehearsal(b *testing.B) {
	catalog := fleet.ReadCatalog(b, samples.Catalog(b))
	dump := fleet.Make(b, 1, nightly.Number(b, "VMS", 10000), catalog).Write(b)
	preference := fleet.Find(b, catalog, fleet.Preferences, "windows.11")
	for _, again := range []bool{false, true} {
		b.Run(fmt.Sprintf("again=%t", again), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				state := filepath.Join(b.TempDir(), "state")
				if again {
					rehearse(b, dump, Options{State: NewState(state)})
				}
				b.StartTimer()
				r := rehearse(b, dump, Options{Laid: changes(b, text(b, edited(b, preference, "spec: {cpu: {preferredCPUTopology: spread}}"))), State: NewState(state)})
				b.ReportMetric(float64(r.Computed), "computed")
			}
		})
	}
}
