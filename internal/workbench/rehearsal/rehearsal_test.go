package rehearsal

import (
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/catalogs"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/test/fleet"
	"github.com/kilnvm/kiln/test/samples"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	size = `apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterInstancetype
metadata: {name: medium, labels: {instancetype.kubevirt.io/vendor: example.com}}
spec: {cpu: {guest: 2}, memory: {guest: 2Gi}}
`
	other = `apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterInstancetype
metadata: {name: large, labels: {instancetype.kubevirt.io/vendor: example.com}}
spec: {cpu: {guest: 4}, memory: {guest: 4Gi}}
`
	kubevirt = `apiVersion: kubevirt.io/v1
kind: KubeVirt
metadata: {name: kubevirt, namespace: kubevirt}
spec: {configuration: {vmRolloutStrategy: Stage}}
status: {observedKubeVirtVersion: v1.8.0}
`
)

// machine returns a VM of an instancetype, with more fields of its template's spec.
func machine(name, size, more string) string {
	return "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: " + name + ", namespace: shop, uid: u-" + name + "}\n" +
		"spec:\n  runStrategy: Halted\n  instancetype: {name: " + size + "}\n  template: {spec: {domain: {devices: {}}" + more + "}}\n"
}

// dumpOf writes documents as a dump.
func dumpOf(t *testing.T, documents ...string) string {
	t.Helper()
	return file(t, strings.Join(documents, "---\n"))
}

// verdicts returns the verdicts of a rehearsal by the names of VMs.
func verdicts(r *Rehearsal) map[string]Verdict {
	all := map[string]Verdict{}
	for _, vm := range r.VMs {
		all[vm.Name] = vm.Verdict
	}
	return all
}

// groupOf returns the group of a VM.
func groupOf(t *testing.T, r *Rehearsal, name string) Group {
	t.Helper()
	at := slices.IndexFunc(r.VMs, func(vm VM) bool { return vm.Name == name })
	if at < 0 || r.VMs[at].Group == 0 {
		t.Fatalf("VM '%s' has no group in %+v", name, r.VMs)
	}
	return r.Groups[r.VMs[at].Group-1]
}

// TestRefusals: what a policy or rule refuses after the changes and did not before is refused by it, and what was refused before is counted apart.
func TestRefusals(t *testing.T) {
	t.Parallel()
	const policies = "apiVersion: kilnvm.io/v1alpha1\nkind: GuestPolicy\nmetadata: {name: NAME}\n" +
		"spec:\n  validations: [{expression: \"EXPRESSION\", message: forbidden}]\n"
	of := func(name, expression string) string {
		return strings.NewReplacer("NAME", name, "EXPRESSION", expression).Replace(policies)
	}
	wrong := strings.Replace(machine("wrong", "medium", ""), "devices: {}", "devices: {}, memory: {guest: 1Gi}", 1)
	dump := dumpOf(t, size, other, of("old", "object.metadata.name != 'bad'"), machine("web", "medium", ""), machine("big", "large", ""),
		machine("bad", "large", ""), wrong, machine("lost", "huge", ""))
	r := rehearse(t, dump, Options{Laid: changes(t, of("new", "guest.spec.domain.cpu.sockets < 4u"))})
	want := map[string]Verdict{"web": Same, "big": Refused, "bad": Refused, "wrong": AlreadyRefused, "lost": Unjudged}
	for name, verdict := range want {
		if got := verdicts(r)[name]; got != verdict {
			t.Errorf("%s is '%s', want '%s'", name, got, verdict)
		}
	}
	g := groupOf(t, r, "big")
	if len(g.Refusals) != 1 || g.Refusals[0].Policy != "new" || !slices.Contains(g.Refusals[0].Refuses, "create") || len(g.Causes) != 1 ||
		g.Causes[0].Name != "new" {
		t.Errorf("%+v", g)
	}
	if r.RefusedBefore != 2 || len(r.Unjudged) != 1 || !strings.Contains(r.Unjudged[0].Reason, "huge") {
		t.Errorf("refused before %d, unjudged %+v", r.RefusedBefore, r.Unjudged)
	}
	removed := rehearse(t, dump, Options{Laid: wholeCatalogOf(t, size)})
	g = groupOf(t, removed, "big")
	if g.Verdict != Refused || g.Causes[0].Name != "large" || g.Refusals[0].Rule != "reference" || verdicts(removed)["web"] != Same {
		t.Errorf("the new version of the catalog lacks 'large': %+v", g)
	}
}

// wholeCatalogOf returns a version of a whole catalog as a change.
func wholeCatalogOf(t *testing.T, documents string) *Laid {
	t.Helper()
	c, err := catalogs.Parse("catalog", "", []manifest.File{{Name: "catalog.yaml", Content: []byte(documents)}})
	if err != nil {
		t.Fatal(err)
	}
	laid := &Laid{}
	if err := laid.AddCatalog("catalog", c); err != nil {
		t.Fatal(err)
	}
	return laid
}

// TestCatalogVersions: a version removes what the installed version of the same catalog has; 'catalog install' keeps what VMs use, and other catalogs stay.
func TestCatalogVersions(t *testing.T) {
	t.Parallel()
	foreign := strings.NewReplacer("example.com", "example.org", "name: large", "name: foreign").Replace(other)
	installed := strings.NewReplacer("labels: {", "labels: {kilnvm.io/catalog: general, ")
	for _, test := range []struct {
		why, installed string
		action         string
		want           Verdict
	}{
		{"of a vendor", size + "---\n" + other, Removed, Refused},
		{"of 'catalog install'", installed.Replace(size) + "---\n" + installed.Replace(other), Obsolete, Refused},
	} {
		r := rehearse(t, dumpOf(t, test.installed, foreign, machine("big", "large", ""), machine("other", "foreign", "")), Options{Laid: wholeCatalogOf(t, size)})
		at := slices.IndexFunc(r.Changes, func(c Change) bool { return c.Name == "large" })
		if at < 0 || r.Changes[at].Action != test.action || slices.ContainsFunc(r.Changes, func(c Change) bool { return c.Name == "foreign" }) {
			t.Errorf("%s: %+v", test.why, r.Changes)
		}
		if got := verdicts(r); got["big"] != test.want || got["other"] != Same {
			t.Errorf("%s: %v", test.why, got)
		}
		if refuses := groupOf(t, r, "big").Refusals[0].Refuses; test.action == Obsolete && !slices.Equal(refuses, []string{"create"}) {
			t.Errorf("%s: an obsolete object refuses %v, want only a create", test.why, refuses)
		}
	}
}

// TestBesideKubeVirt: KubeVirt asks for a restart for changes that the guest does not see, and the rules of another version are rehearsed.
func TestBesideKubeVirt(t *testing.T) {
	t.Parallel()
	dump := dumpOf(t, size, kubevirt, machine("web", "medium", ""))
	r := rehearse(t, dump, Options{Laid: changes(t, strings.Replace(size, "memory: {guest: 2Gi}", "memory: {guest: 2Gi}, schedulerName: other", 1))})
	if g := groupOf(t, r, "web"); g.Verdict != Restart || g.Rollout == nil || len(g.Rollout.Restart) == 0 || len(g.Changes) != 0 || r.KubeVirt != "v1.8" {
		t.Errorf("%+v", g)
	}
	live := strings.Replace(kubevirt, "Stage", "LiveUpdate", 1)
	r = rehearse(t, dumpOf(t, size, live, machine("web", "medium", "")), Options{Laid: changes(t, strings.Replace(size, "guest: 2}", "guest: 3}", 1))})
	if g := groupOf(t, r, "web"); g.Verdict != Live || g.Rollout == nil || len(g.Rollout.Migrating) == 0 {
		t.Errorf("more sockets with LiveUpdate: %+v", g)
	}
	laid := &Laid{}
	if err := laid.AddKubeVirt("v1.9"); err != nil {
		t.Fatal(err)
	}
	r = rehearse(t, dump, Options{Laid: laid})
	if r.KubeVirtAfter != "v1.9" || len(r.Changes) != 1 || r.Changes[0].Kind != "KubeVirt" {
		t.Errorf("%s -> %s: %+v", r.KubeVirt, r.KubeVirtAfter, r.Changes)
	}
	for text, want := range map[string]string{"v1.2.0": "knows the rules of", "next": "kubevirt=next"} {
		if err := (&Laid{}).AddKubeVirt(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("kubevirt=%s: %v", text, err)
		}
	}
}

// TestMovedWithoutKiln: a rehearsal names the devices that libvirt moves in a guest of KubeVirt without a hardware record. A guest with a record and a guest
// that Kiln runs keep their addresses.
func TestMovedWithoutKiln(t *testing.T) {
	t.Parallel()
	const preference = `apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterPreference
metadata: {name: linux}
spec: {devices: {preferredDiskBus: virtio, preferredRng: {}}}
`
	vm := strings.NewReplacer("instancetype:", "preference: {name: linux}\n  instancetype:", "devices: {}",
		"devices: {disks: [{name: root, disk: {}}, {name: data, disk: {bus: virtio}}]}",
		"}}}\n", "}, volumes: [{name: root, emptyDisk: {capacity: 1Gi}}, {name: data, emptyDisk: {capacity: 1Gi}}]}}\n").Replace(machine("web", "medium", ""))
	const recorded = `apiVersion: kilnvm.io/v1alpha1
kind: GuestHardware
metadata: {name: web, namespace: shop}
spec:
  hardware:
    defaults: "3"
    digest: sha256:0000000000000000000000000000000000000000000000000000000000000000
    devices: {disk.data: {pci: "0000:06:00.0", target: vdb}, controller.pci.6: {pci: "0000:00:02.5", index: 6}}
`
	for _, test := range []struct {
		why  string
		dump []string
		want []string
	}{
		{"KubeVirt alone", []string{kubevirt}, []string{"disk.data", "memballoon.balloon", "rng.rng"}},
		{"KubeVirt beside Kiln", []string{kubevirt, recorded}, nil},
		{"Kiln alone", nil, nil},
	} {
		r := rehearse(t, dumpOf(t, append(test.dump, size, preference, vm)...),
			Options{Laid: changes(t, strings.Replace(preference, "preferredDiskBus: virtio", "preferredDiskBus: sata", 1))})
		group := groupOf(t, r, "web")
		var moved []string
		for _, change := range group.Changes {
			if strings.Contains(change.Text, "moves: without Kiln, libvirt assigns") {
				moved = append(moved, change.Device)
			}
		}
		if !slices.Equal(moved, test.want) || group.Verdict != Breaks {
			t.Errorf("%s: %v move, want %v: %s, %+v", test.why, moved, test.want, group.Verdict, group.Changes)
		}
	}
}

// TestInstalled: a VM whose pin is older than what is installed is counted separately from the VMs that the changes touch.
func TestInstalled(t *testing.T) {
	t.Parallel()
	catalog := few(readCatalog(t, samples.Sets(t)[0]))
	f := fleet.Make(t, 9, 100, catalog)
	r := rehearse(t, f.Write(t), Options{})
	installed := 0
	for _, g := range r.Groups {
		if !g.Installed {
			t.Errorf("a group without changes is not of the installed ones: %+v", g)
		}
		installed += g.VMs
	}
	if installed == 0 || installed != sumOf(r.Installed) {
		t.Errorf("%d VMs of groups, %v", installed, r.Installed)
	}
	preference := slices.IndexFunc(catalog, func(o *unstructured.Unstructured) bool { return o.GetKind() == fleet.Preferences })
	change := edited(t, catalog[preference], "spec: {devices: {preferredRng: {}, preferredDiskBus: sata}}")
	touched := rehearse(t, f.Write(t), Options{Laid: changes(t, text(t, change))})
	if sumOf(touched.Installed) >= installed || touched.Touched(Restart)+touched.Touched(Breaks) == 0 {
		t.Errorf("after an edit of one preference: installed %v, counts %v", touched.Installed, touched.Counts)
	}
}

func sumOf(of map[Verdict]int) (n int) {
	for _, count := range of {
		n += count
	}
	return n
}

// TestWrongChanges: a change that no cluster would take, or that is not rehearsed, is an error with its file and what is allowed.
func TestWrongChanges(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ why, documents, want string }{
		{"another kind", "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n", "cannot be rehearsed: a change has the kinds ClusterGuestProfile"},
		{"an unknown field", strings.Replace(size, "guest: 2}", "guests: 2}", 1), "spec.cpu.guests"},
		{"twice", size + "---\n" + size, "a change has each object once"},
		{"no object", "a: b\n", "not an object of Kubernetes"},
		{"nothing", "# only a comment\n", "has no object of the kinds"},
	} {
		err := (&Laid{}).AddFiles("change", manifest.Files{Names: []string{file(t, test.documents)}})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want '%s'", test.why, err, test.want)
		}
	}
	read, err := manifest.Files{Names: []string{dumpOf(t, size, machine("web", "medium", ""))}}.ReadDump()
	if err != nil {
		t.Fatal(err)
	}
	laid := changes(t, strings.Replace(size, "guest: 2Gi", "guest: 0", 1))
	_, err = OfDump(t.Context(), &workbench.Bench{}, read, Options{Laid: laid})
	if err == nil || !strings.Contains(err.Error(), "VirtualMachineClusterInstancetype medium is refused") {
		t.Errorf("a change that the webhook refuses: %v", err)
	}
}

// TestSelectedByName: VMs that differ only in their names, which are also values of labels, do not share the result of a profile or a preset that selects one
// of them.
func TestSelectedByName(t *testing.T) {
	t.Parallel()
	named := func(name string) string {
		return strings.Replace(machine(name, "medium", ""), "template: {spec:", "template: {metadata: {labels: {vm: "+name+"}}, spec:", 1)
	}
	dump := dumpOf(t, size, named("desk-one"), named("desk-two"))
	const fills = "spec: {selector: {matchLabels: {vm: desk-one}}, "
	for why, change := range map[string]string{
		"profile": "apiVersion: kilnvm.io/v1alpha1\nkind: ClusterGuestProfile\nmetadata: {name: rng}\n" + fills +
			"template: {spec: {domain: {devices: {rng: {}}}}}}\n",
		"preset": "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstancePreset\nmetadata: {name: rng, namespace: shop}\n" + fills +
			"domain: {devices: {watchdog: {name: w, i6300esb: {action: reset}}}}}\n",
	} {
		r := rehearse(t, dump, Options{Laid: changes(t, change)})
		if got := verdicts(r); got["desk-one"] != Restart || got["desk-two"] != Same {
			t.Errorf("a %s selects desk-one: %v", why, got)
		}
	}
	r := rehearse(t, dump, Options{})
	if r.Computed != 1 {
		t.Errorf("without a selector, %d of 2 VMs are computed", r.Computed)
	}
}
