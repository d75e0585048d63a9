package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench/catalogs"
	"github.com/kilnvm/kiln/pkg/catalog"
	"github.com/kilnvm/kiln/test/golden"
	"github.com/kilnvm/kiln/test/samples"
	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
)

// lying is an instancetype with a label that denies its spec, and without any words for people.
const lying = `apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterInstancetype
metadata:
  name: small
  labels:
    instancetype.kubevirt.io/cpu: "4"
    instancetype.kubevirt.io/memory: 4Gi
spec:
  cpu: {guest: 2}
  memory: {guest: 4Gi}
`

// unlabelled is one that has warnings and notes alone.
var unlabelled = strings.Replace(lying, "    instancetype.kubevirt.io/cpu: \"4\"\n", "", 1)

func TestCatalogLint(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"lying.yaml": lying, "spaced name.yaml": strings.Replace(unlabelled, "name: small", "name: \"sma\\nll\"", 1)})
	got := call(t, "", "catalog", "lint", dir)
	file := filepath.Join(dir, "lying.yaml")
	want := file + ":3: note: VirtualMachineClusterInstancetype small: missing or empty: label 'instancetype.kubevirt.io/vendor', " +
		"label 'instancetype.kubevirt.io/class', annotation 'instancetype.kubevirt.io/displayName', " +
		"annotation 'instancetype.kubevirt.io/description' [label/description]\n" +
		"    add the keys: dashboards and the catalog's page show them\n" +
		file + ":6: error: VirtualMachineClusterInstancetype small: label 'instancetype.kubevirt.io/cpu' is '4', and the spec has '2' [label/value]\n" +
		"    write instancetype.kubevirt.io/cpu: \"2\"\n"
	rest, found := strings.CutPrefix(got.out, want)
	if !found || cmdutil.ExitStatus(got.err) != 1 {
		t.Fatalf("status %d, -want +got\n%s", cmdutil.ExitStatus(got.err), cmp.Diff(want, got.out))
	}
	for _, words := range []string{"spaced name.yaml:4: error: VirtualMachineClusterInstancetype sma?ll: Invalid value", " [api/name]\n",
		"\n" + dir + ": 1 instancetype and 0 preferences: 2 errors, 0 warnings, 1 note\n"} {
		if !strings.Contains(rest, words) {
			t.Errorf("'%s' is missing in\n%s", words, rest)
		}
	}
}

// TestJoinedObjects: a missing line between two objects is one finding, and not one for each key of the second object.
func TestJoinedObjects(t *testing.T) {
	t.Parallel()
	_, file := write(t, lying+strings.Replace(lying, "name: small", "name: large", 1))
	got := call(t, "", "catalog", "lint", file)
	const want = `:11: error: VirtualMachineClusterInstancetype large: Invalid value: "": key "apiVersion" already set in map: ` +
		"if another object begins here, write a line '---' before it [file/duplicate-key]\n"
	if !strings.Contains(got.out, file+want) || strings.Count(got.out, "file/duplicate-key") != 1 || cmdutil.ExitStatus(got.err) != 1 {
		t.Errorf("%v\n%s", got.err, got.out)
	}
}

func TestExitStatusOfCatalogLint(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"good/a.yaml": strings.Replace(lying, `"4"`, `"2"`, 1), "warned/a.yaml": unlabelled, "wrong/a.yaml": lying,
		"unread/a.yaml": "- a\n", "unread/b.yaml": lying, "empty/README.md": ""})
	for _, test := range []struct {
		args   []string
		status int
	}{
		{[]string{"good"}, 0}, {[]string{"good", "--strict"}, 0}, {[]string{"warned"}, 0}, {[]string{"warned", "--strict"}, 1}, {[]string{"wrong"}, 1},
		{[]string{"unread"}, 2},
		{[]string{"empty"}, 2}, {[]string{"nowhere"}, 2}, {[]string{"good", "-o", "yaml"}, 2}, {[]string{"good", "--config", filepath.Join(dir, "nowhere")}, 2},
	} {
		args := append([]string{"catalog", "lint", filepath.Join(dir, test.args[0])}, test.args[1:]...)
		if got := call(t, "", args...); cmdutil.ExitStatus(got.err) != test.status {
			t.Errorf("%v: status %d, want %d\n%s%s%v", test.args, cmdutil.ExitStatus(got.err), test.status, got.out, got.errOut, got.err)
		}
	}
	if got := call(t, lying, "catalog", "lint", "-"); cmdutil.ExitStatus(got.err) != 1 || !strings.HasPrefix(got.out, "standard input:3: note") ||
		!strings.HasSuffix(got.out, "\nstandard input: 1 instancetype and 0 preferences: 1 error, 0 warnings, 1 note\n") {
		t.Errorf("standard input: %v\n%s", got.err, got.out)
	}
}

// TestConfigurationOfCatalogLint: a catalog that needs a feature gate is refused only for a cluster without it.
func TestConfigurationOfCatalogLint(t *testing.T) {
	t.Parallel()
	gated := strings.Replace(strings.Replace(lying, `"4"`, `"2"`, 1), "spec:", "spec:\n  hostDevices: [{name: card, deviceName: example.com/card}]", 1)
	dir := folder(t, map[string]string{"catalog/a.yaml": gated, "config.yaml": "developerConfiguration: {}\n"})
	if got := call(t, "", "catalog", "lint", filepath.Join(dir, "catalog")); got.err != nil {
		t.Errorf("with every gate: %v\n%s", got.err, got.out)
	}
	got := call(t, "", "catalog", "lint", filepath.Join(dir, "catalog"), "--config", filepath.Join(dir, "config.yaml"))
	if cmdutil.ExitStatus(got.err) != 1 || !strings.Contains(got.out, "feature gate 'HostDevices'") {
		t.Errorf("without the gate: %v\n%s", got.err, got.out)
	}
}

func TestDocumentsOfCatalogLint(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"a b.yaml": lying, "broken.yaml": "- a\n"})
	got := call(t, "", "catalog", "lint", dir, "-o", "json")
	var report struct {
		Instancetypes, Preferences, Errors, Warnings, Notes int

		Source   string
		Findings []catalogs.Finding
	}
	if err := json.Unmarshal([]byte(got.out), &report); err != nil {
		t.Fatalf("%v\n%s", err, got.out)
	}
	value := report.Findings[1]
	if report.Errors != 2 || report.Notes != 1 || report.Instancetypes != 1 || value.Line != 6 || value.Rule != "label/value" || value.Severity != catalog.Error ||
		value.Field != "metadata.labels[instancetype.kubevirt.io/cpu]" || value.Object != "VirtualMachineClusterInstancetype small" {
		t.Errorf("got %+v", report)
	}
	got = call(t, "", "catalog", "lint", dir, "-o", "sarif")
	read, err := sarif.FromString(got.out)
	if err != nil {
		t.Fatal(err)
	}
	if err := read.Validate(); err != nil {
		t.Errorf("the schema of SARIF refuses it: %v", err)
	}
	run := read.Runs[0]
	if len(run.Results) != len(report.Findings) || len(run.Tool.Driver.Rules) != len(catalogs.Rules()) {
		t.Fatalf("%d results of %d rules", len(run.Results), len(run.Tool.Driver.Rules))
	}
	result := run.Results[1]
	place := result.Locations[0].PhysicalLocation
	if *run.Tool.Driver.Rules[result.RuleIndex].ID != "label/value" || result.Level != "error" || *place.Region.StartLine != 6 ||
		!strings.HasSuffix(*place.ArtifactLocation.URI, "/a%20b.yaml") {
		t.Errorf("got %+v at %+v", result, place)
	}
}

// TestPublishedCatalogHasNoFinding: what KubeVirt publishes keeps its own contract.
func TestPublishedCatalogHasNoFinding(t *testing.T) {
	t.Parallel()
	dir := samples.Catalog(t)
	got := call(t, "", "catalog", "lint", dir, "--strict")
	if want := dir + ": 65 instancetypes and 57 preferences: 0 errors, 0 warnings, 0 notes\n"; got.err != nil || got.out != want {
		t.Errorf("%v\n%s", got.err, got.out)
	}
}

// TestPage compares the table in docs/reference/support.md with the objects of the published catalog that pods refuse. 'make golden' writes it.
func TestPage(t *testing.T) {
	t.Parallel()
	got := call(t, "", "catalog", "lint", samples.Catalog(t), "--runtime", "pod", "-o", "json")
	var report struct{ Findings []catalogs.Finding }
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || cmdutil.ExitStatus(got.err) != 1 {
		t.Fatalf("%v, %v\n%s", err, got.err, got.out)
	}
	var reasons []string
	named := map[string][]string{}
	for _, f := range report.Findings {
		if f.Rule != "runtime/refused" {
			t.Errorf("another finding: %+v", f)
		}
		_, reason, _ := strings.Cut(f.Message, ": ")
		if len(named[reason]) == 0 {
			reasons = append(reasons, reason)
		}
		kind, name, _ := strings.Cut(f.Object, " ")
		if len(named[reason]) == 0 {
			name = strings.ToLower(strings.TrimPrefix(kind, "VirtualMachineCluster")) + "s `" + name
		} else {
			name = "`" + name
		}
		named[reason] = append(named[reason], name+"`")
	}
	var rows strings.Builder
	for _, reason := range reasons {
		fmt.Fprintf(&rows, "| %s | %s |\n", strings.Join(named[reason], ", "), reason)
	}
	const page, head = "../../docs/reference/support.md", "| objects | reason |\n|---|---|\n"
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(string(raw), head)
	_, after, ended := strings.Cut(after, "\n\n")
	if !found || !ended {
		t.Fatalf("%s has no table of the published catalog", page)
	}
	golden.Compare(t, page, before+head+rows.String()+"\n"+after)
}
