package profile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// TestCheck: what the schema does not refuse, and what an object has that no webhook saw.
func TestCheck(t *testing.T) {
	t.Parallel()
	const disk = `{template: {spec: {domain: {devices: {disks: [{name: a}, %s]}}}}}`
	for _, test := range []struct{ why, spec, want string }{
		{"an unknown field", `{priorty: 3}`, `spec.priorty: Forbidden: unknown field: remove it, or correct its name`},
		{"an unknown field of the template", fmt.Sprintf(disk, `{name: b, buss: virtio}`),
			`spec.template.spec.domain.devices.disks[1].buss: Forbidden: unknown field: remove it, or correct its name`},
		{"another case of a name", `{template: {spec: {Domain: {}}}}`, `spec.template.spec.Domain: Forbidden: unknown field: remove it, or correct its name`},
		{"a wrong type in a list", fmt.Sprintf(disk, `{name: b, bootOrder: first}`),
			`spec.template.spec.domain.devices.disks[1].bootOrder: Invalid value: "string": must be of type uint`},
		{"a wrong kind of value", `{template: {spec: {volumes: {}}}}`, `spec.template.spec.volumes: Invalid value: "object": must be of type []v1.Volume`},
		{"a wrong type behind an inlined object", `{template: {spec: {domain: {clock: {utc: {offsetSeconds: x}}}}}}`,
			`spec.template.spec.domain.clock.utc.offsetSeconds: Invalid value: "string": must be of type int`},
		{"no quantity", `{template: {spec: {domain: {resources: {requests: {memory: much}}}}}}`,
			`spec.template.spec.domain.resources.requests[memory]: Invalid value: "much": must be a quantity such as '500M'`},
		{"a quantity that takes hours to parse", `{template: {spec: {domain: {memory: {guest: "1e-1000000000"}}}}}`,
			`spec.template.spec.domain.memory.guest: Invalid value: "1e-1000000000": must be a quantity`},
		{"a selector", `{selector: {matchExpressions: [{key: a, operator: Is}]}}`, `spec.selector: Forbidden: "Is" is not a valid label selector operator`},
		{"an operator without values", `{selector: {matchExpressions: [{key: a, operator: In}]}}`, `spec.selector: Forbidden: `},
		{"the priority", `{priority: 2000000000}`, `spec.priority: Invalid value: 2000000000: must be between -1000000000 and 1000000000, inclusive`},
		{"a field of the cluster's kind", `{namespaceSelector: {}}`, `spec.namespaceSelector: Forbidden: unknown field: remove it, or correct its name`},
		{"the kind of a base", `{extends: [{name: a, kind: Other}]}`,
			`spec.extends[0].kind: Unsupported value: "Other": supported values: "GuestProfile", "ClusterGuestProfile"`},
		{"a base without a name", `{extends: [{}]}`, `spec.extends[0].name: Required value`},
		{"an element without a name", fmt.Sprintf(disk, `{cache: none}`), `spec.template.spec.domain.devices.disks[1]: Required value: must have a name`},
		{"two elements of one name", fmt.Sprintf(disk, `{name: a}`), `spec.template.spec.domain.devices.disks[1]: Duplicate value: "a"`},
		{"two members of a choice", `{template: {spec: {volumes: [{name: a, emptyDisk: {capacity: 1Gi}, containerDisk: {image: i}}]}}}`,
			`spec.template.spec.volumes[0]: Invalid value: "containerDisk, emptyDisk": may have one of them`},
		{"a record of admission", `{template: {metadata: {annotations: {kilnvm.io/pins: "{}"}}}}`,
			`spec.template.metadata.annotations[kilnvm.io/pins]: Forbidden: records or controls`},
		{"a control of admission", `{template: {metadata: {annotations: {virtualmachineinstancepresets.admission.kubevirt.io/exclude: "true"}}}}`,
			`spec.template.metadata.annotations[virtualmachineinstancepresets.admission.kubevirt.io/exclude]: Forbidden: records or controls`},
		{"a label of controllers", `{template: {metadata: {labels: {kubevirt.io/nodeName: node}}}}`,
			`spec.template.metadata.labels[kubevirt.io/nodeName]: Forbidden: records or controls`},
		{"an invalid label", `{template: {metadata: {labels: {a b: c}}}}`, `spec.template.metadata.labels[a b]: Invalid value: "a b": name part must`},
		{"the value of a label", `{template: {metadata: {labels: {a: b c}}}}`, `spec.template.metadata.labels[a]: Invalid value: "a": a valid label must`},
		{"an invalid annotation", `{template: {metadata: {annotations: {a b: c}}}}`,
			`spec.template.metadata.annotations[a b]: Invalid value: "a b": name part must`},
		{"the record of a preset", `{template: {metadata: {annotations: {virtualmachinepreset.kubevirt.io/a: v}}}}`,
			`spec.template.metadata.annotations[virtualmachinepreset.kubevirt.io/a]: Forbidden: records or controls`},
		{"a kind in lower case", `{extends: [{kind: guestprofile, name: a}]}`,
			`spec.extends[0].kind: Unsupported value: "guestprofile": supported values: "GuestProfile", "ClusterGuestProfile"; did you mean 'GuestProfile'?`},
		{"a base that cannot be", `{extends: [{name: A}]}`, `spec.extends[0].name: Invalid value: "A": no object can have this name: a lowercase RFC 1123 subdomain`},
		{"deep nesting", `{template: {spec: ` + strings.Repeat(`{a: `, 80) + `1` + strings.Repeat(`}`, 80) + `}}`, `must not be nested more than 64 levels deep`},
		{"more than a review may cost", `{template: {metadata: {annotations: {a: ` + strings.Repeat("x", 64<<10) + `}}}}`,
			`spec: Too long: may not be more than 65536 bytes`},
		{"a long list", fmt.Sprintf(disk, strings.Repeat("{},", 600)+"{}"), `spec.template.spec.domain.devices.disks: Too many: has 602 elements`},
		{"a number outside the field's range", `{template: {spec: {domain: {cpu: {cores: -1}}}}}`,
			`spec.template.spec.domain.cpu.cores: Invalid value: "number -1": must be of type uint32`},
	} {
		raw, err := yaml.YAMLToJSON([]byte("{apiVersion: kilnvm.io/v1alpha1, kind: GuestProfile, metadata: {name: p}, spec: " + test.spec + "}"))
		if err != nil {
			t.Fatal(test.why, err)
		}
		start := time.Now()
		p, errs := Check("", raw)
		if p != nil || len(errs) != 1 || !strings.Contains(errs[0].Error(), test.want) {
			t.Errorf("%s: %v\nwant %s", test.why, errs, test.want)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("%s: took %s", test.why, took)
		}
	}
}

// TestCheckObject: what is no profile at all.
func TestCheckObject(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		data string
		want []string
	}{
		{``, []string{""}},
		{`[]`, []string{""}},
		{`{"spec":3,"apiVersion":"kilnvm.io/v1alpha1","kind":"GuestProfile","metadata":{"name":"p"}}`, []string{"spec"}},
		{`{}`, []string{"apiVersion", "kind", "metadata.name"}},
		{`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}`, []string{"apiVersion", "kind"}},
		{`{"apiVersion":"kilnvm.io/v1alpha1","kind":"GuestProfile","metadata":{"name":3}}`, []string{"metadata.name"}},
	} {
		p, errs := Check("", []byte(test.data))
		var paths []string
		for _, err := range errs {
			paths = append(paths, strings.TrimSuffix(err.Field, "<nil>"))
		}
		if p != nil || !slices.Equal(paths, test.want) {
			t.Errorf("%s: %v", test.data, errs)
		}
	}
	p := readKind(t, "ClusterGuestProfile", "p", "{namespaceSelector: {matchLabels: {a: b}}}")
	if p.InNamespace(nil) || !p.InNamespace(map[string]string{"a": "b"}) || p.Selects(vmiOf(t, "{}")) {
		t.Error("namespaces and VMIs are selected by labels; a profile without a selector selects no VMI")
	}
}

// TestMistakesAreBounded: an error quotes no more than the beginning of what somebody wrote.
func TestMistakesAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 48<<10) // below the size of a spec
	for _, spec := range []string{`{? ` + long + ` : 1}`, `{priority: ` + long + `}`, `{template: {spec: {domain: {memory: {guest: ` + long + `}}}}}`,
		`{selector: {matchLabels: {a: ` + long + `}}}`, `{extends: [{name: a, kind: ` + long + `}]}`,
		`{template: {spec: {domain: {resources: {requests: {? ` + long + ` : x}}}}}}`} {
		raw, err := yaml.YAMLToJSON([]byte("{apiVersion: kilnvm.io/v1alpha1, kind: GuestProfile, metadata: {name: p}, spec: " + spec + "}"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Read("", raw); err == nil || len(err.Error()) > 8<<10 {
			t.Errorf("%.40s: an error of %d bytes", spec, len(fmt.Sprint(err)))
		}
	}
}
