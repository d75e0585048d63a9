package admit

import (
	"reflect"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/internal/leaves"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

var gibibyte = resource.NewQuantity(1<<30, resource.BinarySI)

// takesEffect compares what the guest has with what a case of a leaf says.
func takesEffect(t *testing.T, leaf, want string, set instancetype.Set) {
	t.Helper()
	vm := decode[v1.VirtualMachine](t, everyDevice)
	if set.Instancetype != nil && len(set.Instancetype.Spec.GPUs) > 0 {
		vm.Spec.Template.Spec.Domain.Devices.GPUs = nil
	}
	in := Input{Set: set, Cluster: config.Default()}
	sameFillers(t, &vm, in)
	switch {
	case want == "":
		t.Errorf("%s: no case", leaf)
	case want[0] == '!':
		explicit, _ := VM(&vm, nil, in)
		for _, err := range instancetype.Requirements(set, explicit, &vm.Spec.Template.Spec, field.NewPath("spec")) {
			if err.Field == want[1:] {
				return
			}
		}
		t.Errorf("%s: nothing is required at %s", leaf, want[1:])
	case want[0] == '-':
		for _, skipped := range ExplainVM(&vm, in).NotApplied {
			if skipped.Field == leaf && skipped.Reason == want[1:] {
				return
			}
		}
		t.Errorf("%s: the reason is not told", leaf)
	default:
		path, value, _ := strings.Cut(want, " ")
		if before := valueAt(ExplainVM(&vm, Input{Cluster: config.Default()}), path); before == value {
			t.Errorf("%s: the guest has %s without it", leaf, want)
		}
		if got := valueAt(ExplainVM(&vm, in), path); got != value {
			t.Errorf("%s: got '%s' at %s, want %s", leaf, got, path, value)
		}
	}
}

func valueAt(e Explanation, path string) string {
	for _, fact := range e.Fields {
		if fact.Path == path {
			return leaves.Leaf{Value: fact.Value}.Text()
		}
	}
	return ""
}

// ownFields visits the fields of a type that are of its own API, and counts them: a structure of the guest's API is one field.
func ownFields(of reflect.Type, at string, visit func(string)) (count int) {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.PkgPath() != reflect.TypeFor[v1beta1.CPUPreferences]().PkgPath() || of.Kind() != reflect.Struct {
		visit(at)
		return 1
	}
	for _, f := range leaves.Fields(of) {
		count += ownFields(of.Field(f.Index).Type, strings.Trim(at+"."+f.Name, "."), visit)
	}
	return count
}

// sameFillers checks that what steps note while they fill is what comparing the guest after each of them says.
func sameFillers(t *testing.T, vm *v1.VirtualMachine, in Input) (named int) {
	t.Helper()
	vmi, h := unexpandedVMI(vm)
	h.runSteps(vmi, in, nil)
	_, done := completeVM(vm, Instance(vm), in)
	for _, fact := range h.factsOf(vmi) {
		if strings.HasPrefix(fact.Path, "metadata.annotations[") && fact.Origin.Kind != FromUser && strings.Contains(fact.Path, "kubevirt.io/") {
			continue // information about the sources, which nothing judges
		}
		want := Origin{}
		if k := fact.Origin.Kind; references[k] != "" {
			want = Origin{Kind: k, Name: fact.Origin.Name, Extends: fact.Origin.Extends}
			named++
		}
		got := done.filledBy(fact.Path)
		if got.Kind != want.Kind || got.Name != want.Name || !reflect.DeepEqual(got.Extends, want.Extends) {
			t.Errorf("%s is noted as filled by '%s', and comparing says '%s'", fact.Path, got, want)
		}
	}
	return named
}
