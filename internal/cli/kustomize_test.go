package cli

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestKustomizations: -k judges what is built, and says where that came from.
func TestKustomizations(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"base/kustomization.yaml":    "resources: [vm.yaml, size.yaml]\n",
		"base/vm.yaml":               vm,
		"base/size.yaml":             size,
		"overlay/kustomization.yaml": "resources: [../base]\nnamePrefix: a-\npatches:\n- path: patch.yaml\n",
		"overlay/patch.yaml": "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: web, namespace: shop}\n" +
			"spec: {template: {spec: {terminationGracePeriodSeconds: 7}}}\n",
		"wrong/kustomization.yaml": "resources: [../base]\npatches:\n- patch: |-\n" +
			"    - {op: add, path: /spec/template/spec/domain/memory, value: {guest: 1Gi}}\n  target: {kind: VirtualMachine}\n",
		"outside/kustomization.yaml": "resources: [../base/vm.yaml]\n",
		"plugin/kustomization.yaml":  "generators: [run.yaml]\n",
		"plugin/run.yaml":            "apiVersion: v1\nkind: Run\nmetadata: {name: a, annotations: {config.kubernetes.io/function: 'exec: {path: ./run}'}}\n",
	})
	overlay, wrong := filepath.Join(dir, "overlay"), filepath.Join(dir, "wrong")
	got := call(t, "", "expand", "-k", overlay, "--catalog", filepath.Join(dir, "base/size.yaml"))
	var vmi v1.VirtualMachineInstance
	if err := yaml.Unmarshal([]byte(strings.TrimPrefix(got.out, "---\n")), &vmi); err != nil || got.err != nil {
		t.Fatal(err, got.err, got.errOut)
	}
	if vmi.Name != "a-web" || *vmi.Spec.TerminationGracePeriodSeconds != 7 || vmi.Spec.Domain.CPU.Sockets != 3 {
		t.Errorf("want the overlay's name and patch, and the instancetype, got\n%s", got.out)
	}
	got = call(t, "", "validate", "-k", wrong, "-f", filepath.Join(dir, "base/size.yaml"), "-o", "json")
	if cmdutil.ExitStatus(got.err) != 1 {
		t.Errorf("a patch that conflicts with the instancetype: %v\n%s%s", got.err, got.errOut, got.out)
	}
	var last workbench.Judgement
	for _, document := range items(t, got.out) {
		var judged workbench.Judgement
		if err := json.Unmarshal(document, &judged); err != nil {
			t.Fatal(err)
		}
		if !judged.Allowed {
			last = judged
		}
	}
	if len(last.Causes) != 1 || last.Causes[0].File != wrong || last.Causes[0].Line != 0 {
		t.Errorf("want one cause, of the kustomization and without a line: %+v", last)
	}
	if got := call(t, "", "validate", "-k", wrong); !strings.Contains(got.errOut, "\n    built from the kustomization "+wrong+"\n") {
		t.Errorf("for people: %s", got.errOut)
	}
	for _, refused := range []string{"outside", "plugin", "none"} {
		got := call(t, "", "validate", "-k", filepath.Join(dir, refused), "-f", filepath.Join(dir, "base/size.yaml"))
		if cmdutil.ExitStatus(got.err) != 2 || !strings.Contains(got.errOut, filepath.Join(dir, refused)) ||
			!strings.HasPrefix(got.out, "VirtualMachineClusterInstancetype medium is accepted in ") {
			t.Errorf("%s: %v\n%s%s", refused, got.err, got.errOut, got.out)
		}
	}
}
