package revision

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	appsv1 "k8s.io/api/apps/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestRecordedRevisions: what releases have written into clusters must verify and read for ever. The files of testdata are never
// changed; a release that writes something new adds one.
func TestRecordedRevisions(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			r := &appsv1.ControllerRevision{}
			if err := yaml.UnmarshalStrict(raw, r); err != nil {
				t.Fatal(err)
			}
			if err := Verify(r); err != nil {
				t.Error(err)
			}
			legible(t, r)
			tampered := r.DeepCopy()
			tampered.Data.Raw = []byte(strings.Replace(string(r.Data.Raw), `"spec":{`, `"spec":{"more":1,`, 1))
			if instancetype.Addressed(r.Name) && Verify(tampered) == nil {
				t.Error("it verifies with another content too")
			}
		})
	}
}

// legible reads what a revision holds as a guest would.
func legible(t *testing.T, r *appsv1.ControllerRevision) {
	t.Helper()
	var held struct {
		Kind     string
		Metadata struct{ Name string }
	}
	if err := json.Unmarshal(r.Data.Raw, &held); err != nil || held.Metadata.Name == "" {
		t.Fatalf("%+v, %v", held, err)
	}
	var err error
	switch {
	case strings.HasSuffix(held.Kind, "Instancetype"):
		var size *instancetype.Instancetype
		if size, err = instancetype.ReadInstancetype(r.Name, r.Data.Raw); err == nil && (size.Spec.CPU.Guest == 0 || size.Spec.Memory.Guest.IsZero()) {
			t.Errorf("size %+v: its CPUs or its memory got lost", size)
		}
	case strings.HasSuffix(held.Kind, "Preference"):
		var preference *instancetype.Preference
		if preference, err = instancetype.ReadPreference(r.Name, r.Data.Raw); err == nil && preference.Spec.Devices == nil {
			t.Errorf("preference %+v: its devices got lost", preference)
		}
	case strings.HasSuffix(held.Kind, "Preset"):
		var preset v1.VirtualMachineInstancePreset
		if err = json.Unmarshal(r.Data.Raw, &preset); preset.Spec.Domain == nil || len(preset.Spec.Selector.MatchLabels) == 0 {
			t.Errorf("preset %+v: its domain or its selector got lost", preset)
		}
	case held.Kind == v1alpha1.KindClusterConfiguration:
		var defaults *config.Defaults
		if defaults, err = config.ReadDefaults(r.Data.Raw); err == nil && (defaults.CPUModel == "" || defaults.Machines["amd64"] == "") {
			t.Errorf("configuration %+v: its CPU model or its machine types got lost", defaults)
		}
	default:
		t.Errorf("unknown kind '%s'", held.Kind)
	}
	if err != nil {
		t.Error(err)
	}
}
