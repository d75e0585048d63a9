package resolve

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/objects"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
)

func TestNearest(t *testing.T) {
	published := strings.Fields("u1.nano u1.micro u1.small u1.medium u1.large cx1.medium")
	for _, test := range []struct{ why, meant, want string }{
		{"a letter is missing", "u1.smal", "u1.small"},
		{"two letters change places", "u1.smlal", "u1.small"},
		{"a dash for a dot", "u1-medium", "u1.medium"},
		{"nothing resembles it", "windows", ""},
		{"nothing is meant", "", ""},
		{"another letter", "u1.naro", "u1.nano"},
		{"too long to be typed", strings.Repeat("u", longestMeant+1), ""},
		{"upper case alone", "U1.Medium", "u1.medium"},
		{"upper case and another letter", "CX1.Mediun", "cx1.medium"},
		{"a tie goes to the longest common beginning, not to the alphabet", "u1.xedium", "u1.medium"},
	} {
		if got := Nearest(test.meant, published); got != test.want {
			t.Errorf("%s: '%s' for '%s', want '%s'", test.why, got, test.meant, test.want)
		}
	}
	if got := Nearest("u1.medium", []string{"d1.medium", "u1.mediun", "u1.mediu"}); got != "u1.mediun" {
		t.Errorf("a tie went to '%s': the beginning and the length are those of 'u1.mediun'", got)
	}
	many := make([]string, 100_000)
	for i := range many {
		many[i] = fmt.Sprintf("%063d", i)
	}
	if got := Nearest(many[0][1:]+"x", many); got == "" {
		t.Error("a tenant's hundred thousand objects hide each other")
	}
}

// TestSuggest: names are shown to those who may list them.
func TestSuggest(t *testing.T) {
	named := func(kind, namespace, name string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": kind, "metadata": map[string]any{"name": name, "namespace": namespace}, "spec": map[string]any{}}}
	}
	resolver := Resolver{Cached: objects.New(scheme(t),
		named("VirtualMachineInstancetype", namespace, "medium"), named("VirtualMachineInstancetype", "other", "mediun"),
		named("VirtualMachineClusterPreference", "", "linux"))}
	guest := vm(matcher(v1.InstancetypeMatcher{Name: "mediu", Kind: "virtualmachineinstancetype"}))
	guest.Spec.Preference = &v1.PreferenceMatcher{Name: "linx"}
	var asked []string
	may := func(allowed bool, err error) func(context.Context, Source) (bool, error) {
		return func(_ context.Context, s Source) (bool, error) {
			group, _, resource, in, name := s.Attributes()
			asked = append(asked, strings.Join([]string{s.Verb(), group, resource, in, name}, " "))
			return allowed, err
		}
	}
	const size, preference = "did you mean 'medium'?", "did you mean 'linux'?"
	for _, test := range []struct {
		why     string
		mayRead func(context.Context, Source) (bool, error)
		hints   bool
	}{
		{"the reader has the rights of whoever asks", nil, true},
		{"who may list", may(true, nil), true},
		{"who may not", may(false, nil), false},
		{"nobody knows", may(true, errors.New("down")), false},
	} {
		answer, err := resolver.VM(t.Context(), guest, nil)
		if err != nil {
			t.Fatal(err)
		}
		resolver.Suggest(t.Context(), &answer, test.mayRead)
		said := strings.Join(answer.Warnings, "\n")
		if strings.Contains(said, size) != test.hints || strings.Contains(said, preference) != test.hints || strings.Contains(said, "mediun") {
			t.Errorf("%s: %s", test.why, said)
		}
		for _, missing := range answer.Missing {
			if !strings.Contains(said, missing.Warning) {
				t.Errorf("%s: warning '%s' is not among them", test.why, missing.Warning)
			}
		}
	}
	const want = "list instancetype.kubevirt.io virtualmachineinstancetypes " + namespace + " "
	if len(asked) == 0 || asked[0] != want {
		t.Errorf("asked %q, want '%s' first", asked, want)
	}
}

// TestSuggestKind: the name is right, and the kind is not.
func TestSuggestKind(t *testing.T) {
	named := func(kind, namespace, name string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": kind, "metadata": map[string]any{"name": name, "namespace": namespace}, "spec": map[string]any{}}}
	}
	resolver := Resolver{Cached: objects.New(scheme(t),
		named("VirtualMachineInstancetype", namespace, "own"), named("VirtualMachineInstancetype", "other", "foreign"),
		named("VirtualMachineClusterInstancetype", "", "owns"), named("VirtualMachineClusterInstancetype", "", "wide"),
		named("VirtualMachinePreference", namespace, "own"), named("VirtualMachineClusterPreference", "", "wide"))}
	for _, test := range []struct{ why, kind, name, want string }{
		{"no kind, and the object is of the namespace", "", "own", "did you mean kind 'VirtualMachine#'?"},
		{"a kind, and the object is the cluster's", "virtualmachine#", "wide", "did you mean kind 'VirtualMachineCluster#'?"},
		{"an object of another namespace is none of this VM's", "", "foreign", ""},
		{"upper case", "", "Wide", "did you mean 'wide'? no object can have this name"},
	} {
		guest := vm(matcher(v1.InstancetypeMatcher{Name: test.name, Kind: strings.ReplaceAll(test.kind, "#", "instancetype")}))
		if test.name != "foreign" {
			guest.Spec.Preference = &v1.PreferenceMatcher{Name: test.name, Kind: strings.ReplaceAll(test.kind, "#", "preference")}
		}
		answer, err := resolver.VM(t.Context(), guest, nil)
		resolver.Suggest(t.Context(), &answer, nil)
		said := strings.Join(answer.Warnings, "\n")
		if err != nil {
			said += err.Error()
		}
		for _, kind := range []string{"Instancetype", "Preference"} {
			if want := strings.ReplaceAll(test.want, "#", kind); !strings.Contains(said, want) || (want == "") && strings.Contains(said, "did you mean") {
				t.Errorf("%s: said %s, want %s", test.why, said, want)
			}
		}
	}
}
