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

// vmFields has every field of a VirtualMachine's spec outside its template. One that acts names its test, one that does not has a VM that is warned of it. One
// with both acts in one runtime.
var vmFields = []struct {
	prefix     string
	file, test string
	warns      func(*v1.VirtualMachineSpec)
}{
	{"running", "../../internal/lifecycle/run_strategy_test.go", "TestStartPaused", nil},
	{"runStrategy", "../../internal/lifecycle/run_strategy_test.go", "TestRunStrategies", nil},
	{"instancetype", "../../internal/resolve/infer_test.go", "TestInference", nil},
	{"preference", "../../internal/resolve/infer_test.go", "TestInference", nil},
	{"dataVolumeTemplates[]", "../../internal/lifecycle/data_volumes_test.go", "TestDataVolumesOfAVM", func(spec *v1.VirtualMachineSpec) {
		spec.DataVolumeTemplates = []v1.DataVolumeTemplateSpec{{}}
	}},
	{"updateVolumesStrategy", "", "", func(spec *v1.VirtualMachineSpec) {
		spec.UpdateVolumesStrategy = new(v1.UpdateVolumesStrategyMigration)
	}},
}

// vmRows writes the fields of a VirtualMachine outside its template.
func vmRows(t *testing.T, rows *strings.Builder) string {
	t.Helper()
	fmt.Fprintf(rows, "\n## VirtualMachine\n\nPaths start at `spec`. The fields below `template` are in the table of the VirtualMachineInstance. `kubectl "+
		"apply` prints the\nwarnings.\n\n| field | pod | node |\n|---|---|---|\n")
	pod, node := vmVerdicts(t, config.RuntimePod), vmVerdicts(t, config.RuntimeNode)
	for _, leaf := range slices.Sorted(maps.Keys(node)) {
		fmt.Fprintf(rows, "| `%s` | %s | %s |\n", leaf, pod[leaf], node[leaf])
	}
	return count(t, "VirtualMachine", "pod", pod) + count(t, "VirtualMachine", "node", node)
}

// vmVerdicts returns the verdicts of a runtime on these fields. A list that is warned of in any runtime is one row.
func vmVerdicts(t *testing.T, runtime config.Runtime) verdicts {
	t.Helper()
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
				warned := validate.VMWarnings(vm, config.Limits{Runtime: runtime})
				if len(warned) == 1 && strings.Contains(warned[0].Text, strings.TrimSuffix(known.prefix, "[]")) {
					found[field] = Warned
				} else if len(warned) == 0 && known.test != "" {
					exists(t, known.file, known.test)
					found[field] = Served
				}
			}
		}
		if found[leaf] == "" && found[field] == "" {
			t.Errorf("spec.%s is accepted in runtime '%s', and has no effect", leaf, runtime)
		}
	}
	return found
}
