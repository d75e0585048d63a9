package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// explicable are guests that preferences are tried on. The second has a word of its own in much of what preferences fill.
var explicable = map[string]string{
	"sparse": `
domain:
  devices:
    disks: [{name: root}]
    interfaces: [{name: default, masquerade: {}}]
networks: [{name: default, pod: {}}]
volumes: [{name: root, containerDisk: {image: "os:1"}}]`,
	"various": `
domain:
  firmware: {bootloader: {efi: {secureBoot: false}}}
  features: {acpi: {enabled: true}, hyperv: {spinlocks: {spinlocks: 4096}, relaxed: {enabled: false}}}
  devices:
    disks: [{name: root}, {name: b, disk: {bus: sata}}, {name: c, cdrom: {}}]
    interfaces: [{name: default, masquerade: {}, model: e1000e}]
    inputs: [{name: pen, type: tablet}]
    rng: {}
networks: [{name: default, pod: {}}]
volumes: [{name: root, containerDisk: {image: "os:1"}}, {name: b, emptyDisk: {capacity: 1Gi}}, {name: c, emptyDisk: {capacity: 1Gi}}]`,
}

// own are preferences for those who have no published ones.
var own = map[string]string{
	"empty objects": `
features: {preferredAcpi: {}, preferredApic: {}, preferredSmm: {},
  preferredHyperv: {relaxed: {}, vapic: {}, spinlocks: {spinlocks: 8191}, synictimer: {direct: {}}, tlbflush: {}}}
clock: {preferredClockOffset: {utc: {}}, preferredTimer: {hpet: {present: false}, hyperv: {}, pit: {tickPolicy: delay}}}
firmware: {preferredEfi: {secureBoot: true}}
devices: {preferredRng: {}, preferredTPM: {persistent: true}}`,
	"what nobody asks for": `
devices: {preferredCdromBus: sata, preferredLunBus: scsi, preferredSoundModel: ac97, preferredDisableHotplug: false, preferredInterfaceMasquerade: {}}
firmware: {preferredUseBios: true, preferredUseEfi: false, preferredEfi: {secureBoot: true}}
volumes: {preferredStorageClassName: fast}
requirements: {cpu: {guest: 1}, memory: {guest: 64Mi}}`,
	"the default anyway": `
preferredArchitecture: amd64
cpu: {preferredCPUTopology: sockets, spreadOptions: {ratio: 4}}
features: {preferredAcpi: {enabled: true}}
devices: {preferredAutoattachGraphicsDevice: true, preferredAutoattachMemBalloon: true}`,
	"lists and keys": `
annotations: {vm.kubevirt.io/os: linux, other: x}
cpu: {preferredCPUTopology: spread, spreadOptions: {across: SocketsCores, ratio: 2},
  preferredCPUFeatures: [{name: vmx, policy: require}, {name: svm, policy: disable}]}
preferredTerminationGracePeriodSeconds: 180
devices: {preferredDiskBus: virtio, preferredInterfaceModel: virtio, preferredInputType: tablet, preferredInputBus: virtio}`,
}

const ownSize = `apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterInstancetype
metadata: {name: own}
spec: {cpu: {guest: 4}, memory: {guest: 8Gi}}
`

// TestNotAppliedIfNothingChanges: a field of a preference is reported as not applied if and only if guest and verdict are the same
// without it. Each is taken out in turn, by its JSON, and the VM expanded and judged again.
func TestNotAppliedIfNothingChanges(t *testing.T) {
	t.Parallel()
	for name, text := range own {
		for guest := range explicable {
			t.Run(name+"/"+guest, func(t *testing.T) {
				t.Parallel()
				var spec map[string]any
				if err := yaml.Unmarshal([]byte(text), &spec); err != nil {
					t.Fatal(err)
				}
				applied, left := tried(t, candidate{spec, guest, "own", "", ownSize})
				t.Logf("%d fields applied, %d not", applied, left)
				if applied+left < 5 {
					t.Error("no field was tried")
				}
			})
		}
	}
}

// candidate is a VM of a preference that can start.
type candidate struct {
	preference         map[string]any
	guest, size, where string
	catalog            string
}

// manifest is the candidate's VM, with its preference, in a namespace of their own.
func (c candidate) manifest(t *testing.T, namespace string, preference map[string]any) string {
	t.Helper()
	var spec map[string]any
	if err := yaml.Unmarshal([]byte(explicable[c.guest]), &spec); err != nil {
		t.Fatal(err)
	}
	if c.where != "" {
		spec["architecture"] = c.where
	}
	var documents []string
	for _, object := range []map[string]any{
		{"apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": "VirtualMachinePreference",
			"metadata": map[string]any{"name": "p", "namespace": namespace}, "spec": preference},
		{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": map[string]any{"name": "vm", "namespace": namespace}, "spec": map[string]any{
			"runStrategy": "Halted", "instancetype": map[string]any{"name": c.size},
			"preference": map[string]any{"name": "p", "kind": "VirtualMachinePreference"}, "template": map[string]any{"spec": spec}}},
	} {
		raw, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, string(raw))
	}
	return strings.Join(documents, "---\n")
}

// tried compares what 'explain' says of a preference with what 'expand' and 'validate' say without each of its fields.
func tried(t *testing.T, c candidate) (applied, left int) {
	t.Helper()
	fields := withoutEach(t, c.preference)
	paths := slices.Sorted(maps.Keys(fields))
	manifests := []string{c.catalog, c.manifest(t, "whole", c.preference)}
	for i, path := range paths {
		manifests = append(manifests, c.manifest(t, fmt.Sprintf("without-%d", i), fields[path]))
	}
	_, file := write(t, manifests...)
	guests, verdicts := outcomes(t, file)
	listed := notApplied(t, c)
	for i, path := range paths {
		namespace := fmt.Sprintf("without-%d", i)
		same := guests[namespace] == guests["whole"] && verdicts[namespace] == verdicts["whole"]
		switch {
		case same && listed[path] == "":
			t.Errorf("%s on %s: without %s nothing changes, and it is not listed", c.size, c.guest, path)
		case !same && listed[path] != "":
			t.Errorf("%s on %s: %s is listed as not applied ('%s'), and without it guest or verdict change", c.size, c.guest, path, listed[path])
		case same:
			left++
		default:
			applied++
		}
		delete(listed, path)
	}
	for path, reason := range listed {
		t.Errorf("%s is listed ('%s'), and no field of the preference", path, reason)
	}
	return applied, left
}

// notApplied is what 'explain' says: the first reason for each field.
func notApplied(t *testing.T, c candidate) map[string]string {
	t.Helper()
	_, file := write(t, c.catalog, c.manifest(t, "whole", c.preference))
	got := call(t, "", "explain", "-f", file, "-o", "json")
	var explained struct {
		NotApplied []struct{ Field, Reason string }
	}
	if err := json.Unmarshal(item(t, got), &explained); err != nil || got.err != nil {
		t.Fatalf("%v %v\n%s%s", err, got.err, got.out, got.errOut)
	}
	listed := map[string]string{}
	for _, n := range explained.NotApplied {
		if n.Reason == "" {
			t.Errorf("%s is not applied for no reason", n.Field)
		}
		listed[n.Field] = n.Reason
	}
	return listed
}

// outcomes are the explicit guests and the verdicts on the VMs of a file, by namespace.
func outcomes(t *testing.T, file string) (guests, verdicts map[string]string) {
	t.Helper()
	guests, verdicts = map[string]string{}, map[string]string{}
	for _, object := range documents(t, call(t, "", "expand", "-f", file, "-o", "json").out) {
		metadata, found := object["metadata"].(map[string]any)
		if !found {
			continue // a rejection: 'validate' tells the same
		}
		namespace := metadata["namespace"].(string)
		delete(metadata, "namespace")
		annotations, _ := metadata["annotations"].(map[string]any)
		delete(annotations, "kilnvm.io/pins") // the revision of a preference changes with it
		guests[namespace] = canonical(t, object)
	}
	for _, object := range documents(t, call(t, "", "validate", "-f", file, "-o", "json").out) {
		kind, name, _ := strings.Cut(object["object"].(string), " ")
		namespace, _, _ := strings.Cut(name, "/")
		if delete(object, "object"); kind == "VirtualMachine" {
			causes, _ := object["causes"].([]any)
			for _, c := range causes {
				delete(c.(map[string]any), "line") // manifests have other lengths
			}
			verdicts[namespace] = canonical(t, object)
		}
	}
	return guests, verdicts
}

// documents are the JSON documents of an answer.
func documents(t *testing.T, text string) (all []map[string]any) {
	t.Helper()
	for _, document := range items(t, text) {
		var object map[string]any
		if err := json.Unmarshal(document, &object); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		all = append(all, object)
	}
	return all
}

func canonical(t *testing.T, object any) string {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
