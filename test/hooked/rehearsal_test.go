package hooked

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/internal/workbench/rehearsal"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/identity"
	"github.com/kilnvm/kiln/test/fleet"
	"github.com/kilnvm/kiln/test/samples"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
	"sigs.k8s.io/yaml"
)

// rehearsed is the number of VMs, of which some are refused: their preference requires more memory.
const rehearsed = 230

// catalogEdits are edits of a catalog, by the kind and the name of the object: devices, CPUs, memory, a topology, some that no guest sees, and none.
var catalogEdits = map[[2]string]string{
	{fleet.Preferences, "fedora"}:        "spec: {devices: {preferredDiskBus: sata}}",
	{fleet.Preferences, "ubuntu"}:        "spec: {devices: {preferredRng: null}}",
	{fleet.Preferences, "windows.11"}:    "spec: {cpu: {preferredCPUTopology: sockets}}",
	{fleet.Preferences, "rhel.9"}:        "spec: {devices: {preferredInterfaceModel: e1000e}}",
	{fleet.Preferences, "debian"}:        "spec: {preferredTerminationGracePeriodSeconds: 77}",
	{fleet.Instancetypes, "u1.small"}:    "spec: {memory: {guest: 3Gi}}",
	{fleet.Instancetypes, "u1.large"}:    "spec: {cpu: {guest: 4}}",
	{fleet.Instancetypes, "m1.large"}:    "spec: {ioThreadsPolicy: auto}",
	{fleet.Instancetypes, "u1.2xmedium"}: "metadata: {labels: {example.com/tier: gold}}",
	{fleet.Preferences, "alpine"}:        "", {fleet.Preferences, "centos.stream9"}: "", {fleet.Preferences, "sles"}: "", {fleet.Preferences, "windows.2k22"}: "",
	{fleet.Instancetypes, "u1.xlarge"}: "", {fleet.Instancetypes, "u1.4xlarge"}: "", {fleet.Instancetypes, "m1.xlarge"}: "",
}

// TestRehearsalAgreesWithKubeVirt: before Kiln is installed, a rehearsal says of VMs of the published catalog whether an edited catalog changes their
// guests. KubeVirt's own converter makes the domain of each VM before and after the edits. The rehearsal names a change of the guest exactly where the guest
// sees one in KubeVirt's domains. Without such a change, KubeVirt may still ask for a restart, as after an edit of ioThreadsPolicy.
func TestRehearsalAgreesWithKubeVirt(t *testing.T) {
	catalog := fleet.ReadCatalog(t, samples.Catalog(t))
	var used, changed []*unstructured.Unstructured
	for _, object := range catalog {
		edit, is := catalogEdits[[2]string{object.GetKind(), object.GetName()}]
		if !is {
			continue
		}
		used = append(used, object)
		if edit == "" {
			changed = append(changed, object)
			continue
		}
		changed = append(changed, editedObject(t, object, edit))
	}
	if len(used) != len(catalogEdits) {
		t.Fatalf("the catalog has %d of %d objects", len(used), len(catalogEdits))
	}
	f := fleet.Make(t, 46, rehearsed, used)
	for _, vm := range f.VMs { // nothing is pinned yet
		vm.SetAnnotations(nil)
	}
	f.Revisions = nil
	laid := &rehearsal.Laid{}
	// What is equal to the object of the dump is no change.
	if err := laid.AddFiles("edits", manifest.Files{Names: []string{writeObjects(t, changed)}}); err != nil {
		t.Fatal(err)
	}
	dump, err := manifest.Files{Names: []string{f.Write(t)}}.ReadDump()
	if err != nil {
		t.Fatal(err)
	}
	r, err := rehearsal.OfDump(t.Context(), &workbench.Bench{Runtime: "kubevirt"}, dump, rehearsal.Options{Laid: laid})
	if err != nil {
		t.Fatal(err)
	}
	before := explicitGuests(t, slices.Concat(used, f.VMs))
	after := explicitGuests(t, slices.Concat(changed, f.VMs))

	changes := map[int]int{}
	for _, group := range r.Groups {
		changes[group.ID] = len(group.Changes)
	}
	l, counts := start(t), map[rehearsal.Verdict]int{}
	for _, vm := range r.VMs {
		name := vm.Namespace + "/" + vm.Name
		counts[vm.Verdict]++
		if vm.Verdict.Rank() > rehearsal.Breaks.Rank() {
			continue
		}
		was, is := l.domainByKubeVirt(t, before[name]), l.domainByKubeVirt(t, after[name])
		if named, differs := changes[vm.Group] > 0, !abi.Same(was, is); named != differs || vm.Verdict == rehearsal.Same && differs {
			t.Errorf("%s is '%s', with %d changes, and in KubeVirt's domains the guest sees %q", name, vm.Verdict, changes[vm.Group], abi.Changes(was, is))
		}
	}
	t.Logf("verdicts: %v", counts)
	if compared := counts[rehearsal.Same] + counts[rehearsal.Live] + counts[rehearsal.Restart] + counts[rehearsal.Breaks]; compared < 200 ||
		counts[rehearsal.Same] < 40 || counts[rehearsal.Breaks] < 20 || counts[rehearsal.Restart] < 20 || counts[rehearsal.Live] < 5 {
		t.Errorf("%d VMs were compared", compared)
	}
}

// domainByKubeVirt returns the domain of a guest by KubeVirt's converter, before libvirt assigns addresses.
func (l *launcher) domainByKubeVirt(t *testing.T, vmi *v1.VirtualMachineInstance) *libvirtxml.Domain {
	t.Helper()
	if vmi == nil {
		t.Fatal("the VM was not reviewed")
	}
	if _, _, err := l.define(t, vmi, hooks{}); err != nil {
		t.Fatal(err)
	}
	var dom libvirtxml.Domain
	if err := dom.Unmarshal(l.last); err != nil {
		t.Fatal(err)
	}
	return &dom
}

// explicitGuests returns the VMIs of VMs as KubeVirt creates them, by namespace and name.
func explicitGuests(t *testing.T, objects []*unstructured.Unstructured) map[string]*v1.VirtualMachineInstance {
	t.Helper()
	in, err := manifest.Load(manifest.Files{Names: []string{writeObjects(t, objects)}})
	if err != nil {
		t.Fatal(err)
	}
	in.Named = slices.DeleteFunc(in.Named, func(o manifest.Object) bool { return o.GetKind() != "VirtualMachine" })
	all, err := (&workbench.Bench{Runtime: "kubevirt"}).Review(t.Context(), in, nil)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*v1.VirtualMachineInstance{}
	for _, reviewed := range all.Objects {
		if reviewed.Guest == nil {
			t.Fatalf("%s: %v", reviewed.Name(), reviewed.Fault)
		}
		vmi := reviewed.Guest.Explicit.DeepCopy()
		vmi.UID = "00000000-0000-4000-8000-000000000001"
		identity.Fill(vmi, vmi.Namespace+"/"+vmi.Name)
		found[reviewed.GetNamespace()+"/"+reviewed.GetName()] = vmi
	}
	return found
}

// editedObject returns a copy of an object with the fields of a YAML document; null removes a field.
func editedObject(t *testing.T, object *unstructured.Unstructured, edit string) *unstructured.Unstructured {
	t.Helper()
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(edit), &fields); err != nil {
		t.Fatal(err)
	}
	edited := object.DeepCopy()
	mergeFields(edited.Object, fields)
	if cmp.Equal(edited.Object, object.Object) {
		t.Fatalf("the edit changes nothing of %s", object.GetName())
	}
	return edited
}

func mergeFields(into, from map[string]any) {
	for key, value := range from {
		below, isMap := value.(map[string]any)
		have, hasMap := into[key].(map[string]any)
		switch {
		case isMap && hasMap:
			mergeFields(have, below)
		case value == nil:
			delete(into, key)
		default:
			into[key] = value
		}
	}
}

// writeObjects writes objects into a file.
func writeObjects(t *testing.T, objects []*unstructured.Unstructured) string {
	t.Helper()
	var text strings.Builder
	for _, object := range objects {
		raw, err := yaml.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString("---\n" + string(raw))
	}
	path := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
