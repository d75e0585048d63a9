package validate_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/validate"
	v1 "kubevirt.io/api/core/v1"
)

// TestKnownKeys: no annotation that Kiln has is called unknown.
func TestKnownKeys(t *testing.T) {
	source, err := os.ReadFile("../../api/v1alpha1/keys.go")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`\n\s*(?:const )?Annotation\w+\s*= Prefix \+ "([^"]+)"`).FindAllSubmatch(source, -1)
	if len(found) < 20 {
		t.Fatalf("only %d annotations in api/v1alpha1", len(found))
	}
	for _, key := range found {
		vm := object[v1.VirtualMachine](t, legalVM)
		vm.Annotations = map[string]string{v1alpha1.Prefix + string(key[1]): v1alpha1.RolloutRestart}
		if warnings := validate.VMWarnings(vm, config.Default().Limits); len(warnings) > 0 {
			t.Errorf("%s: %q", key[1], warnings)
		}
	}
}

// TestCountWarnings: a number of CPUs that is written as 0 is told from one that is not written.
func TestCountWarnings(t *testing.T) {
	for raw, want := range map[string]string{
		`{"spec":{"template":{"spec":{"domain":{"cpu":{"cores":0,"threads":0,"sockets":2}}}}}}`: "cpu.cores, cpu.threads of 0 is as if it were not written",
		`{"spec":{"domain":{"cpu":{"sockets":0}}}}`:                                             "cpu.sockets of 0 is as if it were not written",
		`{"spec":{"domain":{"cpu":{"cores":1,"maxSockets":0}}}}`:                                "",
		`{"spec":{"domain":{"cpu":{"cores":null,"sockets":"0"}}}}`:                              "",
		`{"spec":{"domain":{}}}`:                                                                "",
	} {
		var about []string
		if want != "" {
			about = []string{want}
		}
		warningCase{about: about}.check(t, validate.CountWarnings([]byte(raw)))
	}
}

// TestIdentityWarnings: another seed changes nothing of a guest that exists, unless its hardware is made anew.
func TestIdentityWarnings(t *testing.T) {
	besides := config.Default().Limits
	besides.KubeVirtGuests = true
	for _, c := range []struct {
		why, old, now string
		limits        config.Limits
		about         []string
	}{
		{"another seed", "{metadata: {annotations: {kilnvm.io/identity: a}}, status: {created: true}}", "metadata: {annotations: {kilnvm.io/identity: b}}",
			config.Default().Limits, []string{"keeps UUID, serial and MACs until it starts with 'kilnvm.io/hardware: latest'"}},
		{"a seed that is taken away", "{metadata: {annotations: {kilnvm.io/identity: a}}, status: {created: true}}", "{}",
			config.Default().Limits, []string{"keeps"}},
		{"the same", "{metadata: {annotations: {kilnvm.io/identity: a}}, status: {created: true}}", "metadata: {annotations: {kilnvm.io/identity: a}}",
			config.Default().Limits, nil},
		{"a VM that has no guest", "metadata: {annotations: {kilnvm.io/identity: a}}", "metadata: {annotations: {kilnvm.io/identity: b}}",
			config.Default().Limits, nil},
		{"the first one", "status: {created: true}", "metadata: {annotations: {kilnvm.io/identity: b}}", config.Default().Limits, nil},
		{"hardware made anew", "{metadata: {annotations: {kilnvm.io/identity: a}}, status: {created: true}}",
			"metadata: {annotations: {kilnvm.io/identity: b, kilnvm.io/hardware: latest}}", config.Default().Limits, nil},
		{"a guest of KubeVirt's", "{metadata: {annotations: {kilnvm.io/identity: a}}, status: {created: true}}",
			"metadata: {annotations: {kilnvm.io/identity: b}}", besides, nil},
	} {
		t.Run(c.why, func(t *testing.T) {
			old, now := object[v1.VirtualMachine](t, legalVM, c.old), object[v1.VirtualMachine](t, legalVM, c.now)
			warningCase{about: c.about}.check(t, validate.WrittenVMWarnings(nil, now, old, c.limits))
		})
	}
	if warnings := validate.WrittenVMWarnings([]byte(`{"spec":{"template":{"spec":{"domain":{"cpu":{"cores":0}}}}}}`), object[v1.VirtualMachine](t, legalVM), nil,
		besides); len(warnings) != 1 {
		t.Errorf("a create with counts of 0: %q", warnings)
	}
}
