package catalog

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/test/samples"
)

var noon = Settings{Cluster: config.Default(), Now: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)}

// Objects without any finding, but for descriptions, which most cases leave out.
const (
	small = `
metadata: {name: small, labels: {instancetype.kubevirt.io/cpu: "2", instancetype.kubevirt.io/memory: 4Gi}}
spec: {cpu: {guest: 2}, memory: {guest: 4Gi}}`
	linux = `
kind: p
metadata: {name: linux}
spec: {devices: {preferredDiskBus: virtio}}`
)

// lintCase is a catalog with one mistake, and its nearest neighbour without.
type lintCase struct {
	why, rule string
	bad, good []string
	// at is the field of the finding, words are in its message or remedy.
	at    string
	words []string
}

// changed returns a document with a replacement, which must have an effect.
func changed(document, old, new string) string {
	if !strings.Contains(document, old) {
		panic(fmt.Sprintf("'%s' is not in\n%s", old, document))
	}
	return strings.Replace(document, old, new, 1)
}

func TestEachRuleOfLint(t *testing.T) {
	shown := map[string]bool{}
	for _, test := range slices.Concat(labelCases, objectCases, lifecycleCases, pairCases) {
		t.Run(test.rule+"/"+test.why, func(t *testing.T) {
			shown[test.rule] = true
			var of []Finding
			for _, f := range Lint(objects(t, test.bad...), noon) {
				if f.Rule == test.rule {
					of = append(of, f)
				} else if f.Rule != "label/description" {
					t.Errorf("another finding: %+v", f)
				}
			}
			if len(of) != 1 {
				t.Fatalf("want one finding, got %+v", of)
			}
			f := of[0]
			if f.Field != test.at || f.Severity != declared[test.rule].Severity || f.Remedy == "" || f.Message == "" {
				t.Errorf("want it at %s, got %+v", test.at, f)
			}
			for _, words := range test.words {
				if !strings.Contains(f.Message+"\n"+f.Remedy, words) {
					t.Errorf("'%s' is neither in message nor in remedy: %+v", words, f)
				}
			}
			for _, f := range Lint(objects(t, test.good...), noon) {
				if f.Rule != "label/description" || test.rule == f.Rule {
					t.Errorf("its good neighbour has a finding: %+v", f)
				}
			}
		})
	}
	for _, rule := range Rules() {
		if !shown[rule.Name] && rule.Name != "catalog/bounded" { // TestManyObjects shows it
			t.Errorf("no case shows rule %s", rule.Name)
		}
		if rule.Says == "" || rule.Severity == "" {
			t.Errorf("rule %+v lacks its words", rule)
		}
	}
}

var labelCases = []lintCase{
	{"another number of CPUs", "label/value", []string{changed(small, `"2"`, `"4"`), linux}, []string{small, linux},
		"metadata.labels[instancetype.kubevirt.io/cpu]", []string{"is '4'", "has '2'", `write instancetype.kubevirt.io/cpu: "2"`}},
	{"another amount", "label/value", []string{changed(small, "memory: 4Gi}", "memory: 4G}"), linux}, []string{changed(small, "memory: 4Gi}",
		"memory: 4096Mi}"), linux},
		"metadata.labels[instancetype.kubevirt.io/memory]", []string{"is '4G'"}},
	{"no amount", "label/value", []string{changed(small, "memory: 4Gi}", "memory: NaN}"), linux}, []string{small, linux},
		"metadata.labels[instancetype.kubevirt.io/memory]", []string{"is 'NaN'"}},
	{"nothing of it", "label/value", []string{changed(small, "labels: {", `labels: {instancetype.kubevirt.io/numa: "true", `), linux},
		[]string{changed(small, "labels: {", `labels: {instancetype.kubevirt.io/numa: "false", `), linux},
		"metadata.labels[instancetype.kubevirt.io/numa]", []string{"nothing of it", "remove the label"}},
	{"number of GPUs", "label/value",
		[]string{changed(gpu, `gpus: "2"`, `gpus: "1"`), linux}, []string{changed(gpu, `gpus: "2"`, `gpus: "true"`), linux},
		"metadata.labels[instancetype.kubevirt.io/gpus]", []string{"has '2'"}},
	{"architecture of the requirement", "label/value", []string{small, changed(arm, "arch: arm64,", "arch: amd64,")}, []string{small, arm},
		"metadata.labels[instancetype.kubevirt.io/arch]", []string{"spec.requirements.architecture is 'arm64'"}},
	{"CPUs", "label/missing", []string{changed(small, `instancetype.kubevirt.io/cpu: "2", `, ""), linux}, []string{small, linux}, "metadata.labels",
		[]string{`instancetype.kubevirt.io/cpu: "2"`}},
	{"all that the spec has", "label/missing", []string{bareReal, pinned}, []string{real, pinned}, "metadata.labels",
		[]string{`cpu: "2"`, `memory: "4Gi"`, `hugepages: "1Gi"`, `numa: "true"`, `dedicatedCPUPlacement: "true"`, `isolateEmulatorThread: "true"`,
			`realtime: "true"`}},
	{"misspelt", "label/unknown", []string{changed(small, "labels: {", `labels: {instancetype.kubevirt.io/klass: general, `), linux},
		[]string{changed(small, "labels: {", `labels: {instancetype.kubevirt.io/class: general, `), linux},
		"metadata.labels[instancetype.kubevirt.io/klass]", []string{"did you mean 'instancetype.kubevirt.io/class'?"}},
	{"misspelt annotation", "label/unknown", []string{small, changed(linux, "linux}", "linux, annotations: {instancetype.kubevirt.io/display: x}}")},
		[]string{small, changed(linux, "linux}", "linux, annotations: {instancetype.kubevirt.io/displayName: x}}")},
		"metadata.annotations[instancetype.kubevirt.io/display]", []string{"no key of the contract"}},
	{"of the other kind", "label/misplaced", []string{small, changed(linux, "linux}", `linux, labels: {instancetype.kubevirt.io/class: x}}`)},
		[]string{small, changed(linux, "linux}", `linux, labels: {example.com/class: x}}`)}, "metadata.labels[instancetype.kubevirt.io/class]",
		[]string{"on instancetypes alone"}},
	{"of volumes", "label/misplaced", []string{changed(small, "labels: {", "labels: {instancetype.kubevirt.io/default-preference: linux, "), linux},
		[]string{small, linux},
		"metadata.labels[instancetype.kubevirt.io/default-preference]", []string{"volumes alone"}},
	{"an annotation as a label", "label/misplaced", []string{changed(small, "labels: {", "labels: {instancetype.kubevirt.io/displayName: Small, "), linux},
		[]string{changed(small, "labels:", "annotations: {instancetype.kubevirt.io/displayName: Small}, labels:"), linux},
		"metadata.labels[instancetype.kubevirt.io/displayName]", []string{"make it an annotation"}},
	{"a label as an annotation", "label/misplaced", []string{changed(small, "labels:", `annotations: {instancetype.kubevirt.io/class: x}, labels:`), linux},
		[]string{changed(small, "labels: {", `labels: {instancetype.kubevirt.io/class: x, `), linux},
		"metadata.annotations[instancetype.kubevirt.io/class]", []string{"make it a label"}},
	{"another version", "label/name", []string{changed(sized, `version: "1"`, `version: "2"`), linux}, []string{sized, linux},
		"metadata.labels[instancetype.kubevirt.io/version]", []string{"is '2'", "says '1'"}},
	{"another size", "label/name", []string{changed(sized, `size: medium`, `size: large`), linux}, []string{changed(sized, "name: u1.medium",
		"name: u-medium"), linux},
		"metadata.labels[instancetype.kubevirt.io/size]", []string{"is 'large'", "says 'medium'"}},
	{"nobody's system", "label/os-type", []string{small, changed(linux, "linux}", "linux, labels: {instancetype.kubevirt.io/os-type: Linux}}")},
		[]string{small, changed(linux, "linux}", "linux, labels: {instancetype.kubevirt.io/os-type: linux}}")}, "metadata.labels[instancetype.kubevirt.io/os-type]",
		[]string{"is 'Linux'"}},
	{"another system inside", "label/os-type", []string{small, changed(windows, "os-type: windows", "os-type: legacy")}, []string{small, windows},
		"metadata.labels[instancetype.kubevirt.io/os-type]", []string{"is 'legacy'", "windows"}},
	{"in the label alone", "label/architecture", []string{small, changed(linux, "linux}", "linux, labels: {instancetype.kubevirt.io/arch: arm64}}")},
		[]string{small, arm}, "metadata.labels[instancetype.kubevirt.io/arch]", []string{"gets the architecture of its cluster"}},
	{"no words at all", "label/description", []string{small, described}, []string{changed(described, "kind: p", "kind: p"), whatFor}, "metadata",
		[]string{"label 'instancetype.kubevirt.io/vendor'", "annotation 'instancetype.kubevirt.io/description'"}},
	{"empty words", "label/description", []string{changed(whatFor, "description: For", "description: ' ' #"), described}, []string{whatFor, described}, "metadata",
		[]string{"missing or empty: annotation 'instancetype.kubevirt.io/description'"}},
}

const (
	gpu = `
metadata: {name: gpu, labels: {instancetype.kubevirt.io/cpu: "2", instancetype.kubevirt.io/memory: 4Gi, instancetype.kubevirt.io/gpus: "2"}}
spec: {cpu: {guest: 2}, memory: {guest: 4Gi}, gpus: [{name: a, deviceName: example.com/gpu}, {name: b, deviceName: example.com/gpu}]}`
	arm = `
kind: p
metadata: {name: arm, labels: {instancetype.kubevirt.io/arch: arm64, instancetype.kubevirt.io/required-architecture: arm64}}
spec: {requirements: {architecture: arm64}}`
	pinned = `
kind: p
metadata: {name: pinned}
spec: {cpu: {preferredCPUTopology: cores}}`
	bareReal = `
metadata: {name: real}
spec:
  cpu: {guest: 2, dedicatedCPUPlacement: true, isolateEmulatorThread: true, realtime: {}, numa: {guestMappingPassthrough: {}}}
  memory: {guest: 4Gi, hugepages: {pageSize: 1Gi}}`
	real = `
metadata:
  name: real
  labels:
    instancetype.kubevirt.io/cpu: "2"
    instancetype.kubevirt.io/memory: 4Gi
    instancetype.kubevirt.io/hugepages: 1024Mi
    instancetype.kubevirt.io/numa: "true"
    instancetype.kubevirt.io/dedicatedCPUPlacement: "true"
    instancetype.kubevirt.io/isolateEmulatorThread: "true"
    instancetype.kubevirt.io/realtime: "true"
spec:
  cpu: {guest: 2, dedicatedCPUPlacement: true, isolateEmulatorThread: true, realtime: {}, numa: {guestMappingPassthrough: {}}}
  memory: {guest: 4Gi, hugepages: {pageSize: 1Gi}}`
	sized = `
metadata:
  name: u1.medium
  labels:
    {instancetype.kubevirt.io/cpu: "2", instancetype.kubevirt.io/memory: 4Gi, instancetype.kubevirt.io/version: "1", instancetype.kubevirt.io/size: medium}
spec: {cpu: {guest: 2}, memory: {guest: 4Gi}}`
	windows = `
kind: p
metadata: {name: windows, labels: {instancetype.kubevirt.io/os-type: windows}}
spec: {annotations: {vm.kubevirt.io/os: windows}}`
	described = `
kind: p
metadata:
  name: linux
  labels: {instancetype.kubevirt.io/vendor: example.com, instancetype.kubevirt.io/os-type: linux}
  annotations: {openshift.io/display-name: Linux}
spec: {}`
	whatFor = `
metadata:
  name: small
  labels:
    instancetype.kubevirt.io/cpu: "2"
    instancetype.kubevirt.io/memory: 4Gi
    instancetype.kubevirt.io/vendor: example.com
    instancetype.kubevirt.io/class: general
  annotations:
    instancetype.kubevirt.io/displayName: General Purpose
    instancetype.kubevirt.io/description: For most.
spec: {cpu: {guest: 2}, memory: {guest: 4Gi}}`
)

// other is an instancetype that 'small' may name as its replacement.
var other = changed(changed(changed(small, "name: small", "name: other"), `"2"`, `"4"`), "guest: 2", "guest: 4")

var objectCases = []lintCase{
	{"no CPU", "catalog/legal", []string{changed(changed(small, "guest: 2", "guest: 0"), `"2"`, `"0"`), linux}, []string{small, linux}, "spec.cpu.guest",
		[]string{"must be at least 1", "instancetype/cpus"}},
	{"a topology that is none", "catalog/legal", []string{small, "{kind: p, metadata: {name: x}, spec: {cpu: {preferredCPUTopology: rows}}}", linux},
		[]string{small, pinned}, "spec.cpu.preferredCPUTopology", []string{"supported values"}},
	{"two of one name", "catalog/twice", []string{small, small, linux}, []string{small, other, linux}, "metadata.name", []string{"before"}},
	{"two namespaces", "catalog/twice", []string{small, ofNamespace("shop"), ofNamespace("shop"), linux}, []string{small, ofNamespace("shop"),
		ofNamespace("yard"), linux},
		"metadata.name", []string{"shop/small"}},
	{"64 characters", "catalog/name-length", []string{changed(small, "name: small", "name: "+strings.Repeat("a", 64)), linux},
		[]string{changed(small, "name: small", "name: "+strings.Repeat("a", 63)), linux}, "metadata.name", []string{"64 characters"}},
	{"one spec in two forms", "catalog/same-spec", []string{small, changed(changed(small, "name: small", "name: twin"), "{guest: 4Gi}", "{guest: 4096Mi}"), linux},
		[]string{small, changed(changed(small, "name: small", "name: twin"), "{guest: 4Gi}", "{guest: 4Gi, overcommitPercent: 10}"), linux}, "spec",
		[]string{"'small'"}},
	{"one spec, and one replaces the other", "catalog/same-spec", []string{small, changed(small, "name: small", "name: twin"), linux},
		[]string{small, changed(small, "name: small", "name: twin, annotations: {kilnvm.io/replaced-by: small}"), linux}, "spec", []string{"replacement"}},
	{"an old word", "catalog/deprecated-value", []string{small, changed(pinned, "cores", "preferCores")}, []string{small, pinned},
		"spec.cpu.preferredCPUTopology", nil},
}

func ofNamespace(name string) string {
	return "kind: VirtualMachineInstancetype\n" + changed(small, "name: small", "name: small, namespace: "+name)
}

// with is 'small' with labels and annotations.
func with(labels, annotations string) string {
	return changed(changed(small, "labels: {", "labels: {"+labels), "metadata: {", "metadata: {annotations: {"+annotations+"}, ")
}

var lifecycleCases = []lintCase{
	{"no state", "catalog/lifecycle", []string{with("kilnvm.io/lifecycle: old, ", ""), linux}, []string{with("kilnvm.io/lifecycle: active, ", ""), linux},
		"metadata.labels[kilnvm.io/lifecycle]", []string{"'active', 'deprecated' or 'obsolete'"}},
	{"neither true nor false", "catalog/deprecated", []string{with("instancetype.kubevirt.io/deprecated: 'yes', ", ""), linux},
		[]string{with("instancetype.kubevirt.io/deprecated: 'false', ", ""), linux}, "metadata.labels[instancetype.kubevirt.io/deprecated]",
		[]string{"'true' or 'false'"}},
	{"itself", "catalog/replaced-by", []string{with("", "kilnvm.io/replaced-by: small"), linux}, []string{with("", "kilnvm.io/replaced-by: other"), other, linux},
		"metadata.annotations[kilnvm.io/replaced-by]", []string{"another object"}},
	{"a day", "catalog/obsolete-after", []string{with("", "kilnvm.io/replaced-by: other, kilnvm.io/obsolete-after: '2027-01-01'"), other, linux},
		[]string{with("", "kilnvm.io/replaced-by: other, kilnvm.io/obsolete-after: '2027-01-01T00:00:00Z'"), other, linux},
		"metadata.annotations[kilnvm.io/obsolete-after]", []string{"RFC 3339"}},
	{"deprecated", "catalog/no-replacement", []string{with("instancetype.kubevirt.io/deprecated: 'true', ", ""), other, linux},
		[]string{with("instancetype.kubevirt.io/deprecated: 'true', ", "kilnvm.io/replaced-by: other"), other, linux}, "metadata", []string{"without replacement"}},
	{"a state among the annotations", "catalog/misplaced", []string{with("", "kilnvm.io/lifecycle: active"), other, linux},
		[]string{with("kilnvm.io/lifecycle: active, ", ""), other, linux}, "metadata.annotations[kilnvm.io/lifecycle]", []string{"must be a label"}},
	{"its end has come", "catalog/no-replacement", []string{with("", "kilnvm.io/obsolete-after: '2026-01-01T00:00:00Z'"), other, linux},
		[]string{with("", "kilnvm.io/obsolete-after: '2026-01-01T00:00:00Z', kilnvm.io/replaced-by: other"), other, linux}, "metadata", []string{"is obsolete"}},
	{"a replacement of nobody's", "catalog/replacement", []string{with("", "kilnvm.io/replaced-by: larger"), other, linux},
		[]string{with("", "kilnvm.io/replaced-by: other"), other, linux}, "metadata.annotations[kilnvm.io/replaced-by]", []string{"'larger' is not in the catalog"}},
	{"a replacement of another kind", "catalog/replacement", []string{with("", "kilnvm.io/replaced-by: linux"), other, linux},
		[]string{with("", "kilnvm.io/replaced-by: other"), other, linux}, "metadata.annotations[kilnvm.io/replaced-by]", []string{"'linux' is not in the catalog"}},
	{"a replacement that is replaced", "catalog/replacement", []string{with("", "kilnvm.io/replaced-by: other"), linux, third,
		changed(other, "metadata: {", "metadata: {annotations: {kilnvm.io/replaced-by: third, kilnvm.io/obsolete-after: '2026-01-01T00:00:00Z'}, ")},
		[]string{with("", "kilnvm.io/replaced-by: third"), linux, third, other}, "metadata.annotations[kilnvm.io/replaced-by]", []string{"'other' is obsolete"}},
}

var third = changed(changed(changed(small, "name: small", "name: third"), `"2"`, `"8"`), "guest: 2", "guest: 8")

// needing is a preference with requirements.
func needing(cpus, memory string) string {
	return fmt.Sprintf(`
kind: p
metadata: {name: needing, labels: {instancetype.kubevirt.io/required-cpu: "%s", instancetype.kubevirt.io/required-memory: %s}}
spec: {requirements: {cpu: {guest: %s}, memory: {guest: %s}}}`, cpus, memory, cpus, memory)
}

const (
	dedicated = `
metadata:
  name: dedicated
  labels: {instancetype.kubevirt.io/cpu: "4", instancetype.kubevirt.io/memory: 4Gi, instancetype.kubevirt.io/dedicatedCPUPlacement: "true"}
spec: {cpu: {guest: 4, dedicatedCPUPlacement: true}, memory: {guest: 4Gi}}`
)

var pairCases = []lintCase{
	{"too many CPUs", "catalog/requirement", []string{small, linux, needing("3", "1Gi")}, []string{small, linux, needing("2", "1Gi")}, "spec.requirements",
		[]string{"3 vCPUs and 1Gi of memory"}},
	{"too much memory", "catalog/requirement", []string{small, linux, needing("1", "4097Mi")}, []string{small, linux, needing("1", "4096Mi")},
		"spec.requirements", nil},
	{"an odd number", "catalog/requirement", []string{changed(changed(small, `"2"`, `"3"`), "guest: 2", "guest: 3"), linux, changed(pinned, "cores", "spread")},
		[]string{small, linux, changed(pinned, "cores", "spread")}, "spec.requirements", []string{"spread"}},
	{"in another namespace", "catalog/requirement", []string{small, linux, inNamespace(needing("4", "1Gi"), "shop"), changed(changed(ofNamespace("yard"),
		`"2"`, `"4"`), "guest: 2", "guest: 4")},
		[]string{small, linux, inNamespace(needing("4", "1Gi"), "yard"), changed(changed(ofNamespace("yard"), `"2"`, `"4"`), "guest: 2", "guest: 4")},
		"spec.requirements", nil},
	{"every preference wants more", "catalog/unusable-instancetype", []string{small, other, needing("3", "1Gi")}, []string{small, other, needing("2",
		"1Gi")}, "spec",
		[]string{"every preference of the catalog requires more"}},
	{"four threads of one core", "catalog/unusable-instancetype", []string{small, dedicated, changed(pinned, "cores", "threads")},
		[]string{small, dedicated, changed(pinned, "cores", "threads"), linux}, "spec", []string{"none of the 1 preferences", "threads per core"}},
	{"EFI with encryption alone", "catalog/unusable-preference", []string{changed(small, "memory: {guest: 4Gi}",
		"memory: {guest: 4Gi}, nodeSelector: {kubernetes.io/arch: s390x}"), efi, linux},
		[]string{changed(small, "memory: {guest: 4Gi}", "memory: {guest: 4Gi}, nodeSelector: {kubernetes.io/arch: amd64}"), efi, linux}, "spec",
		[]string{"none of the 1 instancetypes", "no EFI"}},
	{"what the architecture lacks", "catalog/boot", []string{small, linux, sata("arm64")}, []string{small, linux, sata("amd64")}, "spec.preferredArchitecture",
		[]string{"'arm64'", `supported values: "virtio", "scsi"`}},
	{"two architectures", "catalog/boot", []string{small, linux, twoArchitectures("s390x")}, []string{small, linux, twoArchitectures("arm64")},
		"spec.preferredArchitecture", []string{"'s390x'", "requires 'arm64'"}},
	{"an architecture that nobody has", "catalog/boot", []string{small, linux, sata("vax")}, []string{small, linux, sata("amd64")},
		"spec.preferredArchitecture", []string{"'vax'"}},
	{"no architecture has it", "catalog/boot", []string{small, linux, changed(changed(linux, "preferredDiskBus: virtio", "preferredDiskBus: ide"),
		"name: linux", "name: ide")}, []string{small, linux}, "spec",
		[]string{"on any architecture; on 'amd64'"}},
	{"a model of another architecture", "catalog/boot", []string{small, linux, modelled("arm64")}, []string{small, linux, modelled("amd64")},
		"spec.nodeSelector[kubernetes.io/arch]", []string{"'arm64'"}},
}

const efi = `
kind: p
metadata: {name: efi}
spec: {firmware: {preferredEfi: {secureBoot: false}}}`

func inNamespace(preference, name string) string {
	return changed(changed(preference, "kind: p", "kind: VirtualMachinePreference"), "metadata: {", "metadata: {namespace: "+name+", ")
}

func sata(architecture string) string {
	return fmt.Sprintf(`
kind: p
metadata: {name: sata, labels: {instancetype.kubevirt.io/preferred-architecture: %s}}
spec: {preferredArchitecture: %s, devices: {preferredDiskBus: sata}}`, architecture, architecture)
}

func modelled(architecture string) string {
	return fmt.Sprintf(`
metadata: {name: modelled, labels: {instancetype.kubevirt.io/cpu: "2", instancetype.kubevirt.io/memory: 4Gi}}
spec: {cpu: {guest: 2, model: Nehalem}, memory: {guest: 4Gi}, nodeSelector: {kubernetes.io/arch: %s}}`, architecture)
}

// TestCatalogsWithoutMistakes: the published catalog keeps the contract, and ours has no labels.
func TestCatalogsWithoutMistakes(t *testing.T) {
	for _, set := range samples.Sets(t) {
		all := whole(t, set)
		for _, f := range Lint(all, noon) {
			if set.Published() || f.Rule != "label/missing" && f.Rule != "label/description" {
				t.Errorf("%s: %s: %+v", set.Name, all[f.Object].Key(), f)
			}
		}
	}
}

// TestOneOfBothAlone: a catalog of instancetypes alone is meant for the preferences of another one.
func TestOneOfBothAlone(t *testing.T) {
	for _, alone := range [][]string{{small}, {needing("64", "1Ti")}, nil} {
		for _, f := range Lint(objects(t, alone...), noon) {
			if f.Rule != "label/description" {
				t.Errorf("%v: %+v", alone, f)
			}
		}
	}
}

// TestLintIsStable: findings do not depend on what maps are like, and nothing given is changed.
func TestLintIsStable(t *testing.T) {
	var bad []string
	for _, test := range slices.Concat(labelCases, objectCases, lifecycleCases, pairCases) {
		bad = append(bad, test.bad...)
	}
	all, same := objects(t, bad...), objects(t, bad...)
	first := Lint(all, noon)
	if diff := cmp.Diff(same, all); diff != "" {
		t.Errorf("Lint changes what it is given: %s", diff)
	}
	if diff := cmp.Diff(first, Lint(same, noon)); diff != "" {
		t.Errorf("two runs: %s", diff)
	}
	if !slices.IsSortedFunc(first, func(a, b Finding) int { return a.Object - b.Object }) {
		t.Error("findings are not in the order of the objects")
	}
}

func twoArchitectures(preferred string) string {
	return fmt.Sprintf(`
kind: p
metadata: {name: two, labels: {instancetype.kubevirt.io/preferred-architecture: %s, instancetype.kubevirt.io/required-architecture: arm64}}
spec: {preferredArchitecture: %s, requirements: {architecture: arm64}}`, preferred, preferred)
}

// TestManyObjects: a catalog of 10,000 objects, none like another, is judged, and what was not tried is said.
func TestManyObjects(t *testing.T) {
	const each, most = 5000, 300
	var all []*Object
	models := objects(t, small, needing("1", "1Gi"))
	for i := range each {
		size, system := *models[0], *models[1]
		size.Instancetype, system.Preference = size.Instancetype.DeepCopy(), system.Preference.DeepCopy()
		size.Name, system.Name = fmt.Sprintf("small.%d", i), fmt.Sprintf("needing.%d", i)
		// A later preference needs more, and every instancetype has too little for half of them.
		size.Instancetype.CPU.Guest, system.Preference.Requirements.CPU.Guest = uint32(i%400+1), uint32(i%800+1)
		size.Instancetype.Annotations = map[string]string{"number": size.Name}
		size.Labels, system.Labels = nil, nil
		all = append(all, &size, &system)
	}
	count := map[string]int{}
	for _, f := range newLinter(all, noon).run(most) {
		count[f.Rule]++
	}
	if count["catalog/bounded"] != 1 || count["catalog/same-spec"] != 0 || count["label/missing"] != 2*each {
		t.Errorf("findings: %v", count)
	}
}
