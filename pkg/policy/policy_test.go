package policy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/policy"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/yaml"
)

// read returns the policy of a manifest's spec.
func read(t testing.TB, name, spec string) *v1alpha1.GuestPolicy {
	t.Helper()
	p := &v1alpha1.GuestPolicy{}
	p.Name = name
	if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
		t.Fatal(err)
	}
	return p
}

// compile returns a policy that must compile.
func compile(t testing.TB, name, spec string) *policy.Policy {
	t.Helper()
	p, errs := policy.Compile(read(t, name, spec))
	if len(errs) > 0 {
		t.Fatalf("%s does not compile: %v", name, errs)
	}
	return p
}

// small is a VM with instancetype u1.small, and the guest that boots.
func small() *policy.Request {
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", Labels: map[string]string{"app": "web"}}}
	vm.Spec.Instancetype = &v1.InstancetypeMatcher{Name: "u1.small", Kind: "VirtualMachineClusterInstancetype"}
	vm.Spec.Template = &v1.VirtualMachineInstanceTemplateSpec{}
	vm.Spec.Template.Spec.Domain.Devices.Disks = []v1.Disk{{Name: "root"}, {Name: "data"}}
	guest := &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"}, Spec: *vm.Spec.Template.Spec.DeepCopy()}
	memory := resource.MustParse("2Gi")
	guest.Spec.Domain.CPU = &v1.CPU{Sockets: 1, Cores: 2, Threads: 1}
	guest.Spec.Domain.Memory = &v1.Memory{Guest: &memory}
	instancetype := &v1beta1.VirtualMachineInstancetype{ObjectMeta: metav1.ObjectMeta{Name: "u1.small"}}
	instancetype.Spec.CPU.Guest, instancetype.Spec.Memory.Guest = 2, memory
	return &policy.Request{
		Operation: v1alpha1.PolicyCreate, Resource: v1alpha1.PolicyVirtualMachines, Object: vm, Guest: guest, Instancetype: instancetype,
		Namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "shop"}}},
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		why, spec string
		errors    []string
		warnings  []string
	}{
		{"a validation that is true", "{validations: [{expression: 'has(object.metadata.labels.app)'}]}", nil, nil},
		{"the message of its author at the field of the cause",
			`{matchConstraints: {resources: [virtualmachines]},
			  validations: [{expression: 'object.spec.instancetype.name.startsWith("c1.")', message: use c1, field: spec.instancetype}]}`,
			[]string{"spec.instancetype: Forbidden: GuestPolicy 'test': use c1"}, nil},
		{"the field of a VMI stands for the field of the template",
			`{validations: [{expression: 'guest.spec.domain.cpu.cores < 2', messageExpression: '"has " + string(guest.spec.domain.cpu.cores) + " cores"',
			  reason: Forbidden, field: spec.domain.cpu.cores}]}`,
			[]string{"spec.template.spec.domain.cpu: Forbidden: GuestPolicy 'test': has 2 cores"}, nil},
		{"an element that exists", "{validations: [{expression: 'false', message: disk, field: 'spec.domain.devices.disks[1].name'}]}",
			[]string{"spec.template.spec.domain.devices.disks[1].name: Invalid value: \"data\": GuestPolicy 'test': disk"}, nil},
		{"an element that does not", "{validations: [{expression: 'false', message: disk, field: 'spec.domain.devices.disks[2].name'}]}",
			[]string{"spec.template.spec.domain.devices.disks: Forbidden: GuestPolicy 'test': disk"}, nil},
		{"a label that is missing", "{validations: [{expression: 'false', message: team, field: 'metadata.labels[example.org/team]'}]}",
			[]string{"metadata.labels[example.org/team]: Forbidden: GuestPolicy 'test': team"}, nil},
		{"a field that only a VM has", "{validations: [{expression: 'false', message: it, field: spec.instancetype.name}]}",
			[]string{"spec.instancetype.name: Invalid value: \"u1.small\": GuestPolicy 'test': it"}, nil},
		{"without a message, the expression", "{validations: [{expression: 'size(object.metadata.name) > 5'}], validationActions: [Warn]}", nil,
			[]string{"GuestPolicy 'test': failed expression: size(object.metadata.name) > 5"}},
		{"a quantity is a text", `{validations: [{expression: 'quantity(guest.spec.domain.memory.guest).isLessThan(quantity("1Gi"))', message: large}]}`,
			[]string{"spec: Forbidden: GuestPolicy 'test': large"}, nil},
		{"variables are computed when they are used", `{variables: [{name: disks, expression: 'guest.spec.domain.devices.disks'},
			  {name: names, expression: 'variables.disks.map(d, d.name)'}, {name: fails, expression: '1/0 == 1'}],
			  validations: [{expression: '!("data" in variables.names)', messageExpression: 'variables.names.join(", ")'}]}`,
			[]string{"spec: Forbidden: GuestPolicy 'test': root, data"}, nil},
		{"a condition that is false", `{matchConditions: [{name: other, expression: 'request.namespace != "shop"'}],
			validations: [{expression: 'false'}]}`, nil, nil},
		{"the namespace", `{validations: [{expression: 'namespaceObject.metadata.labels.team == "other"', message: team}]}`,
			[]string{"spec: Forbidden: GuestPolicy 'test': team"}, nil},
		{"null without an object", `{validations: [{expression: 'preference == null && oldObject == null && instancetype.spec.cpu.guest == 3', message: ''}]}`,
			[]string{"spec: Forbidden: GuestPolicy 'test': failed expression: preference == null && oldObject == null && instancetype.spec.cpu.guest == 3"}, nil},
		{"an expression that fails refuses", `{validations: [{expression: 'object.metadata.labels.none == ""'}]}`,
			[]string{"spec: Forbidden: GuestPolicy 'test' failed: spec.validations[0].expression: no such key: none"}, nil},
		{"or warns", `{failurePolicy: Ignore, validations: [{expression: 'object.metadata.labels.none == ""'}]}`, nil,
			[]string{"GuestPolicy 'test' failed: spec.validations[0].expression: no such key: none"}},
		{"another namespace", `{matchConstraints: {namespaceSelector: {matchLabels: {team: other}}}, validations: [{expression: 'false'}]}`, nil, nil},
	} {
		result := policy.Judge(nil, []*policy.Policy{compile(t, "test", test.spec)}, small())
		var errors []string
		for _, err := range result.Errors {
			errors = append(errors, err.Error())
		}
		if diff := cmp.Diff(test.errors, errors); diff != "" {
			t.Errorf("%s: errors (-want +got):\n%s", test.why, diff)
		}
		if diff := cmp.Diff(test.warnings, result.Warnings); diff != "" {
			t.Errorf("%s: warnings (-want +got):\n%s", test.why, diff)
		}
	}
}

func TestCompileErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ why, spec, at, text string }{
		{"a field that does not exist", `{validations: [{expression: "true &&\n  object.spec.coress == 1"}]}`, "spec.validations[0].expression",
			"2:14: undefined field 'coress'"},
		{"a field that does not exist, of a variable", `{variables: [{name: disks, expression: guest.spec.domain.devices.disks}],
			validations: [{expression: 'variables.disks[0].nome == ""'}]}`, "spec.validations[0].expression", "1:19: undefined field 'nome'"},
		{"a variable before it is defined", `{variables: [{name: a, expression: variables.b}, {name: b, expression: '1'}], validations: [{expression: 'true'}]}`,
			"spec.variables[0].expression", "undefined field 'b'"},
		{"a field that only a VM has", `{validations: [{expression: 'has(object.spec.instancetype)'}]}`, "spec.validations[0].expression",
			"undefined field 'instancetype' (of virtualmachineinstances)"},
		{"not a bool", `{validations: [{expression: 'object.metadata.name'}]}`, "spec.validations[0].expression", "must evaluate to bool, and evaluates to string"},
		{"not a text", `{validations: [{expression: 'true', messageExpression: '1'}]}`, "spec.validations[0].messageExpression", "must evaluate to string"},
		{"no expression", `{validations: [{expression: 'true &&'}]}`, "spec.validations[0].expression", "Syntax error"},
		{"a field of no resource", `{validations: [{expression: 'true', field: spec.domain.cpu.coress}]}`, "spec.validations[0].field",
			"must be the path of a field"},
		{"a quantity is no number", `{validations: [{expression: 'guest.spec.domain.memory.guest > 5'}]}`, "spec.validations[0].expression", "no matching overload"},
		{"no variables in conditions", `{matchConditions: [{name: a, expression: variables.a}], variables: [{name: a, expression: 'true'}],
			validations: [{expression: 'true'}]}`,
			"spec.matchConditions[0].expression", "undeclared reference to 'variables'"},
	} {
		_, errs := policy.Compile(read(t, "test", test.spec))
		if len(errs) != 1 || errs[0].Field != test.at || !strings.Contains(errs[0].Detail, test.text) {
			t.Errorf("%s: %v, want at %s: %s", test.why, errs, test.at, test.text)
		}
	}
}
