package corpus

import (
	"fmt"
	"reflect"
	"slices"

	jsonpatch5 "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/patch"
	jsonpatch4 "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// findings are the laws that a subject breaks, each with how.
type findings []string

func (f *findings) add(law, format string, args ...any) {
	*f = append(*f, law+": "+fmt.Sprintf(format, args...))
}

// judged is what stage 1 made of a subject.
type judged struct {
	explicit *v1.VirtualMachineInstance
	errs     field.ErrorList
	// known is false where the instancetype or the preference does not exist.
	known bool
}

// stageOne tries the laws of stage 1.
func stageOne(s subject) (judged, findings) {
	var broken findings
	before := s.given()
	explicit, verdict := stage1(s)
	out := judged{explicit: explicit, errs: verdict.Errors, known: s.vm == nil || known(s.vm, s.in.Set)}
	again, secondly := stage1(s)
	if diff := cmp.Diff(messages(verdict), messages(secondly)); diff != "" {
		broken.add("two runs say the same in the same order", "%s", diff)
	}
	var seen any = s.sent()
	if s.vm == nil && explicit != nil {
		seen = explicit // what the validating webhook is sent
	}
	for _, err := range verdict.Errors {
		if problem := unreal(err.Field, seen, []byte(text(seen))); problem != "" {
			broken.add("every error path is real", "%s: %s (%s)", err.Field, problem, err.ErrorBody())
		}
	}
	if verdict.Allowed() {
		broken = append(broken, admitted(s, explicit)...)
	} else {
		broken = append(broken, remedied(s, verdict.Errors)...)
	}
	if again != nil { // what the engine gives away is the caller's own
		scribble(reflect.ValueOf(again))
	}
	if after := s.given(); after != before {
		broken.add("nothing given is modified or aliased", "%s", cmp.Diff(before, after))
	}
	return out, broken
}

// stage1 runs only the engine, on what a neighbour of a case refers to.
func stage1(s subject) (*v1.VirtualMachineInstance, admit.Verdict) {
	if s.vm != nil {
		return admit.VM(s.vm, nil, s.in)
	}
	explicit, verdict := admit.VMI(s.vmi, s.in)
	if verdict.Allowed() {
		judged := admit.JudgeMade(explicit, s.vmi, s.in)
		verdict.Errors, verdict.Warnings = judged.Errors, append(verdict.Warnings, judged.Warnings...)
	}
	return explicit, verdict
}

func known(vm *v1.VirtualMachine, set instancetype.Set) bool {
	return (vm.Spec.Instancetype == nil || set.Instancetype != nil) && (vm.Spec.Preference == nil || set.Preference != nil)
}

// admitted tries what holds of VMIs that were let in.
func admitted(s subject, explicit *v1.VirtualMachineInstance) (broken findings) {
	if s.vm == nil || known(s.vm, s.in.Set) {
		twice, verdict := admit.VMI(explicit, s.in)
		if !verdict.Allowed() {
			broken.add("admitting twice changes nothing", "refused: %v", verdict.Errors.ToAggregate())
		} else if text(twice) != text(explicit) {
			broken.add("admitting twice changes nothing", "%s", cmp.Diff(text(explicit), text(twice)))
		}
	}
	var after any = explicit
	if s.vm != nil { // as the policy 'expand' writes it
		expanded := s.vm.DeepCopy()
		expanded.Spec.Template.Spec = *explicit.Spec.DeepCopy()
		after = expanded
	}
	if problem := patches(s.raw, s.sent(), after); problem != "" {
		broken.add("the patch applies with v4 and v5 and gives the engine's object", "%s", problem)
	}
	return broken
}

// messages are all errors and warnings that a user reads, in order.
func messages(v admit.Verdict) []string {
	list := slices.Clone(v.Warnings)
	for _, err := range v.Errors {
		list = append(list, err.Error())
	}
	return list
}

// patches applies the patch between two objects with the API server's json-patch and with the strict one.
func patches(raw []byte, before, after any) string {
	patch, err := patch.Write(raw, before, after)
	if err != nil {
		return err.Error()
	}
	if patch == nil {
		patch = []byte("[]")
	}
	four, err := jsonpatch4.DecodePatch(patch)
	if err != nil {
		return err.Error()
	}
	five, err := jsonpatch5.DecodePatch(patch)
	if err != nil {
		return err.Error()
	}
	for _, apply := range []func([]byte) ([]byte, error){four.Apply, five.Apply} {
		out, err := apply(raw)
		if err != nil {
			return fmt.Sprintf("%s: %v", patch, err)
		}
		got := reflect.New(reflect.TypeOf(after).Elem()).Interface()
		if err := unmarshal(out, got); err != nil {
			return fmt.Sprintf("%s: %v", patch, err)
		}
		// Empty and absent are one in JSON, and what the patch was made of has been through it.
		if !equality.Semantic.DeepEqual(got, after) && text(got) != text(after) {
			return fmt.Sprintf("%s gives another object: %s", patch, cmp.Diff(text(after), text(got)))
		}
	}
	return ""
}

// scribble overwrites all that can be reached from a value, so that another value that shares memory with it changes too.
func scribble(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			scribble(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				scribble(v.Field(i))
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			scribble(v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			v.SetMapIndex(key, reflect.Zero(v.Type().Elem()))
		}
	default:
		if v.CanSet() {
			overwrite(v)
		}
	}
}

func overwrite(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "scribbled")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(v.Uint() + 1)
	}
}
