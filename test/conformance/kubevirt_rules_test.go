package main

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/validate"
	"github.com/kilnvm/kiln/test/samples"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// answers are how often the reference admitted, and refused for the same field, the objects that a rule refuses.
type answers struct{ admittedVMs, admittedVMIs, refused int }

// TestKubeVirtOnRules: what a rule says about KubeVirt is what the reference answered. An answer counts as a refusal only if a cause names the field of the
// rule's error; such a cause may still have another reason, so KubeVirtAdmits may have refusals.
func TestKubeVirtOnRules(t *testing.T) {
	dir := samples.Shared(t)
	if dir == "" {
		t.Skip("the recorded answers are not here (KILN_SHARED)")
	}
	t.Chdir("../..")
	dir = filepath.Join(dir, "conformance")
	clusters, err := readConfigs(filepath.Join(dir, "configs.json"), config.Newest)
	if err != nil {
		t.Fatal(err)
	}
	found, judged := map[string]*answers{}, 0
	for _, corpus := range []string{"validate-vmi", "validate-vm"} {
		cases, err := readCases(filepath.Join(dir, corpus+".jsonl.gz"))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			j, read := judgeRecorded(t, c, clusterOf(corpus, c, clusters))
			if !read {
				continue
			}
			judged++
			for _, err := range j.errs {
				if found[err.Origin] == nil {
					found[err.Origin] = &answers{}
				}
				found[err.Origin].add(j, err)
			}
		}
	}
	for rule, was := range found {
		says := validate.KubeVirtOn(rule)
		admitted := was.admittedVMs + was.admittedVMIs
		wrong := false
		switch says {
		case validate.KubeVirtRefuses:
			wrong = admitted > 0
		case validate.KubeVirtRefusesVMI:
			wrong = was.admittedVMIs > 0
		case validate.KubeVirtAdmits:
			wrong = was.refused > 0 && admitted == 0
		}
		if wrong {
			t.Errorf("rule '%s' says that KubeVirt %s, and the reference admitted %d VMs and %d VMIs, and refused %d objects", rule, says,
				was.admittedVMs, was.admittedVMIs, was.refused)
		}
	}
	if judged < 4000 || len(found) < 200 {
		t.Errorf("only %d cases with %d rules were compared", judged, len(found))
	}
}

// add counts the answer of the reference about an object that has an error.
func (a *answers) add(j judged, err *field.Error) {
	switch {
	case j.Expect.Allowed && j.VM != nil:
		a.admittedVMs++
	case j.Expect.Allowed:
		a.admittedVMIs++
	case slices.ContainsFunc(j.Expect.Causes, func(c cause) bool {
		return withinPath(err.Field, truePath(c, j.base, j.object)) || j.namesCause(err, c)
	}):
		a.refused++
	}
}

// judgeRecorded returns Kiln's answer to a case; false if the reference gave no verdict of its webhooks, or one of both cannot read the object.
func judgeRecorded(t *testing.T, c record, cluster config.Cluster) (judged, bool) {
	t.Helper()
	j := judged{record: c, base: "spec"}
	raw, given, vm := c.VMI, answer{}, &v1.VirtualMachine{}
	if c.Expect.Stage == "schema" || c.Expect.Stage == "decode" || c.Expect.Panic != nil {
		return j, false
	}
	var err error
	if c.VM != nil {
		raw, j.base = c.VM, "spec.template.spec"
		if json.Unmarshal(raw, vm) != nil || vm.DeletionTimestamp != nil {
			return j, false
		}
		given, err = judgeVM(c, vm, cluster)
	} else {
		vmi := &v1.VirtualMachineInstance{}
		if json.Unmarshal(raw, vmi) != nil {
			return j, false
		}
		given.errs, err = reviewVMI(vmi, cluster, c.User)
	}
	if err == nil {
		j.object, err = objectOf(raw)
	}
	if err != nil {
		t.Fatalf("%s: %v", c.ID, err)
	}
	j.errs, j.guest = errorsAtCauses(given.errs), given.explicit
	return j, true
}
