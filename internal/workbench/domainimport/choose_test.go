package domainimport

import (
	"fmt"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/workbench/catalogs"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/test/samples"
)

// shop is a catalog with an instancetype of the size of archive, larger ones, one for special nodes, and preferences that change much, little and nothing.
const shop = `
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterInstancetype
metadata: {name: twin}
spec: {cpu: {guest: 2}, memory: {guest: 2Gi}}
---
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterInstancetype
metadata: {name: a.dedicated}
spec: {cpu: {guest: 2, dedicatedCPUPlacement: true}, memory: {guest: 2Gi}}
---
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterInstancetype
metadata: {name: larger}
spec: {cpu: {guest: 4}, memory: {guest: 4Gi}}
---
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineInstancetype
metadata: {name: a.foreign, namespace: elsewhere}
spec: {cpu: {guest: 2}, memory: {guest: 2Gi}}
---
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterPreference
metadata: {name: fedora}
spec: {devices: {preferredRng: {}}, firmware: {preferredEfi: {secureBoot: false}}}
---
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterPreference
metadata: {name: linux}
spec:
  cpu: {preferredCPUTopology: sockets}
  devices: {preferredTPM: {}, preferredDiskBus: scsi, preferredDiskDedicatedIoThread: true, preferredAutoattachMemBalloon: true, preferredVideoType: virtio}
  firmware: {preferredEfi: {secureBoot: false, persistent: true}}
  preferredTerminationGracePeriodSeconds: 3600
---
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterPreference
metadata: {name: rhel.9}
spec: {requirements: {cpu: {guest: 8}}}
`

func catalogOf(t *testing.T, text string) *catalogs.Catalog {
	t.Helper()
	read, err := catalogs.Parse("catalog", "default", []manifest.File{{Name: "catalog.yaml", Content: []byte(text)}})
	if err != nil || len(read.Refused) > 0 {
		t.Fatal(err, read.Refused)
	}
	return &read
}

// withSystem returns a domain whose metadata name an operating system.
func withSystem(domain, id string) string {
	return strings.Replace(domain, "<uuid>", `<metadata><l:libosinfo xmlns:l="http://libosinfo.org/xmlns/libvirt/domain/1.0"><l:os id="`+id+
		`"/></l:libosinfo></metadata><uuid>`, 1)
}

// TestCatalog: an instancetype and a preference of the catalog are used only if the VM boots the same domain, and the report says why others are not.
func TestCatalog(t *testing.T) {
	const cores = `<cpu mode='custom'><model>Westmere</model><topology sockets='1' cores='2' threads='1'/></cpu>`
	inCores := strings.Replace(archive, "<cpu mode='custom'><model>Westmere</model></cpu>", cores, 1)
	for _, test := range []struct {
		name, domain string
		// wants are the choices: name, '+' if used, and a part of the details.
		wants                 []string
		instancetype, prefers string
		note                  string
	}{
		{"no system", archive, []string{"twin+"}, "twin", "", "the metadata of the domain do not name an operating system"},
		{"unknown system", withSystem(archive, "http://microsoft.com/win/11"), []string{"twin+"}, "twin", "",
			"the catalog has none for 'http://microsoft.com/win/11'"},
		{"no ID", withSystem(archive, "&#x202e;evil"), []string{"twin+"}, "twin", "", "the catalog has none for"},
		{"not the nearest", withSystem(archive, "http://fedoraproject.org/fedora/38"),
			[]string{"fedora: rng 'rng' is added: it changes ", "linux+: the VM sets spec.domain.devices.disks[0].dedicatedIOThread", "twin+"}, "twin", "linux", ""},
		{"too small", withSystem(archive, "http://redhat.com/rhel/9.2"), []string{"rhel.9: admission would refuse the VM", "linux+: the VM sets", "twin+"},
			"twin", "linux", ""},
		{"cores", withSystem(inCores, "http://debian.org/debian/12"), []string{"linux+: the VM sets", "twin: sets spec.domain.cpu.sockets"}, "", "linux", ""},
		{"between sizes", strings.Replace(archive, "<memory unit='GiB'>2", "<memory unit='GiB'>3", 1),
			[]string{"larger: it has 4 CPUs and 4Gi, and the domain has 2 CPUs and 3Gi"}, "", "", ""},
		{"more devices than places", crowded(240, "virtio", 0), []string{"twin+"}, "twin", "", ""},
		{"too large", strings.Replace(archive, "<memory unit='GiB'>2", "<memory unit='GiB'>9", 1), nil, "", "", "the catalog has none with 2 CPUs and 9Gi or more"},
	} {
		plain := makeOf(t, test.domain, Options{})
		made := makeOf(t, test.domain, Options{Catalog: catalogOf(t, shop)})
		var got []string
		for _, choice := range made.Report.Choices {
			text := choice.Name
			if choice.Used {
				text += "+"
			}
			got = append(got, strings.TrimSuffix(text+": "+strings.Join(choice.Details, "; "), ": "))
		}
		if len(got) != len(test.wants) {
			t.Errorf("%s: choices %q, want %q", test.name, got, test.wants)
			continue
		}
		for i, want := range test.wants {
			name, details, hasDetails := strings.Cut(want, ": ")
			if gotName, _, has := strings.Cut(got[i], ":"); gotName != name || has != hasDetails || !strings.Contains(got[i], details) {
				t.Errorf("%s: choice %q, want %q", test.name, got[i], want)
			}
		}
		if !strings.Contains(strings.Join(made.Report.Notes, "\n"), test.note) {
			t.Errorf("%s: notes %q, want '%s'", test.name, made.Report.Notes, test.note)
		}
		spec := made.VM.Object["spec"].(map[string]any)
		if diff := gocmp.Diff([]string{test.instancetype, test.prefers}, []string{nameIn(spec["instancetype"]), nameIn(spec["preference"])}); diff != "" {
			t.Errorf("%s: the VM (-want +got):\n%s", test.name, diff)
		}
		checkSameBoot(t, test.name, plain, made)
	}
}

// nameIn returns the name of a reference; empty without one.
func nameIn(reference any) string {
	object, _ := reference.(map[string]any)
	name, _ := object["name"].(string)
	return name
}

// checkSameBoot checks that two imports boot the same domain with the same record, and that their reports say the same about the elements.
func checkSameBoot(t *testing.T, name string, plain, made *Import) {
	t.Helper()
	before, err := plain.Next.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	after, err := made.Next.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(before, after) + gocmp.Diff(plain.Hardware, made.Hardware) + gocmp.Diff(plain.Report.Elements, made.Report.Elements); diff != "" {
		t.Errorf("%s: the catalog changes what boots:\n%s", name, diff)
	}
}

// TestPublishedCatalog: with KubeVirt's published catalog, machines of several operating systems boot the same domain as without it, whichever firmware and
// devices they have, and most of them get an instancetype.
func TestPublishedCatalog(t *testing.T) {
	files, err := manifest.ReadFolder(samples.Catalog(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	read, err := catalogs.Parse("catalog", "default", files)
	if err != nil || len(read.Objects) < 100 {
		t.Fatal(err, len(read.Objects))
	}
	const efi = "<os firmware='efi'><type arch='x86_64' machine='pc-q35-7.2'>hvm</type><loader secure='yes'/><boot dev='hd'/></os>"
	variants := map[string]string{
		"bios": archive,
		"efi": strings.NewReplacer("<os><type arch='x86_64' machine='pc-q35-7.2'>hvm</type><boot dev='hd'/></os>", efi, "<apic/>", "<apic/><smm state='on'/>",
			"<memballoon model='none'/>", "<tpm model='tpm-crb'><backend type='emulator' version='2.0'/></tpm><memballoon model='virtio'/>").Replace(archive),
		"rng": strings.Replace(archive, "<memballoon model='none'/>", "<rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>", 1),
	}
	sized, preferred := 0, map[string]bool{}
	for variant, domain := range variants {
		domain = strings.NewReplacer("<memory unit='GiB'>2", "<memory unit='GiB'>8").Replace(domain)
		plain := makeOf(t, domain, Options{})
		for _, id := range []string{"http://fedoraproject.org/fedora/38", "http://redhat.com/rhel/9.2", "http://centos.org/centos-stream/9",
			"http://microsoft.com/win/2k22", "http://microsoft.com/win/11", "http://ubuntu.com/ubuntu/22.04", "http://debian.org/debian/12",
			"http://oracle.com/ol/9.1"} {
			text := withSystem(domain, id)
			made := makeOf(t, text, Options{Catalog: &read})
			for _, choice := range made.Report.Choices {
				if !choice.Used && len(choice.Details) == 0 {
					t.Errorf("%s, %s: %s is not used for no reason", variant, id, choice.Name)
				}
			}
			spec := made.VM.Object["spec"].(map[string]any)
			if name := nameIn(spec["preference"]); name != "" {
				preferred[name] = true
			}
			if nameIn(spec["instancetype"]) == "u1.large" {
				sized++
			}
			made.Report.Elements = nil // the metadata are an element more
			before := *plain
			before.Report.Elements = nil
			checkSameBoot(t, fmt.Sprint(variant, ", ", id), &before, made)
		}
	}
	t.Logf("%d of 24 VMs have an instancetype, and they have the preferences %v", sized, preferred)
	if sized < 12 || len(preferred) < 4 {
		t.Errorf("only %d VMs have an instancetype, and they have the preferences %v", sized, preferred)
	}
}

// TestSystemKey: libosinfo's IDs lead to the names of published preferences, the nearest first.
func TestSystemKey(t *testing.T) {
	var offers []catalogs.Offer
	for _, name := range []string{"linux", "fedora", "fedora.arm64", "rhel.9", "rhel.9.desktop", "rhel.10", "windows.11", "windows.11.virtio", "windows.10",
		"centos.stream9", "oraclelinux", "alpine"} {
		offer := catalogs.Offer{}
		offer.Name = name
		offers = append(offers, offer)
	}
	for id, want := range map[string]string{
		"http://fedoraproject.org/fedora/38": "fedora linux", "http://redhat.com/rhel/9.2": "rhel.9 linux", "http://redhat.com/rhel/9": "rhel.9 rhel.9.desktop linux",
		"http://microsoft.com/win/11": "windows.11 windows.11.virtio", "http://centos.org/centos-stream/9": "centos.stream9 linux",
		"http://oracle.com/ol/8.1": "oraclelinux linux", "http://alpinelinux.org/alpinelinux/3.18": "alpine linux", "http://example.org/plan9/4": "linux",
		"": "", "fedora": "", "http://": "", "http://x": "", "%zz": "",
	} {
		var names []string
		for _, offer := range preferencesFor(systemKey(id), offers) {
			names = append(names, offer.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: '%s', want '%s'", id, got, want)
		}
	}
}

// TestSetLeaf: fields are set where the VM has the elements of lists.
func TestSetLeaf(t *testing.T) {
	vm := map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"domain": map[string]any{
		"devices": map[string]any{"disks": []any{map[string]any{"name": "a"}}}}}}}}
	for path, want := range map[string]bool{
		"spec.domain.devices.disks[0].cache": true, "spec.domain.cpu.model": true, "spec.domain.devices.disks[1].cache": false,
		"spec.domain.devices.inputs[0].bus": false, "spec.domain.devices.disks[0].name.x": false, "spec.domain.devices.disks[0]": false,
	} {
		if got := setLeaf(vm, path, "v"); got != want {
			t.Errorf("%s: %t", path, got)
		}
	}
	want := "map[spec:map[template:map[spec:map[domain:map[cpu:map[model:v] devices:map[disks:[map[cache:v name:a]]]]]]]]"
	if got := fmt.Sprint(vm); got != want {
		t.Errorf("the VM is %s, want %s", got, want)
	}
}
