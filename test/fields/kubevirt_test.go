package fields

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/test/golden"
	"github.com/kilnvm/kiln/test/nightly"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// verdictsFile has KubeVirt's verdicts. It is kept because KubeVirt's code takes minutes to build, and needs another version of Kubernetes' modules.
const verdictsFile = "kubevirt.yaml"

const verdictsHead = `# What KubeVirt does with each field of a VMI's spec, and what shows it. 'make golden' writes this file from the answers
# of test/kubevirt/answers; a test of 'make nightly' compares it.
`

// TestKubeVirt: KubeVirt's own code still gives the kept verdicts.
func TestKubeVirt(t *testing.T) {
	if !golden.Rewrite {
		nightly.Only(t)
	}
	program := filepath.Join(t.TempDir(), "answers")
	build := exec.Command("go", "-C", "../kubevirt", "build", "-tags", "kubevirt", "-o", program, "./answers")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	command := exec.CommandContext(t.Context(), program)
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	all := leavesOfType(reflect.TypeFor[v1.VirtualMachineInstanceSpec]())
	k := newKubeVirt(in, out, all)
	for _, sample := range append(withRefused(t, guests(t)), others(t)...) {
		if err := k.trySample(&sample.VMI); err != nil {
			t.Error(err)
		}
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := command.Wait(); err != nil {
		t.Error(err)
	}
	sources(t)
	t.Logf("%d VMIs", len(k.replies))
	for _, leaf := range all {
		if k.found[leaf].Verdict == "" {
			t.Errorf("%s: no sample has it", leaf)
		}
	}
	if !t.Failed() {
		golden.Compare(t, verdictsFile, verdictsHead+findingsAsYAML(k.found, all))
	}
}

// others are the guests apart.
func others(t *testing.T) (samples []Guest) {
	t.Helper()
	for i, text := range apart {
		guest := Guest{Name: fmt.Sprint("apart-", i)}
		guest.VMI.Namespace, guest.VMI.Name, guest.VMI.UID = "default", guest.Name, "5f0c1f6e-6d2a-4c7b-9a43-8f3e1d2c7b6a"
		if err := yaml.UnmarshalStrict([]byte(text), &guest.VMI.Spec); err != nil {
			t.Fatal(err)
		}
		samples = append(samples, guest)
	}
	return samples
}

// sources looks for the words of inKubeVirt in KubeVirt's files.
func sources(t *testing.T) {
	t.Helper()
	out, err := exec.Command("go", "-C", "../kubevirt", "list", "-m", "-f", "{{.Dir}}", "kubevirt.io/kubevirt").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range inKubeVirt {
		raw, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), row.file))
		if err != nil || !strings.Contains(string(raw), row.words) {
			t.Errorf("%s: KubeVirt's %s does not have %q (%v)", row.prefix, row.file, row.words, err)
		}
	}
}

// keptVerdicts returns the verdicts of the file. It has one for each leaf, and no others.
func keptVerdicts(t *testing.T, all []string) map[string]finding {
	t.Helper()
	raw, err := os.ReadFile(verdictsFile)
	if err != nil {
		t.Fatal(err)
	}
	kept := map[string]finding{}
	if err := yaml.UnmarshalStrict(raw, &kept); err != nil {
		t.Fatal(err)
	}
	for leaf, is := range kept {
		if !slices.Contains(all, leaf) || !slices.Contains(ranks, is.Verdict) {
			t.Errorf("%s: %s has verdict %q: an unknown field, or an unknown verdict", verdictsFile, leaf, is.Verdict)
		}
	}
	for _, leaf := range all {
		if _, known := kept[leaf]; !known {
			t.Errorf("%s lacks %s: 'make golden' adds it", verdictsFile, leaf)
		}
	}
	return kept
}

// kubeVirtColumn returns the kept verdicts. A verdict of inKubeVirt replaces the kept one, and its cell is marked. It fails for rows of inKubeVirt that are
// not needed.
func kubeVirtColumn(t *testing.T, all []string) (found verdicts, cells map[string]string) {
	t.Helper()
	found, cells = verdicts{}, map[string]string{}
	kept, needed := keptVerdicts(t, all), make([]bool, len(inKubeVirt))
	for _, leaf := range all {
		found[leaf], cells[leaf] = kept[leaf].Verdict, kept[leaf].Verdict
		for i, row := range inKubeVirt {
			if isWithin(leaf, strings.TrimSuffix(row.prefix, "[]")) && slices.Index(ranks, row.verdict) < slices.Index(ranks, kept[leaf].Verdict) {
				found[leaf], cells[leaf], needed[i] = row.verdict, row.verdict+"²", true
			}
		}
	}
	for i, row := range inKubeVirt {
		if !needed[i] {
			t.Errorf("kubevirt: %s is %s without the row of inKubeVirt: take it away", row.prefix, row.verdict)
		}
	}
	return found, cells
}
