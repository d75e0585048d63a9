package admission

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/enforcement"
	"github.com/kilnvm/kiln/pkg/carrier"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/policy"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/yaml"
)

const (
	// onlySmall and onlyGold are policies about VMs, oneCore about VMIs and what boots of VMs.
	onlySmall = `{metadata: {name: only-small}, spec: {matchConstraints: {resources: [virtualmachines], operations: [CREATE]}, validations: [{
  field: spec.instancetype,
  expression: "object.spec.?instancetype.?name.orValue('') in ['small', '']", messageExpression: "request.requestKind.kind + ' ' + request.name + ' makes ' +
  request.kind.kind + ' ' + object.metadata.name + ' of ' + object.metadata.namespace + ', not small'"}]}}`
	onlyGold = `{metadata: {name: only-gold}, spec: {matchConstraints: {resources: [virtualmachines]}, validations: [{field: metadata.labels,
  expression: "object.metadata.?labels.?tier.orValue('') == 'gold'", message: not gold}]}}`
	oneCore = `{metadata: {name: one-core}, spec: {matchConstraints: {}, validations: [{field: spec.domain.cpu.cores,
  expression: "guest == null || guest.spec.domain.cpu.cores <= 1", message: one core}]}}`

	poolText = `{apiVersion: pool.kubevirt.io/v1beta1, kind: VirtualMachinePool, metadata: {name: web, namespace: team}, spec: {replicas: 3,
  selector: {matchLabels: {a: b}}, virtualMachineTemplate: {metadata: {labels: {a: b}}, spec: {runStrategy: Always, instancetype: {name: small},
  template: {metadata: {labels: {a: b}}, spec: {domain: {devices: {}}}}}}}}`
	replicaText = `{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstanceReplicaSet, metadata: {name: web, namespace: team}, spec: {replicas: 3,
  selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {domain: {cpu: {cores: 1}, memory: {guest: 1Gi}, devices: {}}}}}}`
	templateText = `{apiVersion: template.kubevirt.io/v1beta1, kind: VirtualMachineTemplate, metadata: {name: web, namespace: team}, spec: {parameters: [
  {name: NAME, required: true}, {name: SIZE, value: small}], virtualMachine: {metadata: {name: '${NAME}'}, spec: {runStrategy: Always,
  instancetype: {name: '${SIZE}'}, template: {spec: {domain: {devices: {}}}}}}}}`
	machineTemplate = `{apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1, kind: KubevirtMachineTemplate, metadata: {name: web, namespace: team}, spec: {
  template: {spec: {virtualMachineTemplate: {metadata: {}, spec: {runStrategy: Always, instancetype: {name: small},
  template: {spec: {domain: {devices: {}}}}}}}}}}`
	machineText = `{apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1, kind: KubevirtMachine, metadata: {name: web, namespace: team}, spec: {
  virtualMachineTemplate: {metadata: {}, spec: {runStrategy: Always, instancetype: {name: small}, template: {spec: {domain: {devices: {}}}}}}}}`
	stackText = `{apiVersion: example.org/v1, kind: Stack, metadata: {name: web, namespace: team}, spec: {note: a, machines: [{vm: {metadata: {name: one}, spec: {
  runStrategy: Always, instancetype: {name: small}, template: {spec: {domain: {devices: {}}}}}}}, {vm: {spec: {
  runStrategy: Always, instancetype: {name: small}, template: {spec: {domain: {devices: {}}}}}}}]}}`
)

// withPolicies is a cluster with an instancetype of one core, another of two, a kind of the administrator, and policies.
func withPolicies(t *testing.T, texts ...string) *cluster {
	t.Helper()
	c := newCluster(t, strings.Replace(catalog, "guest: 2}", "guest: 1}", 1), strings.Replace(strings.Replace(catalog, "small, uid: u", "big, uid: b", 1),
		"guest: 2}", "guest: 2}", 1), "{apiVersion: v1, kind: Namespace, metadata: {name: team}}")
	kinds, err := carrier.ParseKinds([]string{"Stack.example.org=virtualmachines:spec.machines[*].vm"})
	if err != nil {
		t.Fatal(err)
	}
	var all []*policy.Policy
	for _, text := range texts {
		written := &v1alpha1.GuestPolicy{}
		if err := yaml.UnmarshalStrict([]byte(text), written); err != nil {
			t.Fatal(err)
		}
		compiled, mistakes := policy.Compile(written)
		if len(mistakes) > 0 {
			t.Fatal(mistakes)
		}
		all = append(all, compiled)
	}
	c.Carriers, c.Reviewer.Policies = kinds, func() ([]*policy.Policy, error) { return all, nil }
	return c
}

// causesOf are the causes of a refusal, or 'allowed'.
func causesOf(response *admissionv1.AdmissionResponse) string {
	if response.Allowed {
		return "allowed"
	}
	var all []string
	for _, cause := range response.Result.Details.Causes {
		all = append(all, cause.Field+": "+cause.Message)
	}
	return strings.Join(all, "\n")
}

// TestPoliciesOfCarriers: each kind that carries VMs is refused for its template at the path of the template, and admitted with the nearest legal one.
func TestPoliciesOfCarriers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ why, object, from, to, want string }{
		{"a pool", poolText, "{name: small}", "{name: big}",
			"spec.virtualMachineTemplate.spec.instancetype: Forbidden: GuestPolicy 'only-small': VirtualMachinePool web makes VirtualMachine web-0 of team, not small"},
		{"what boots of a pool", poolText, "instancetype: {name: small},\n  template: {metadata: {labels: {a: b}}, spec: {domain: {",
			"template: {metadata: {labels: {a: b}}, spec: {domain: {cpu: {cores: 2}, memory: {guest: 1Gi}, ",
			"spec.virtualMachineTemplate.spec.template.spec.domain.cpu.cores: Invalid value: 2: GuestPolicy 'one-core': one core"},
		{"a replica set", replicaText, "cores: 1", "cores: 2", "spec.template.spec.domain.cpu.cores: Invalid value: 2: GuestPolicy 'one-core': one core"},
		{"the default of a template", templateText, "value: small", "value: big", "spec.virtualMachine.spec.instancetype: Forbidden: GuestPolicy 'only-small': " +
			"VirtualMachineTemplate web makes VirtualMachine web of team, not small"},
		{"a template of machines", machineTemplate, "{name: small}", "{name: big}", "spec.template.spec.virtualMachineTemplate.spec.instancetype: Forbidden: " +
			"GuestPolicy 'only-small': KubevirtMachineTemplate web makes VirtualMachine web-xxxxx of team, not small"},
		{"a machine", machineText, "{name: small}", "{name: big}", "spec.virtualMachineTemplate.spec.instancetype: Forbidden: GuestPolicy 'only-small': " +
			"KubevirtMachine web makes VirtualMachine web of team, not small"},
		{"the second of a list", stackText, "{vm: {spec: {\n  runStrategy: Always, instancetype: {name: small}",
			"{vm: {spec: {runStrategy: Always, instancetype: {name: big}",
			"spec.machines[1].vm.spec.instancetype: Forbidden: GuestPolicy 'only-small': Stack web makes VirtualMachine web of team, not small"},
	} {
		c := withPolicies(t, onlySmall, oneCore)
		if response := ask(t, c.Hooks()[ValidateCarrier], create(t, test.object)); causesOf(response) != "allowed" || len(response.Warnings) > 0 {
			t.Errorf("%s, legal: %s, warnings %q", test.why, causesOf(response), response.Warnings)
		}
		if !strings.Contains(test.object, test.from) {
			t.Fatalf("%s: nothing to change", test.why)
		}
		illegal := strings.Replace(test.object, test.from, test.to, 1)
		if got := causesOf(ask(t, c.Hooks()[ValidateCarrier], create(t, illegal))); !strings.Contains(got, test.want) {
			t.Errorf("%s: %s, want %s", test.why, got, test.want)
		}
		dry := create(t, illegal)
		dry.DryRun = new(true)
		if got := causesOf(ask(t, c.Hooks()[ValidateCarrier], dry)); !strings.Contains(got, test.want) {
			t.Errorf("%s: a dry run: %s", test.why, got)
		}
	}
}

// TestMistakesOfCarriers: mistakes by Kiln's rules are warnings at the paths of the template, because the owner of the kind may admit them.
func TestMistakesOfCarriers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ why, object, from, to, want string }{
		{"a conflict with the instancetype", poolText, "domain: {devices: {}}", "domain: {cpu: {cores: 3}, devices: {}}",
			"what is made of this would be refused: spec.virtualMachineTemplate.spec.template.spec.domain.cpu"},
		{"a rule", replicaText, "devices: {}", "devices: {disks: [{name: a}]}", "what is made of this would be refused: spec.template.spec.domain.devices.disks[0]"},
		{"an instancetype that does not exist", poolText, "{name: small}", "{name: gone}",
			"spec.virtualMachineTemplate: VirtualMachineClusterInstancetype 'gone' does not exist"},
		{"a value of a wrong type", templateText, "devices: {}", "devices: {disks: 3}",
			"nothing can be made of this template, and it is not judged: spec.virtualMachine.spec.template.spec.domain.devices.disks"},
		{"metadata that is dropped", poolText, "template: {metadata: {labels", "template: {metadata: {label: x, labels",
			"spec.virtualMachineTemplate.spec.template.metadata.label"},
	} {
		if !strings.Contains(test.object, test.from) {
			t.Fatalf("%s: nothing to change", test.why)
		}
		response := ask(t, withPolicies(t, onlySmall).Hooks()[ValidateCarrier], create(t, strings.Replace(test.object, test.from, test.to, 1)))
		if test.why == "an instancetype that does not exist" {
			response = ask(t, withPolicies(t).Hooks()[ValidateCarrier], create(t, strings.Replace(test.object, test.from, test.to, 1)))
		}
		if !response.Allowed || !strings.Contains(strings.Join(response.Warnings, "\n"), test.want) {
			t.Errorf("%s: %s, %q, want '%s'", test.why, causesOf(response), response.Warnings, test.want)
		}
	}
	many := strings.Replace(replicaText, "devices: {}", "devices: {disks: [{name: a}, {name: b}, {name: c}, {name: d}, {name: e}, {name: f}, {name: g}]}", 1)
	if response := ask(t, withPolicies(t).Hooks()[ValidateCarrier], create(t, many)); !response.Allowed || len(response.Warnings) > 7 {
		t.Errorf("seven mistakes: %s, %q", causesOf(response), response.Warnings)
	}
}

// TestUpdatesOfCarriers: an update is refused for what it changes, and not for what the template violated before.
func TestUpdatesOfCarriers(t *testing.T) {
	t.Parallel()
	const allowed = "allowed"
	big := strings.Replace(poolText, "{name: small}", "{name: big}", 1)
	for _, test := range []struct{ why, before, from, to, want, warns string }{
		{"replicas of a pool with an old violation", big, "replicas: 3", "replicas: 4", allowed, ""},
		{"a label of the pool itself", big, "name: web, namespace", "labels: {x: z}, name: web, namespace", allowed, ""},
		{"what does not boot", big, "runStrategy: Always", "runStrategy: Halted", allowed, "admitted: violated before"},
		{"a label that no violated policy reads", big, "{metadata: {labels: {a: b}}, spec: {runS", "{metadata: {labels: {a: c}}, spec: {runS", allowed,
			"admitted: violated before"},
		{"a label that a violated policy reads", big, "{metadata: {labels: {a: b}}, spec: {runS", "{metadata: {labels: {tier: iron}}, spec: {runS", "only-gold", ""},
		{"what boots", big, "devices: {}", "devices: {rng: {}}", "only-small", ""},
		{"another violation", poolText, "{name: small}", "{name: big}", "only-small", ""},
		{"the parameters of a template", templateText, "value: small", "value: big", "only-small", ""},
		{"a description of a parameter", strings.Replace(templateText, "value: small", "value: big", 1), "value: big", "value: big, description: d", allowed, ""},
		{"a note of a stack", strings.Replace(stackText, "{name: small}", "{name: big}", 1), "note: a", "note: b", allowed, ""},
		{"an element before one with an old violation", strings.Replace(stackText, "{name: small}", "{name: big}", 1), "machines: [",
			"machines: [{vm: {metadata: {labels: {tier: gold}}, spec: {runStrategy: Always, instancetype: {name: small}, template: {spec: {domain: {devices: {}}}}}}}, ",
			allowed, ""},
	} {
		if !strings.Contains(test.before, test.from) {
			t.Fatalf("%s: nothing to change", test.why)
		}
		response := ask(t, withPolicies(t, onlySmall, onlyGold).Hooks()[ValidateCarrier], update(t, test.before, strings.Replace(test.before, test.from, test.to, 1)))
		if got := causesOf(response); !strings.Contains(got, test.want) || !strings.Contains(strings.Join(response.Warnings, "\n"), test.warns) ||
			test.want == allowed && test.warns == "" && len(response.Warnings) > 0 {
			t.Errorf("%s: %s, %q", test.why, got, response.Warnings)
		}
	}
	deleted := strings.Replace(big, "name: web,", "name: web, deletionTimestamp: '2026-01-01T00:00:00Z',", 1)
	changed := update(t, deleted, strings.Replace(deleted, "big", "small", 1))
	if got := causesOf(ask(t, withPolicies(t, onlyGold).Hooks()[ValidateCarrier], changed)); got != allowed {
		t.Errorf("a pool that is being deleted: %s", got)
	}
	status := update(t, big, strings.Replace(big, "small", "big", 1))
	status.SubResource = "status"
	if got := causesOf(ask(t, withPolicies(t, onlySmall).Hooks()[ValidateCarrier], status)); got != allowed {
		t.Errorf("a status: %s", got)
	}
}

// TestOpenParameters: where a parameter without a value decides, the template is admitted with a warning. The name alone decides nothing.
func TestOpenParameters(t *testing.T) {
	t.Parallel()
	c := withPolicies(t, onlySmall)
	open := strings.Replace(templateText, "{name: SIZE, value: small}", "{name: SIZE}", 1)
	response := ask(t, c.Hooks()[ValidateCarrier], create(t, open))
	if !response.Allowed || !strings.Contains(strings.Join(response.Warnings, "\n"), "admitted: parameter SIZE has no value") {
		t.Errorf("%s, %q", causesOf(response), response.Warnings)
	}
}

// TestAttacksOfCarriers: what a tenant may try with a carrier. None hides what is made of it.
func TestAttacksOfCarriers(t *testing.T) {
	t.Parallel()
	const want = "GuestPolicy 'only-small'"
	big := strings.Replace(poolText, "{name: small}", "{name: big}", 1)
	for why, object := range map[string]string{
		"the template claims another namespace": strings.Replace(big, "{metadata: {labels", "{metadata: {namespace: other, labels", 1),
		"the template claims pins of a legal instancetype": strings.Replace(big, "{metadata: {labels",
			`{metadata: {annotations: {kilnvm.io/pins: '{"instancetype":"small-1"}'}, labels`, 1),
		"the template claims to be deleted": strings.Replace(big, "{metadata: {labels", "{metadata: {deletionTimestamp: '2026-01-01T00:00:00Z', labels", 1),
		"the pool claims to be deleted":     strings.Replace(big, "name: web,", "name: web, deletionTimestamp: '2026-01-01T00:00:00Z',", 1),
		"the pool has no name yet":          strings.Replace(big, "name: web,", "generateName: web-,", 1),
		"the pool makes nothing yet":        strings.Replace(big, "replicas: 3", "replicas: 0", 1),
		"the pool is paused":                strings.Replace(big, "replicas: 3", "paused: true", 1),
		"an older version of the API":       strings.Replace(big, "v1beta1", "v1alpha1", 1),
		"the template is of another kind": strings.Replace(strings.Replace(templateText, "value: small", "value: big", 1),
			"{metadata: {name", "{kind: Pod, metadata: {name", 1),
		"the size in two parameters": strings.Replace(strings.Replace(templateText, "{name: SIZE, value: small}", "{name: SIZE, value: bi}, {name: G, value: g}", 1),
			"${SIZE}", "${SIZE}${G}", 1),
		"the size as a value of JSON": strings.Replace(strings.Replace(templateText, "value: small", `value: '{"name":"big"}'`, 1),
			"{name: '${SIZE}'}", "'${{SIZE}}'", 1),
		"a generated size": strings.Replace(templateText, "value: small", "generate: expression, from: 'bi[g]{1}'", 1),
	} {
		if got := causesOf(ask(t, withPolicies(t, onlySmall).Hooks()[ValidateCarrier], create(t, object))); !strings.Contains(got, want) {
			t.Errorf("%s: %s", why, got)
		}
	}
	many := strings.Repeat("{vm: {}}, ", carrier.MostGuests)
	behind := create(t, strings.Replace(stackText, "machines: [", "machines: ["+many, 1))
	const tooMany = "spec.machines: Forbidden: at most 32 templates"
	if got := causesOf(ask(t, withPolicies(t, onlySmall).Hooks()[ValidateCarrier], behind)); !strings.Contains(got, tooMany) {
		t.Errorf("a template behind the others: %s", got)
	}
	huge := strings.Replace(poolText, "devices: {}", "devices: {disks: ["+strings.Repeat("{name: a}, ", 20_000)+"]}", 1)
	if got := causesOf(ask(t, withPolicies(t, onlySmall).Hooks()[ValidateCarrier], create(t, huge))); !strings.Contains(got, "spec.virtualMachineTemplate") {
		t.Errorf("a huge template: %s", got)
	}
	labelled := update(t, huge, strings.Replace(huge, "name: web,", "labels: {a: b}, name: web,", 1))
	if got := causesOf(ask(t, withPolicies(t, onlySmall).Hooks()[ValidateCarrier], labelled)); got != "allowed" {
		t.Errorf("a label of a stored object with a huge template: %s", got)
	}
}

// TestCarriersWhereAdmissionWarns: there policies do not refuse a carrier either.
func TestCarriersWhereAdmissionWarns(t *testing.T) {
	t.Parallel()
	c := withPolicies(t, onlySmall)
	now := c.Reviewer.Configuration()
	now.Limits.KubeVirtGuests = true
	c.Reviewer.Configuration, c.Enforcement = func() config.Cluster { return now }, enforcement.Warn
	response := ask(t, c.Hooks()[ValidateCarrier], create(t, strings.Replace(poolText, "{name: small}", "{name: big}", 1)))
	if !response.Allowed || !strings.Contains(strings.Join(response.Warnings, "\n"), "Kiln would refuse this: spec.virtualMachineTemplate.spec.instancetype") {
		t.Errorf("%s, %q", causesOf(response), response.Warnings)
	}
}

// TestUnknownCarrier: if a webhook is registered for a kind and lacks the flag of the kind, it returns a warning.
func TestUnknownCarrier(t *testing.T) {
	t.Parallel()
	response := ask(t, newCluster(t).Hooks()[ValidateCarrier], create(t, stackText))
	if !response.Allowed || !strings.Contains(fmt.Sprint(response.Warnings), "--carrier") {
		t.Errorf("%s, %q", causesOf(response), response.Warnings)
	}
}
