package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/cli/cmdutil"
)

// folder writes files below a new directory.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// chart is what 'helm template' prints: sources, documents of comments alone, empty lists and maps, nulls.
const chart = `---
# Source: vms/templates/instancetype.yaml
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterInstancetype
metadata:
  name: medium
  labels:
    helm.sh/chart: vms-1.0.0
    app.kubernetes.io/managed-by: Helm
  annotations:
    {}
spec:
  cpu:
    guest: 3
  memory:
    guest: 2Gi
  gpus: []
  hostDevices: []
---
# Source: vms/templates/notes.yaml
# nothing is enabled here
---
# Source: vms/templates/service.yaml
apiVersion: v1
kind: Service
metadata:
  name: web
spec:
  ports: []
---
# Source: vms/templates/vm.yaml
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata:
  name: web
  namespace: shop
  annotations: {}
  labels:
    helm.sh/chart: vms-1.0.0
spec:
  runStrategy: "Always"
  dataVolumeTemplates: []
  instancetype:
    name: medium
  template:
    metadata:
      creationTimestamp: null
      annotations: {}
      labels: {}
    spec:
      accessCredentials: []
      affinity: {}
      nodeSelector: {}
      tolerations: []
      domain:
        devices:
          disks: []
          gpus: []
          hostDevices: []
          inputs: []
          interfaces: []
        resources:
          limits: {}
          requests: {}
      networks: []
      volumes:
        - name: root
          containerDisk:
            image: "os:1"
`

// TestAChartAsHelmPrintsIt: every command answers as for the same VM without what is empty.
func TestAChartAsHelmPrintsIt(t *testing.T) {
	t.Parallel()
	plain := strings.Replace(vm, "      domain:", "      affinity: {}\n      domain:", 1) // a value, not an empty list or map
	for _, command := range []string{"expand", "explain", "render"} {
		want, got := call(t, size+"---\n"+plain, command, "-f", "-"), call(t, chart, command, "-f", "-")
		if diff := cmp.Diff(pinless(want.out), pinless(got.out)); diff != "" || got.err != nil || want.err != nil {
			t.Errorf("%s: %v %v %s (-plain +chart):\n%s", command, want.err, got.err, got.errOut, diff)
		}
	}
	got := call(t, chart, "validate", "-f", "-")
	if got.err != nil || got.out != "VirtualMachineClusterInstancetype medium is accepted\nVirtualMachine shop/web is accepted\n" {
		t.Errorf("validate: %v\n%s%s", got.err, got.out, got.errOut)
	}
	dir := folder(t, map[string]string{"plain.yaml": plain, "chart.yaml": chart, "size.yaml": size})
	got = call(t, "", "diff", filepath.Join(dir, "plain.yaml"), filepath.Join(dir, "chart.yaml"), "--catalog", filepath.Join(dir, "size.yaml"))
	if got.err != nil || got.out != "compatible\n" {
		t.Errorf("diff: %v\n%s%s", got.err, got.out, got.errOut)
	}
}

// pinless is an output without the revision of the instancetype: the chart's differs by what is empty in it.
func pinless(text string) string {
	head, tail, found := strings.Cut(text, "medium@medium-")
	if !found {
		return text
	}
	_, tail, _ = strings.Cut(tail, "\n")
	return head + "\n" + pinless(tail)
}

// TestFilesThatAreNoObjects: each is named, the others are judged, and the exit status says that not everything was.
func TestFilesThatAreNoObjects(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"base/kustomization.yaml": "resources: [vm.yaml]\n",
		"chart/values.yaml":       "image: os:1\npassword: secret\n",
		"chart/list.yaml":         "- a\n- b\n",
		"chart/single.yaml":       "text\n",
		"chart/template.yaml":     "kind: {{ .Values.kind }}\n",
		"chart/headless.yaml":     "# a comment\nkind: VirtualMachine\nmetadata: {name: x}\n",
		"component.yaml":          "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n",
		"empty.yaml":              "# nothing yet\n",
		"items.yaml":              "apiVersion: v1\nkind: List\nitems:\n- 7\n- " + strings.ReplaceAll(strings.TrimSpace(size), "\n", "\n  ") + "\n",
		"README.md":               "no manifest\n",
		"vm.yaml":                 vm,
	})
	got := call(t, "", "validate", "-f", dir)
	want := []string{
		filepath.Join(dir, "base/kustomization.yaml") + ": this is a kustomization, which is not built with -f: use -k with its directory",
		filepath.Join(dir, "chart/headless.yaml") + ":2: this is not an object of Kubernetes: it has no apiVersion",
		filepath.Join(dir, "chart/list.yaml") + ":1: this is a list or a single value, not an object",
		filepath.Join(dir, "chart/single.yaml") + ":1: this is a list or a single value, not an object",
		filepath.Join(dir, "chart/template.yaml") + ":1: yaml: ",
		filepath.Join(dir, "chart/values.yaml") + ":1: this is not an object of Kubernetes: it has no kind",
		filepath.Join(dir, "component.yaml") + ":1: this is a kustomization",
		filepath.Join(dir, "items.yaml") + ":4: this is a list or a single value, not an object",
	}
	lines := strings.Split(strings.TrimSpace(got.errOut), "\n")
	if len(lines) != len(want) {
		t.Errorf("want %d lines on stderr, got\n%s", len(want), got.errOut)
	}
	for i := range min(len(want), len(lines)) {
		if !strings.HasPrefix(lines[i], "error: "+want[i]) {
			t.Errorf("want 'error: %s', got '%s'", want[i], lines[i])
		}
	}
	if cmdutil.ExitStatus(got.err) != 2 || got.out != fmt.Sprintf("VirtualMachineClusterInstancetype medium is accepted in %[1]s/items.yaml\n"+
		"VirtualMachine shop/web is accepted in %[1]s/vm.yaml\n2 accepted, 0 rejected, 8 without a verdict in 9 files\n", dir) {
		t.Errorf("the others are judged, and the status is 2: %v\n%s", got.err, got.out)
	}
	if strings.Contains(got.errOut, "secret") {
		t.Errorf("the content of a file that is no manifest is printed:\n%s", got.errOut)
	}
	for _, command := range []string{"expand", "explain", "render"} {
		if got := call(t, "", command, "-f", dir); cmdutil.ExitStatus(got.err) != 2 || got.out == "" || !strings.Contains(got.errOut, want[0]) {
			t.Errorf("%s: %v\n%s%s", command, got.err, got.errOut, got.out)
		}
	}
	if got := call(t, "", "validate", "-f", filepath.Join(dir, "vm.yaml"), "--catalog", dir); cmdutil.ExitStatus(got.err) != 2 ||
		!strings.Contains(got.errOut, "values.yaml") || strings.Contains(got.errOut, "base/kustomization.yaml") ||
		!strings.Contains(got.out, "shop/web is accepted in ") {
		t.Errorf("in a catalog they are named, too, except kustomizations: %v\n%s%s", got.err, got.errOut, got.out)
	}
}

// TestExitStatuses: 2 for what has no verdict counts before 1 for a rejection, and each object is named.
func TestExitStatuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		why     string
		files   map[string]string
		status  int
		printed []string
	}{
		{"accepted", map[string]string{"all.yaml": size + "---\n" + vm}, 0, nil},
		{"rejected", map[string]string{"all.yaml": size + "---\n" + conflicting}, 1, []string{"shop/web is rejected"}},
		{"no answer", map[string]string{"all.yaml": size, "values.yaml": "a: b\n"}, 2, []string{"values.yaml"}},
		{"no answer and rejected",
			map[string]string{"all.yaml": size + "---\n" + conflicting, "values.yaml": "a: b\n"}, 2, []string{"shop/web is rejected", "values.yaml"}},
		{"nothing to judge", map[string]string{"all.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n"}, 2, nil},
	} {
		got := call(t, "", "validate", "-f", folder(t, test.files))
		if cmdutil.ExitStatus(got.err) != test.status {
			t.Errorf("%s: exit status %d (%v), want %d\n%s", test.why, cmdutil.ExitStatus(got.err), got.err, test.status, got.errOut)
		}
		for _, text := range test.printed {
			if !strings.Contains(got.errOut, text) {
				t.Errorf("%s: no '%s' in\n%s", test.why, text, got.errOut)
			}
		}
	}
}

// TestOneObjectWithoutAnAnswer: a revision that is gone keeps one VMI from an answer, and not the VM beside it.
func TestOneObjectWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	lost := "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {name: lost, annotations: {kilnvm.io/pins: '{\"instancetype\":\"gone\"}'}}\n" +
		"spec: {domain: {devices: {}}}\n"
	_, file := write(t, lost, size, vm)
	for _, command := range []string{"validate", "expand", "explain", "render"} {
		got := call(t, "", command, "-f", file)
		if cmdutil.ExitStatus(got.err) != 2 || !strings.Contains(got.errOut, "VirtualMachineInstance default/lost: revision 'gone'") ||
			!strings.Contains(got.out, "web") {
			t.Errorf("%s: %v\n%s%s", command, got.err, got.errOut, got.out)
		}
	}
}
