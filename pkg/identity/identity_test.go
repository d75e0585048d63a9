package identity

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/record"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
)

func withNICs(names ...string) *v1.VirtualMachineInstance {
	vmi := &v1.VirtualMachineInstance{}
	for _, name := range names {
		vmi.Spec.Domain.Devices.Interfaces = append(vmi.Spec.Domain.Devices.Interfaces, v1.Interface{Name: name})
	}
	return vmi
}

// identifiers are UUID, serial and MACs of a VMI.
func identifiers(vmi *v1.VirtualMachineInstance) []string {
	all := []string{string(vmi.Spec.Domain.Firmware.UUID), vmi.Spec.Domain.Firmware.Serial}
	for _, nic := range vmi.Spec.Domain.Devices.Interfaces {
		all = append(all, nic.MacAddress)
	}
	return all
}

// TestSeeds: these values never change. A VM that is restored, or made again from Git, has nothing but its seed to become the same machine by.
func TestSeeds(t *testing.T) {
	t.Parallel()
	vmi := withNICs("default", "storage")
	Fill(vmi, "seed")
	want := []string{"567b2716-292a-8d0a-b6b1-29e83c882c4a", "a9b2cd0a-3235-8fc6-81d3-5bd751563720", "02:dd:e0:f0:3f:4b", "6e:3c:c4:94:00:6d"}
	if diff := cmp.Diff(want, identifiers(vmi)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	other := withNICs("default", "storage")
	Fill(other, "seed2")
	seen := map[string]bool{}
	for _, id := range append(identifiers(vmi), identifiers(other)...) {
		if seen[id] {
			t.Errorf("%s stands for two things", id)
		}
		seen[id] = true
	}
}

// TestForms: UUIDs say that they are the maker's own (RFC 9562, version 8), and MACs are locally administered unicast addresses.
func TestForms(t *testing.T) {
	t.Parallel()
	uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	mac := regexp.MustCompile(`^[0-9a-f][26ae](:[0-9a-f]{2}){5}$`)
	for _, seed := range []string{"", "a", "b", "c", "d", "e", "f", "g", "\x00", "ключ"} {
		vmi := withNICs("a", "b", "")
		Fill(vmi, seed)
		for i, id := range identifiers(vmi) {
			if form := map[bool]*regexp.Regexp{true: uuid, false: mac}[i < 2]; !form.MatchString(id) {
				t.Errorf("seed '%s': %s does not match %s", seed, id, form)
			}
		}
	}
}

// TestPrecedence: what the user set stays, then the record counts, then the seed.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	derived := withNICs("own", "seen", "new")
	Fill(derived, "seed")
	vmi := withNICs("own", "seen", "new")
	vmi.Spec.Domain.Devices.Interfaces[0].MacAddress = "02:00:00:00:00:01"
	vmi.Spec.Domain.Firmware = &v1.Firmware{Serial: "mine"}
	recorded := &record.Record{UUID: "5d307ca9-b3ef-428c-8861-06e72d69f223", Serial: "recorded",
		MACs: map[string]string{"own": "02:00:00:00:00:02", "seen": "02:00:00:00:00:03"}}
	Recall(vmi, recorded)
	Fill(vmi, "seed")
	want := []string{recorded.UUID, "mine", "02:00:00:00:00:01", "02:00:00:00:00:03", derived.Spec.Domain.Devices.Interfaces[2].MacAddress}
	if diff := cmp.Diff(want, identifiers(vmi)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	untouched := withNICs("a")
	if Recall(untouched, &record.Record{}); untouched.Spec.Domain.Firmware != nil || untouched.Spec.Domain.Devices.Interfaces[0].MacAddress != "" {
		t.Error("an empty record fills nothing")
	}
}

// TestGenerations: each way to another life of the disks changes the generation ID, and a restart does not.
func TestGenerations(t *testing.T) {
	t.Parallel()
	vm := func(uid types.UID, annotations map[string]string) *v1.VirtualMachine {
		return &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{UID: uid, Annotations: annotations}}
	}
	for _, test := range []struct {
		why  string
		vm   *v1.VirtualMachine
		want string
	}{
		{"a VM that is not stored yet", vm("", nil), ""},
		{"its own UID", vm("u", nil), "u"},
		{"restored in place by KubeVirt", vm("u", map[string]string{restoredAnnotation: "r"}), "u/r"},
		{"marked by its owner", vm("u", map[string]string{v1alpha1.AnnotationGeneration: "2"}), "u//2"},
		{"both", vm("u", map[string]string{restoredAnnotation: "r", v1alpha1.AnnotationGeneration: "2"}), "u/r/2"},
	} {
		if got := Generation(test.vm); got != test.want {
			t.Errorf("%s: '%s', want '%s'", test.why, got, test.want)
		}
	}
	guest := func(uuid types.UID, uid types.UID, life, owner string) *v1.VirtualMachineInstance {
		vmi := &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{UID: uid}}
		vmi.Spec.Domain.Firmware = &v1.Firmware{UUID: uuid}
		if life != "" {
			vmi.Annotations = map[string]string{v1alpha1.AnnotationGeneration: life}
		}
		if owner != "" {
			yes := true
			vmi.OwnerReferences = []metav1.OwnerReference{{Kind: "VirtualMachine", UID: types.UID(owner), Controller: &yes}}
		}
		return vmi
	}
	first := GenerationID(guest("f", "1", "u", ""))
	for _, test := range []struct {
		why  string
		vmi  *v1.VirtualMachineInstance
		same bool
	}{
		{"a restart makes a VMI with another UID", guest("f", "2", "u", ""), true},
		{"KubeVirt's controller writes no generation: the owner's UID counts", guest("f", "3", "", "u"), true},
		{"a restore", guest("f", "1", "u/r", ""), false},
		{"another machine", guest("g", "1", "u", ""), false},
		{"a bare VMI is what its UID is", guest("f", "1", "", ""), false},
	} {
		if got := GenerationID(test.vmi); got == first != test.same {
			t.Errorf("%s: %s, and the first is %s", test.why, got, first)
		}
	}
}

// TestDomainNames: a name leads back to its VMI, and names of others' domains to none.
func TestDomainNames(t *testing.T) {
	t.Parallel()
	if of, ok := OfDomain(DomainName("team-a", "web.1")); !ok || of != (types.NamespacedName{Namespace: "team-a", Name: "web.1"}) {
		t.Errorf("%s, %t", of, ok)
	}
	for _, name := range []string{"", "_", "a", "a_", "_b", "a_b_c", "web-1"} {
		if of, ok := OfDomain(name); ok {
			t.Errorf("'%s' is the domain of %s", name, of)
		}
	}
}

// TestComplete: a VMI is complete when there is nothing left to fill.
func TestComplete(t *testing.T) {
	t.Parallel()
	for lacks, remove := range map[string]func(*v1.DomainSpec){
		"":          func(*v1.DomainSpec) {},
		"firmware":  func(d *v1.DomainSpec) { d.Firmware = nil },
		"UUID":      func(d *v1.DomainSpec) { d.Firmware.UUID = "" },
		"serial":    func(d *v1.DomainSpec) { d.Firmware.Serial = "" },
		"first MAC": func(d *v1.DomainSpec) { d.Devices.Interfaces[0].MacAddress = "" },
		"last MAC":  func(d *v1.DomainSpec) { d.Devices.Interfaces[1].MacAddress = "" },
	} {
		vmi := withNICs("default", "storage")
		Fill(vmi, "seed")
		remove(&vmi.Spec.Domain)
		if got := Complete(vmi); got != (lacks == "") {
			t.Errorf("without '%s': %t", lacks, got)
		}
	}
}
