package fields

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// generous is a cluster in which everything is allowed that a cluster can allow.
func generous() config.Cluster {
	cluster := config.Default()
	for gate := range cluster.Limits.Gates {
		cluster.Limits.Gates[gate] = true
	}
	cluster.Limits.PersistentReservation = true
	return cluster
}

// guests are the samples, each of which is admitted and rendered.
func guests(t *testing.T) (found []Guest) {
	t.Helper()
	paths, err := filepath.Glob("guests/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no guests: %v", err)
	}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		guest := Guest{Name: strings.TrimSuffix(filepath.Base(path), ".yaml")}
		if err := yaml.UnmarshalStrict(raw, &guest.VMI); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		guest.VMI.Namespace, guest.VMI.UID = "default", "5f0c1f6e-6d2a-4c7b-9a43-8f3e1d2c7b6a"
		found = append(found, guest)
	}
	return found
}

// evidence is what shows that a leaf is used: the elements that change when it is taken away, and where it is written.
type evidence struct {
	elements []string
	// refused: a VMI without the field is refused. written: a sample has it.
	refused, written bool
}

func gather(t *testing.T, samples []Guest) map[string]evidence {
	all, cluster := leaves(reflect.TypeFor[v1.VirtualMachineInstanceSpec]()), generous()
	found := map[string]evidence{}
	for _, guest := range samples {
		whole := admitted(&guest.VMI, cluster)
		if len(whole.refused) > 0 {
			t.Errorf("%s: %v", guest.Name, whole.refused.ToAggregate())
			continue
		}
		for _, leaf := range all {
			e := found[leaf]
			variants, err := without(&guest.VMI, leaf)
			if err != nil {
				t.Fatalf("%s: %v", guest.Name, err)
			}
			explicit, err := without(whole.explicit, leaf)
			if err != nil {
				t.Fatalf("%s: %v", guest.Name, err)
			}
			for _, variant := range variants {
				e.take(whole, admitted(variant, cluster), leaf)
			}
			turned, err := turned(whole.explicit, leaf)
			if err != nil {
				t.Fatalf("%s: %v", guest.Name, err)
			}
			for _, variant := range append(explicit, turned...) {
				e.take(whole, rendered(variant, cluster), leaf)
			}
			e.written = e.written || len(variants) > 0
			found[leaf] = e
		}
	}
	return found
}

func (e *evidence) take(whole, less outcome, leaf string) {
	if len(less.refused) > 0 {
		e.refused = true
		return
	}
	for _, element := range changed(whole, less) {
		if !slices.Contains(e.elements, element) {
			e.elements = append(e.elements, element)
		}
	}
}

// accounted is the row of a leaf in the documentation, or what is missing.
func accounted(leaf string, e evidence) (row [3]string, problem string) {
	at := entryOf(leaf)
	switch {
	case at == nil && len(e.elements) > 0:
		return [3]string{leaf, "mapped", strings.Join(shortened(e.elements), ", ")}, ""
	case at == nil:
		return row, "no element changes without it: render it, refuse it, or list it in the table with the reason"
	case len(e.elements) > 0 && at.verdict == rejected:
		return row, "is rejected by the table, and changes " + strings.Join(e.elements, ", ")
	case at.verdict == named && !e.refused && len(e.elements) == 0:
		return row, "nobody misses it"
	case !e.written && at.verdict != rejected && !slices.Contains(unwritten, leaf):
		return row, "no sample has it"
	}
	return [3]string{leaf, string(at.verdict), at.reason}, ""
}

// unwritten leaves have no sample: fields of Kubernetes' own types that mean the same as their siblings.
var unwritten = []string{"serviceAccountName", "volumes[].downwardAPI.fields[].user"}

// entryOf is the entry with the longest prefix of a leaf that ends where a part of the path does.
func entryOf(leaf string) (longest *entry) {
	for i, e := range table {
		rest, found := strings.CutPrefix(leaf, e.prefix)
		if found && (rest == "" || strings.ContainsAny(rest[:1], ".[{")) && (longest == nil || len(e.prefix) > len(longest.prefix)) {
			longest = &table[i]
		}
	}
	return longest
}

// shown is how many elements stand for a leaf: what follows from them, such as addresses of other devices, is left out.
const shown = 4

func shortened(elements []string) (list []string) {
	for _, element := range elements {
		if !strings.Contains(element, "/address") && !strings.HasPrefix(element, "devices/controller") {
			list = append(list, "`"+element+"`")
		}
	}
	if len(list) == 0 {
		return []string{"`" + elements[0] + "`"}
	}
	slices.SortStableFunc(list, func(a, b string) int { return strings.Count(a, "/") - strings.Count(b, "/") })
	return list[:min(len(list), shown)]
}

// document is what 'make golden' writes.
const document = "../../docs/reference/fields.md"

const heading = `# Fields

What becomes of every field that a user can write into the spec of a guest. Generated by ` + "`make golden`" + ` from sample guests in
` + "`test/fields`" + `: a field is *mapped* to the elements of the libvirt domain that change when it is taken away or turned. Fields of *stage 1* decide
what other fields are; the *launcher* reads what says what is behind a path; *pod-only* ones are the business of the pod, the scheduler, the network or a
controller; *rejected* ones are refused with their path. Paths start at ` + "`spec`" + ` of a VirtualMachineInstance, ` + "`spec.template.spec`" +
	` of a VirtualMachine.

| field | becomes | how |
|---|---|---|
`

// A field that is accepted and has no effect misleads its user.
func TestEveryLeafIsAccountedFor(t *testing.T) {
	found, text := gather(t, guests(t)), heading
	for _, leaf := range leaves(reflect.TypeFor[v1.VirtualMachineInstanceSpec]()) {
		row, problem := accounted(leaf, found[leaf])
		if problem != "" {
			t.Errorf("%s: %s", leaf, problem)
		}
		text += "| `" + row[0] + "` | " + row[1] + " | " + row[2] + " |\n"
	}
	for _, e := range table {
		if !slices.ContainsFunc(leaves(reflect.TypeFor[v1.VirtualMachineInstanceSpec]()),
			func(leaf string) bool { return entryOf(leaf) != nil && entryOf(leaf).prefix == e.prefix }) {
			t.Errorf("%s: the table speaks of a field that the API does not have", e.prefix)
		}
	}
	if t.Failed() {
		return
	}
	if os.Getenv("GOLDEN") == "rewrite" {
		if err := os.WriteFile(document, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(written), text); diff != "" {
		t.Errorf("docs/reference/fields.md differs; 'make golden' writes it again (-written +now):\n%s", diff)
	}
}

// refusals are VMIs with one rejected leaf each.
var refusals = map[string]string{
	"domain.devices.interfaces[].macvtap": `{domain: {memory: {guest: 1Gi}, devices: {interfaces: [{name: a, macvtap: {}}]}}, ` +
		`networks: [{name: a, multus: {networkName: a}}]}`,
	"domain.devices.interfaces[].passt": `{domain: {memory: {guest: 1Gi}, devices: {interfaces: [{name: a, passt: {}}]}}, networks: [{name: a, pod: {}}]}`,
	"domain.devices.interfaces[].slirp": `{domain: {memory: {guest: 1Gi}, devices: {interfaces: [{name: a, slirp: {}}]}}, networks: [{name: a, pod: {}}]}`,
	"utilityVolumes[]":                  `{domain: {memory: {guest: 1Gi}, devices: {}}, utilityVolumes: [{name: a, claimName: a, type: Backup}]}`,
}

// What the table calls rejected is refused where it stands, and names itself.
func TestRejected(t *testing.T) {
	for _, e := range table {
		if e.verdict != rejected {
			continue
		}
		var vmi v1.VirtualMachineInstance
		if err := yaml.UnmarshalStrict([]byte(refusals[e.prefix]), &vmi.Spec); err != nil {
			t.Fatal(err)
		}
		place, name := strings.Split(e.prefix, "[]")[0], e.prefix[strings.LastIndexByte(e.prefix, '.')+1:]
		refused := admitted(&vmi, generous()).refused
		if !slices.ContainsFunc(refused, func(err *field.Error) bool {
			return strings.HasPrefix(err.Field, "spec."+place) && strings.Contains(err.Error(), strings.TrimSuffix(name, "[]"))
		}) {
			t.Errorf("%s: %v", e.prefix, refused)
		}
	}
}
