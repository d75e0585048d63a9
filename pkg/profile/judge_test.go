package profile

import (
	"maps"
	"slices"
	"testing"

	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestFamiliesAreLegal: what a VM brings is legal on amd64 by itself, so that an error is due to the profile.
func TestFamiliesAreLegal(t *testing.T) {
	t.Parallel()
	j := judgement{cluster: config.Default(), lineage: &lineage{of: reading(t, "{}")}}
	for _, family := range append(slices.Collect(maps.Keys(families())), "") {
		if errs := j.judgeTrialVMI(&v1.VirtualMachineInstance{}, "amd64", family); len(errs) > 0 {
			t.Errorf("family '%s': %v", family, errs)
		}
	}
}

func reading(t *testing.T, template string) *Profile {
	t.Helper()
	p, err := Read("", []byte(`{"apiVersion": "kilnvm.io/v1alpha1", "kind": "GuestProfile", "metadata": {"namespace": "team", "name": "p"}, "spec": {"template": `+
		toJSON(t, template)+`}}`))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func toJSON(t *testing.T, text string) string {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
