package presetmigration

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/crdschema"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/test/samples"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// migrated migrates the presets of inputs.
func migrated(t *testing.T, in manifest.Inputs, wanted Options) Result {
	t.Helper()
	done, _, err := Migrate(t.Context(), new(workbench.Bench), in, wanted)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range done.Guests {
		if g.Fault != nil {
			t.Fatal(g.Fault)
		}
		explained(t, g)
	}
	return done
}

// explained checks that each difference is named, and says why.
func explained(t *testing.T, g Guest) {
	t.Helper()
	if (g.State == Differs) != (len(g.Fields)+len(g.Causes) > 0) && g.State != Unknown {
		t.Errorf("%s: %s with %+v %v", g.Object, g.State, g.Fields, g.Causes)
	}
	for _, f := range g.Fields {
		if strings.HasPrefix(f.Origin, "GuestProfile ") && f.Reason == "" {
			t.Errorf("%s: nothing says why the profile fills %s", g.Object, f.Field)
		}
	}
}

// differing are the cases of the corpus in which a profile fills more than the preset.
var differing = map[string]string{
	"clock-preset-beside-preference":   "differs spec.domain.clock.timer.pit.tickPolicy spec.domain.clock.timer.pit.present",
	"presets-agree":                    "differs spec.domain.firmware spec.domain.firmware.uuid", // a VMI without a VM; --firmware
	"presets-broken-selector":          "rejected ",
	"presets-disagree":                 "rejected ",
	"presets-disagree-beside-size":     "rejected ",
	"presets-not-applied":              "differs spec.domain.features.smm.enabled",
	"presets-on-a-refused-vm":          "rejected ",
	"presets-request-after-overcommit": "differs spec.domain.resources.requests[cpu]",
	"presets-request-beside-size":      "differs spec.domain.resources.requests[cpu] spec.domain.resources.requests[memory]",
	"vm-preset-conflict":               "rejected ",
}

// TestMigrationOfTheCorpus: presets of the corpus become profiles with which each VM and VMI is the same, or is named with its fields.
func TestMigrationOfTheCorpus(t *testing.T) {
	t.Parallel()
	compared, got := 0, map[string]string{}
	files, err := filepath.Glob("../../../test/corpus/*/vm*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	for _, file := range files {
		cluster := filepath.Join(filepath.Dir(file), "cluster.yaml")
		if raw, err := os.ReadFile(cluster); err != nil || !strings.Contains(string(raw), "VirtualMachineInstancePreset") {
			continue
		}
		in, err := manifest.Load(manifest.Files{Names: []string{file, cluster}})
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range migrated(t, in, Options{}).Guests {
			compared++
			var fields []string
			for _, f := range g.Fields {
				fields = append(fields, f.Field)
			}
			if g.State != Equal {
				got[filepath.Base(filepath.Dir(file))] = g.State + " " + strings.Join(fields, " ")
			}
		}
	}
	if diff := cmp.Diff(differing, got); diff != "" || compared < 15 {
		t.Errorf("%d compared (-want +got):\n%s", compared, diff)
	}
}

// TestMigrationOfRecordedPresets: the presets with which KubeVirt's answers were recorded.
func TestMigrationOfRecordedPresets(t *testing.T) {
	t.Parallel()
	shared := samples.Shared(t)
	file, err := os.Open(filepath.Join(shared, "conformance", "mutate.jsonl.gz"))
	if err != nil {
		t.Skip("the recorded answers are not here: KILN_SHARED names no folder with them, and there is no '../shared' beside the repository")
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	lines, count, rendered := bufio.NewScanner(unzipped), map[string]int{}, 0
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var c struct {
			ID      string
			Presets []map[string]any
			VMI     map[string]any
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		if len(c.Presets) == 0 || c.VMI == nil {
			continue
		}
		for _, g := range migrated(t, inputsOf(t, append(c.Presets, c.VMI)...), Options{Firmware: true}).Guests {
			count[g.State]++
			if g.Rendered {
				rendered++
			}
			if g.State != Equal && g.State != Rejected {
				t.Errorf("%s: %s %+v %v", c.ID, g.State, g.Fields, g.Causes)
			}
		}
	}
	t.Logf("%v, %d rendered", count, rendered)
	if count[Equal] < 60 || rendered < 60 {
		t.Errorf("the test looks at the wrong answers")
	}
}

// inputsOf are objects as a cluster would answer them.
func inputsOf(t *testing.T, all ...map[string]any) manifest.Inputs {
	t.Helper()
	known, err := crdschema.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	var in manifest.Inputs
	var untyped []*unstructured.Unstructured
	for _, content := range all {
		object := &unstructured.Unstructured{Object: content}
		untyped = append(untyped, object)
		in.Named = append(in.Named, manifest.Object{Unstructured: object})
	}
	in.Reader = objects.New(known, untyped...)
	return in
}
