package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// components is the folder of KubeVirt's module with the definitions that virt-operator installs.
func components(t *testing.T, root string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "kubevirt.io/kubevirt")
	cmd.Dir = filepath.Join(root, "test", "kubevirt")
	dir, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(strings.TrimSpace(string(dir)), "pkg", "virt-operator", "resource", "generate", "components")
}

// generatedSchema returns a schema of KubeVirt's generated definitions, read from their source: to build the package takes minutes.
func generatedSchema(t *testing.T, dir, name string) any {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, "validations_generated.go"), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var text string
	ast.Inspect(file, func(node ast.Node) bool {
		entry, ok := node.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		key, isText := entry.Key.(*ast.BasicLit)
		value, isSchema := entry.Value.(*ast.BasicLit)
		if isText && isSchema && key.Value == strconv.Quote(name) {
			text, err = strconv.Unquote(value.Value)
		}
		return true
	})
	var schema struct {
		OpenAPIV3Schema map[string]any `json:"openAPIV3Schema"`
	}
	if err != nil || text == "" || yaml.Unmarshal([]byte(text), &schema) != nil {
		t.Fatalf("KubeVirt has no schema '%s': %v", name, err)
	}
	return schema.OpenAPIV3Schema
}

// definition is a namespaced CustomResourceDefinition with the subresources status and scale.
func definition(t *testing.T, group, kind string, schema any, versions ...string) string {
	t.Helper()
	plural := strings.ToLower(kind) + "s"
	var all []any
	for i, version := range versions {
		all = append(all, map[string]any{
			"name": version, "served": true, "storage": i == 0, "schema": map[string]any{"openAPIV3Schema": schema},
			"subresources": map[string]any{"status": map[string]any{}, "scale": map[string]any{
				"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.labelSelector"}},
		})
	}
	written, err := json.Marshal(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": plural + "." + group},
		"spec": map[string]any{"group": group, "scope": "Namespaced", "versions": all,
			"names": map[string]any{"kind": kind, "listKind": kind + "List", "plural": plural, "singular": strings.ToLower(kind)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(written)
}

// templateDefinition is the definition of VirtualMachineTemplates, as virt-operator installs it.
func templateDefinition(t *testing.T, dir string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "data", "virt-template", "install-virt-operator.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range strings.Split(string(raw), "\n---\n") {
		if strings.Contains(document, "name: virtualmachinetemplates.template.kubevirt.io\n") && strings.Contains(document, "kind: CustomResourceDefinition\n") {
			return document
		}
	}
	t.Fatal("KubeVirt has no definition of VirtualMachineTemplates")
	return ""
}

// anything is the schema of a kind whose definition is in no Go module: of Cluster API's provider for KubeVirt, and of an administrator's.
var anything = map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}

// defineCarriers has the API server serve all kinds that carry VMs.
func (s space) defineCarriers() {
	s.Helper()
	dir := components(s.T, s.on.Root)
	for _, text := range []string{
		definition(s.T, "pool.kubevirt.io", "VirtualMachinePool", generatedSchema(s.T, dir, "virtualmachinepool"), "v1beta1", "v1alpha1"),
		definition(s.T, "kubevirt.io", "VirtualMachineInstanceReplicaSet", generatedSchema(s.T, dir, "virtualmachineinstancereplicaset"), "v1", "v1alpha3"),
		templateDefinition(s.T, dir),
		definition(s.T, "infrastructure.cluster.x-k8s.io", "KubevirtMachineTemplate", anything, "v1alpha1"),
		definition(s.T, "infrastructure.cluster.x-k8s.io", "KubevirtMachine", anything, "v1alpha1"),
	} {
		s.must(s.kubectl(text, "apply", "--server-side", "-f", "-"))
	}
	for _, name := range []string{"virtualmachinepools.pool.kubevirt.io", "virtualmachineinstancereplicasets.kubevirt.io",
		"virtualmachinetemplates.template.kubevirt.io", "kubevirtmachinetemplates.infrastructure.cluster.x-k8s.io",
		"kubevirtmachines.infrastructure.cluster.x-k8s.io"} {
		s.established(name)
	}
}

// The manifests have the instancetype, or the cores, as %s.
const (
	poolManifest = `{apiVersion: pool.kubevirt.io/v1beta1, kind: VirtualMachinePool, metadata: {name: web}, spec: {replicas: 2,
  selector: {matchLabels: {a: b}}, virtualMachineTemplate: {metadata: {labels: {a: b}}, spec: {runStrategy: Halted, instancetype: {name: %s},
  template: {metadata: {labels: {a: b}}, spec: {domain: {devices: {}}}}}}}}`
	replicasManifest = `{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstanceReplicaSet, metadata: {name: web}, spec: {replicas: 2,
  selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {domain: {cpu: {sockets: %s}, memory: {guest: 64Mi}, devices: {}}}}}}`
	templateManifest = `{apiVersion: template.kubevirt.io/v1beta1, kind: VirtualMachineTemplate, metadata: {name: web}, spec: {parameters: [
  {name: NAME, required: true}, {name: SIZE, value: %s}], virtualMachine: {metadata: {name: '${NAME}'}, spec: {runStrategy: Halted,
  instancetype: {name: '${SIZE}'}, template: {spec: {domain: {devices: {}}}}}}}}`
	machineTemplateManifest = `{apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1, kind: KubevirtMachineTemplate, metadata: {name: web}, spec: {template: {
  spec: {virtualMachineTemplate: {spec: {runStrategy: Halted, instancetype: {name: %s}, template: {spec: {domain: {devices: {}}}}}}}}}}`
	machineManifest = `{apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1, kind: KubevirtMachine, metadata: {name: web}, spec: {
  virtualMachineTemplate: {spec: {runStrategy: Halted, instancetype: {name: %s}, template: {spec: {domain: {devices: {}}}}}}}}`
)

// TestCarriers: the API server refuses each kind that carries VMs for a template that a policy forbids, at the path of the template. It scales, and writes the
// status of, what was there before the policy. Nobody evades the policy by another verb, another version or a dry run.
func TestCarriers(t *testing.T) {
	s := newSpace(t)
	s.defineCarriers()
	s.must(s.kubectl(fmt.Sprintf(strings.Replace(poolManifest, "name: web", "name: old", 1), "medium"), "create", "-f", "-"))
	one := s.policy("one", onlySmall)
	two := s.policy("two", strings.Replace(fewSockets, "matchConstraints: {", "matchConstraints: {resources: [virtualmachineinstances]", 1))
	for _, c := range []struct{ manifest, legal, illegal, want string }{
		{poolManifest, "small", "medium", "spec.virtualMachineTemplate.spec.instancetype: Forbidden: GuestPolicy '" + one + "': no web-0 of yours"},
		{replicasManifest, "1", "2", "spec.template.spec.domain.cpu.sockets: Invalid value: 2: GuestPolicy '" + two + "': at most one socket"},
		{templateManifest, "small", "medium", "spec.virtualMachine.spec.instancetype: Forbidden: GuestPolicy '" + one + "': no web of yours"},
		{machineTemplateManifest, "small", "medium",
			"spec.template.spec.virtualMachineTemplate.spec.instancetype: Forbidden: GuestPolicy '" + one + "': no web-xxxxx"},
		{machineManifest, "small", "medium", "spec.virtualMachineTemplate.spec.instancetype: Forbidden: GuestPolicy '" + one + "': no web of yours"},
	} {
		illegal, legal := fmt.Sprintf(c.manifest, c.illegal), fmt.Sprintf(c.manifest, c.legal)
		s.settled("the policies refuse "+c.want, func() bool { return s.denied(illegal, c.want) })
		if result := s.kubectl(illegal, "create", "-f", "-"); result.err == nil || !strings.Contains(result.stderr, c.want) {
			t.Errorf("%s%s, want %s", result.stdout, result.stderr, c.want)
		}
		s.must(s.kubectl(legal, "create", "-f", "-"))
		if result := s.kubectl(illegal, "apply", "--server-side", "--force-conflicts", "-f", "-"); result.err == nil || !strings.Contains(result.stderr, c.want) {
			t.Errorf("an update: %s%s, want %s", result.stdout, result.stderr, c.want)
		}
	}
	older := strings.Replace(strings.Replace(fmt.Sprintf(poolManifest, "medium"), "v1beta1", "v1alpha1", 1), "name: web", "name: older", 1)
	if result := s.kubectl(older, "create", "-f", "-"); result.err == nil || !strings.Contains(result.stderr, one) {
		t.Errorf("an older version: %s%s", result.stdout, result.stderr)
	}
	generated := strings.Replace(fmt.Sprintf(poolManifest, "medium"), "name: web", "generateName: web-", 1)
	if result := s.kubectl(generated, "create", "-f", "-"); result.err == nil || !strings.Contains(result.stderr, one) {
		t.Errorf("a generated name: %s%s", result.stdout, result.stderr)
	}
	for _, args := range [][]string{
		{"scale", "virtualmachinepools.pool.kubevirt.io/old", "--replicas=3"},
		{"label", "virtualmachinepools.pool.kubevirt.io/old", "a=b"},
		{"patch", "virtualmachinepools.pool.kubevirt.io/old", "--type=merge", "-p", `{"spec":{"paused":true}}`},
		{"patch", "virtualmachinepools.pool.kubevirt.io/old", "--subresource=status", "--type=merge", "-p", `{"status":{"replicas":1}}`},
	} {
		if result := s.kubectl("", args...); result.err != nil || strings.Contains(result.stderr, "GuestPolicy") {
			t.Errorf("%v of a pool that was there before: %s%s", args, result.stdout, result.stderr)
		}
	}
	changed := `{"spec":{"virtualMachineTemplate":{"spec":{"template":{"spec":{"domain":{"devices":{"rng":{}}}}}}}}}`
	result := s.kubectl("", "patch", "virtualmachinepools.pool.kubevirt.io/old", "--type=merge", "-p", changed)
	if result.err == nil || !strings.Contains(result.stderr, one) {
		t.Errorf("another guest of a pool that was there before: %s%s", result.stdout, result.stderr)
	}
}

// TestCarriersOfTheAdministrator: without the flag --carrier the webhook says that it has not judged a kind that is registered.
func TestCarriersOfTheAdministrator(t *testing.T) {
	s := newSpace(t)
	group := "g" + s.name + ".example.org"
	s.must(s.kubectl(definition(t, group, "Stack", anything, "v1"), "apply", "--server-side", "-f", "-"))
	t.Cleanup(func() { s.kubectlAfter("delete", "crd", "stacks."+group) })
	s.established("stacks." + group)
	var configuration map[string]any
	text := s.must(s.kubectl("", "get", "validatingwebhookconfiguration", "kiln-validating", "-o", "json")).stdout
	if err := json.Unmarshal([]byte(text), &configuration); err != nil {
		t.Fatal(err)
	}
	for _, hook := range configuration["webhooks"].([]any) {
		hook := hook.(map[string]any)
		if hook["name"] != "virtualmachinepools.validate.kilnvm.io" {
			continue
		}
		hook["name"] = "carriers.validate.kilnvm.io"
		hook["rules"] = []any{map[string]any{"apiGroups": []string{group}, "apiVersions": []string{"*"}, "resources": []string{"stacks"},
			"operations": []string{"CREATE", "UPDATE"}, "scope": "Namespaced"}}
		configuration["webhooks"] = []any{hook}
	}
	configuration["metadata"] = map[string]any{"name": s.name}
	written, err := json.Marshal(configuration)
	if err != nil {
		t.Fatal(err)
	}
	s.must(s.kubectl(string(written), "create", "-f", "-"))
	t.Cleanup(func() {
		_, _, _ = s.on.Kubectl(context.Background(), "", "delete", "validatingwebhookconfiguration", s.name)
	})
	s.eventually("the webhook is asked", func() bool {
		result := s.kubectl("{apiVersion: "+group+"/v1, kind: Stack, metadata: {name: a}, spec: {vm: {}}}", "create", "--dry-run=server", "-f", "-")
		return result.err == nil && strings.Contains(result.stderr, "needs a flag --carrier for this kind")
	})
}
