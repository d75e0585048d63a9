package fields

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/validate"
	v1 "kubevirt.io/api/core/v1"
)

// vmFields has every field of a VirtualMachine's spec outside its template. One that acts names its test, one that does not has a VM that is warned of it.
var vmFields = []struct {
	prefix     string
	file, test string
	warns      func(*v1.VirtualMachineSpec)
}{
	{"running", "../../internal/lifecycle/run_strategy_test.go", "TestStartPaused", nil},
	{"runStrategy", "../../internal/lifecycle/run_strategy_test.go", "TestRunStrategies", nil},
	{"instancetype", "../../internal/resolve/infer_test.go", "TestInference", nil},
	{"preference", "../../internal/resolve/infer_test.go", "TestInference", nil},
	{"dataVolumeTemplates[]", "", "", func(spec *v1.VirtualMachineSpec) { spec.DataVolumeTemplates = []v1.DataVolumeTemplateSpec{{}} }},
	{"updateVolumesStrategy", "", "", func(spec *v1.VirtualMachineSpec) {
		spec.UpdateVolumesStrategy = new(v1.UpdateVolumesStrategyMigration)
	}},
}

// vmRows writes the fields of a VirtualMachine outside its template. They are the same in both runtimes.
func vmRows(t *testing.T, rows *strings.Builder) string {
	t.Helper()
	fmt.Fprintf(rows, "\n## VirtualMachine\n\nPaths start at `spec`. The fields below `template` are in the table of the VirtualMachineInstance. `kubectl "+
		"apply` prints the\nwarnings.\n\n| field | pod | node |\n|---|---|---|\n")
	found := verdicts{}
	for _, leaf := range leavesOfType(reflect.TypeFor[v1.VirtualMachineSpec]()) {
		if strings.HasPrefix(leaf, "template.") {
			continue
		}
		field := strings.SplitAfter(leaf, "[]")[0]
		for _, known := range vmFields {
			switch {
			case leaf != known.prefix && !strings.HasPrefix(leaf, known.prefix+"."):
			case known.warns == nil:
				exists(t, known.file, known.test)
				found[leaf] = Served
			default:
				vm := &v1.VirtualMachine{}
				known.warns(&vm.Spec)
				if warned := validate.VMWarnings(vm, config.Limits{}); len(warned) == 1 && strings.Contains(warned[0].Text, strings.TrimSuffix(known.prefix, "[]")) {
					found[field] = Warned // a list that is not served is one row
				}
			}
		}
		if found[leaf] == "" && found[field] == "" {
			t.Errorf("spec.%s is accepted, and has no effect", leaf)
		}
	}
	for _, leaf := range slices.Sorted(maps.Keys(found)) {
		fmt.Fprintf(rows, "| `%s` | %s | %s |\n", leaf, found[leaf], found[leaf])
	}
	return count(t, "VirtualMachine", "both", found)
}
