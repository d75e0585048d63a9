package carrier

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
)

// templateOf is a VirtualMachineTemplate of parameters and a template.
func templateOf(parameters, template string) string {
	return fmt.Sprintf("{apiVersion: template.kubevirt.io/v1beta1, kind: VirtualMachineTemplate, metadata: {name: web}, spec: {parameters: %s,\n"+
		"  virtualMachine: %s}}",
		parameters, template)
}

// TestParameters: what virt-template would fill in, and which parameters stay open.
func TestParameters(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		why, parameters, template, want string
		open                            []string
	}{
		{why: "a text", parameters: "[{name: A, value: u1.small}]", template: "{spec: {instancetype: {name: 'x-${A}-${A}'}}}",
			want: `{"spec":{"instancetype":{"name":"x-u1.small-u1.small"}}}`},
		{why: "a number", parameters: "[{name: A, value: '3'}]", template: "{spec: {a: '${{A}}', b: '${A}', c: 'x${{A}}'}}",
			want: `{"spec":{"a":3,"b":"3","c":"x${{A}}"}}`},
		{why: "a large number stays exact", parameters: "[{name: A, value: '9007199254740993'}]", template: "{a: '${{A}}', b: 9007199254740993}",
			want: `{"a":9007199254740993,"b":9007199254740993}`},
		{why: "a list", parameters: "[{name: A, value: '[1, {b: 2}'}, {name: B, value: '[1]'}]", template: "{a: '${{A}}', b: '${{B}}'}",
			want: `{"a":"[1, {b: 2}","b":[1]}`},
		{why: "a key", parameters: "[{name: A, value: k}]", template: "{metadata: {labels: {'${A}': v}}}", want: `{"metadata":{"labels":{"k":"v"}}}`},
		{why: "a value that refers to another parameter is filled in once", parameters: "[{name: A, value: '${B}'}, {name: B, value: '${A}'}]",
			template: "{a: '${A}'}", want: `{"a":"${B}"}`},
		{why: "a generated value", parameters: `[{name: A, generate: expression, from: 'vm-[a-z]{3}[0-9]{2}[\d]{1}'}]`, template: "{a: '${A}'}",
			want: `{"a":"vm-aaa000"}`},
		{why: "a value counts more than its generator", parameters: `[{name: A, value: v, generate: expression, from: '[a-z]{3}'}]`, template: "{a: '${A}'}",
			want: `{"a":"v"}`},
		{why: "a generator of megabytes makes nothing", parameters: `[{name: A, generate: expression, from: '[a-z]{1000000}'}]`, template: "{a: '${A}'}",
			want: `{"a":"${A}"}`, open: []string{"A"}},
		{why: "no value", parameters: "[{name: A, required: true}, {name: B}]", template: "{a: '${A}', b: '${{B}}', c: '${C}'}",
			want: `{"a":"${A}","b":"${{B}}","c":"${C}"}`, open: []string{"A", "B", "C"}},
		{why: "only the name is open", parameters: "[{name: NAME, required: true}]", template: "{metadata: {name: '${NAME}-vm', labels: {a: b}}}",
			want: `{"metadata":{"labels":{"a":"b"}}}`},
		{why: "parameters that are none", parameters: "{name: A}", template: "{a: '${A}'}", want: `{"a":"${A}"}`, open: []string{"A"}},
		{why: "parameters of wrong types", parameters: "[3, {name: [A], value: b}, {name: A, value: {}}]", template: "{a: '${A}'}", want: `{"a":"${A}"}`,
			open: []string{"A"}},
	} {
		object := objectOf(t, templateOf(test.parameters, test.template))
		places, _ := findPlaces(nil, gjson.ParseBytes(object.Raw), []string{"spec", "virtualMachine"}, "")
		raw, open, mistake := readParameters(object.Raw).fillTemplate([]byte(places[0].raw), "spec.virtualMachine")
		if mistake != nil || string(raw) != test.want || cmp.Diff(test.open, open) != "" && len(test.open)+len(open) > 0 {
			t.Errorf("%s: %s, open %q, %v; want %s, %q", test.why, raw, open, mistake, test.want, test.open)
		}
	}
}

// TestParametersAreBounded: values that are repeated do not become more than etcd stores.
func TestParametersAreBounded(t *testing.T) {
	t.Parallel()
	value, references := strings.Repeat("v", 100_000), strings.Repeat("${A}", 10_000)
	guests, err := objectOf(t, templateOf("[{name: A, value: "+value+"}]", "{metadata: {labels: {a: '"+references+"'}}}")).Guests()
	if err != nil || len(guests) != 1 || guests[0].Mistake == nil || !strings.Contains(guests[0].Mistake.Error(), "spec.virtualMachine") {
		t.Fatalf("%v", err)
	}
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	guests, err = objectOf(t, templateOf("[{name: A, value: '"+deep+"'}]", "{spec: {template: '${{A}}'}}")).Guests()
	if err != nil || len(guests) != 1 || guests[0].Mistake == nil {
		t.Fatalf("a value that is nested 5000 levels deep: %+v, %v", guests, err)
	}
}
