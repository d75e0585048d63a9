package resolve

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/objects"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
)

// TestSuggest: hints name objects only to users who may list them.
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
	const size, preference = "does not exist; the VM cannot start until it does; did you mean 'medium'?", "it does; did you mean 'linux'?"
	for _, test := range []struct {
		why     string
		mayRead func(context.Context, Source) (bool, error)
		hints   bool
	}{
		{"the reader has the rights of the user", nil, true},
		{"who may list", may(true, nil), true},
		{"who may not", may(false, nil), false},
		{"nobody knows", may(true, errors.New("down")), false},
	} {
		answer, err := resolver.VM(t.Context(), guest, nil)
		if err != nil {
			t.Fatal(err)
		}
		resolver.Suggester(test.mayRead).Suggest(t.Context(), &answer)
		messages := strings.Join(answer.Warnings, "\n")
		if strings.Contains(messages, size) != test.hints || strings.Contains(messages, preference) != test.hints || strings.Contains(messages, "mediun") {
			t.Errorf("%s: %s", test.why, messages)
		}
		for _, missing := range answer.Missing {
			if !strings.Contains(messages, missing.Warning) {
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
		{"a VM cannot use an object of another namespace", "", "foreign", ""},
		{"upper case", "", "Wide", "no object can have this name; did you mean 'wide'? A lowercase"},
	} {
		guest := vm(matcher(v1.InstancetypeMatcher{Name: test.name, Kind: strings.ReplaceAll(test.kind, "#", "instancetype")}))
		if test.name != "foreign" {
			guest.Spec.Preference = &v1.PreferenceMatcher{Name: test.name, Kind: strings.ReplaceAll(test.kind, "#", "preference")}
		}
		answer, err := resolver.VM(t.Context(), guest, nil)
		resolver.Suggester(nil).Suggest(t.Context(), &answer)
		messages := strings.Join(answer.Warnings, "\n")
		if err != nil {
			messages += err.Error()
		}
		for _, kind := range []string{"Instancetype", "Preference"} {
			if want := strings.ReplaceAll(test.want, "#", kind); !strings.Contains(messages, want) || (want == "") && strings.Contains(messages, "did you mean") {
				t.Errorf("%s: %s, want %s", test.why, messages, want)
			}
		}
	}
}
