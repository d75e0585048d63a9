package corpus

import (
	"cmp"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/profile"
	"github.com/kilnvm/kiln/test/samples"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// TestLegalGuestsAreLegalProfiles: whatever an admitted VMI has, a profile may fill: as its owner wrote it, explicit, and any part of both, because a VM
// with the rest would be that VMI.
func TestLegalGuestsAreLegalProfiles(t *testing.T) {
	cases, err := Load(".")
	if err != nil {
		t.Fatal(err)
	}
	seed := number("SEED", rand.Uint64())
	t.Logf("SEED=%d", seed)
	random, judged := rand.New(rand.NewPCG(seed, 0)), 0
	for _, c := range cases {
		admitted, err := c.Admit(t.Context())
		if err != nil || !admitted.Verdict.Allowed() || !admitted.Known || admitted.Explicit == nil {
			continue
		}
		written := c.VMI
		if c.VM != nil {
			written = &v1.VirtualMachineInstance{ObjectMeta: c.VM.Spec.Template.ObjectMeta, Spec: c.VM.Spec.Template.Spec}
		}
		judged += legalParts(t, random, c.Name, written, c.Cluster) + legalParts(t, random, c.Name, admitted.Explicit, c.Cluster)
	}
	if judged < fewest() {
		t.Errorf("%d profiles were judged: the test looks at the wrong folder", judged)
	}
	t.Logf("%d profiles", judged)
}

// TestRecordedGuestsAreLegalProfiles is TestLegalGuestsAreLegalProfiles on the VMIs of the recorded answers that Kiln admits.
func TestRecordedGuestsAreLegalProfiles(t *testing.T) {
	if samples.Shared(t) == "" {
		t.Skip("no recorded answers here: set KILN_SHARED to a folder with conformance/")
	}
	clusters, judged := configurations(t), 0
	random := rand.New(rand.NewPCG(number("SEED", 1), 0))
	for _, file := range []string{"validate-vmi", "mutate", "convert"} {
		left := number("PROPS", 2000) / 10
		each(t, file, func(c recordedCase) {
			if left == 0 {
				return
			}
			left--
			s := subject{name: c.ID, raw: c.VMI, in: admit.Input{Cluster: clusters[cmp.Or(c.Config, "all")]}}
			if len(c.VMI) == 0 || s.read(false) != nil {
				return
			}
			if out, _ := stageOne(s); len(out.errs) == 0 && out.known {
				judged += legalParts(t, random, c.ID, s.vmi, s.in.Cluster) + legalParts(t, random, c.ID, out.explicit, s.in.Cluster)
			}
		})
	}
	if judged < fewest() {
		t.Errorf("%d profiles were judged: the test looks at the wrong folder", judged)
	}
	t.Logf("%d profiles", judged)
}

// fewest is how many profiles a folder of cases has at least, with the few of each that PROPS asks for.
func fewest() int { return int(min(number("PROPS", 2000)/10, 1000)) } //nolint:gosec // at most 1000

// legalParts judges a profile with all that a VMI has, and up to 20 with parts of it, and returns how many.
func legalParts(t *testing.T, random *rand.Rand, name string, guest *v1.VirtualMachineInstance, cluster config.Cluster) (judged int) {
	t.Helper()
	var spec any = guest.Spec
	for range 1 + min(number("PROPS", 2000)/500, 20) {
		if errs := judgeProfile(t, guest, spec, cluster); len(errs) > 0 {
			raw, err := json.Marshal(spec)
			t.Errorf("%s: %v: %s %v", name, errs, raw, err)
			return judged
		}
		spec = partOf(random, decoded(t, guest.Spec), "")
		judged++
	}
	return judged
}

func decoded(t *testing.T, spec any) (value any) {
	t.Helper()
	raw, err := json.Marshal(spec)
	if err == nil {
		err = json.Unmarshal(raw, &value)
	}
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// judgeProfile judges a profile with a spec, and with labels and annotations of a VMI.
func judgeProfile(t *testing.T, vmi *v1.VirtualMachineInstance, spec any, cluster config.Cluster) field.ErrorList {
	t.Helper()
	free := func(keys map[string]string) map[string]string {
		keys = maps.Clone(keys)
		maps.DeleteFunc(keys, func(key, _ string) bool { return profile.Reserved(key) })
		return keys
	}
	raw, err := json.Marshal(map[string]any{"apiVersion": "kilnvm.io/v1alpha1", "kind": "ClusterGuestProfile", "metadata": map[string]any{"name": "p"},
		"spec": map[string]any{"selector": map[string]any{}, "template": map[string]any{"spec": spec,
			"metadata": map[string]any{"labels": free(vmi.Labels), "annotations": free(vmi.Annotations)}}}})
	if err != nil {
		t.Fatal(err)
	}
	p, errs := profile.Check("", raw)
	if len(errs) == 0 {
		errs = profile.Judge(p, nil, cluster).Errors
	}
	// A VMI may have two members of some choices, such as two clocks. A profile may not: it would fill only one of them.
	return slices.DeleteFunc(errs, func(err *field.Error) bool { return err.Origin == "profile/choice" })
}

// byName are the lists whose elements are merged by name. Other lists are filled as a whole.
var byName = []string{"disks", "volumes", "interfaces", "networks", "filesystems", "gpus", "hostDevices", "inputs", "features", "resourceClaims"}

// kept are fields that stay with the object that they are in: the object is another without them, such as a feature that is switched off.
var kept = []string{"domain", "devices", "enabled", "present"}

// partOf returns a JSON value without some of its fields and elements. The name of an element stays with it.
func partOf(random *rand.Rand, value any, name string) any {
	switch value := value.(type) {
	case map[string]any:
		part := map[string]any{}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if random.IntN(3) > 0 || slices.Contains(kept, key) {
				part[key] = partOf(random, value[key], key)
			}
		}
		return part
	case []any:
		if !slices.Contains(byName, name) {
			return value
		}
		part := []any{}
		for _, element := range value {
			if random.IntN(3) > 0 {
				named := partOf(random, element, "").(map[string]any)
				named["name"] = element.(map[string]any)["name"]
				part = append(part, named)
			}
		}
		return part
	}
	return value
}
