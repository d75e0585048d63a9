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
