package rehearsal

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/test/fleet"
	"github.com/kilnvm/kiln/test/nightly"
	"github.com/kilnvm/kiln/test/samples"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"libvirt.org/go/libvirtxml"
)

// converter is KubeVirt's own code that makes domains of VMIs: test/kubevirt/answers.
type converter struct {
	t   *testing.T
	in  *json.Encoder
	out *json.Decoder
}

// startConverter builds and starts the program, which takes some minutes of CPU time the first time. KUBEVIRT_ANSWERS names one that is built already.
func startConverter(t *testing.T) *converter {
	t.Helper()
	program := os.Getenv("KUBEVIRT_ANSWERS")
	if program == "" {
		program = filepath.Join(t.TempDir(), "answers")
		build := exec.CommandContext(t.Context(), "go", "-C", "../../../test/kubevirt", "build", "-tags", "kubevirt", "-o", program, "./answers")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	command := exec.CommandContext(t.Context(), program)
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
	t.Cleanup(func() {
		in.Close()
		_ = command.Wait() // the context of the test may have killed it
	})
	return &converter{t, json.NewEncoder(in), json.NewDecoder(out)}
}

// domainOf returns the domain that KubeVirt makes of the guest of a VM; nil if KubeVirt refuses it.
func (c *converter) domainOf(of *workbench.Reviewed) *libvirtxml.Domain {
	c.t.Helper()
	vmi := of.Guest.Sparse.DeepCopy()
	instancetype.Apply(of.Guest.Input.Set, of.Guest.Input.Cluster.Limits.Version, vmi) // as virt-controller creates it
	vmi.UID, vmi.Annotations = "5f0c1f6e-6d2a-4c7b-9a43-8f3e1d2c7b6a", nil
	vmi.Spec.Architecture = of.Guest.Explicit.Spec.Architecture
	if err := c.in.Encode(vmi); err != nil {
		c.t.Fatal(err)
	}
	var answer struct {
		Refused []struct{ Message string }
		Domain  string
		Error   string
	}
	if err := c.out.Decode(&answer); err != nil {
		c.t.Fatal(err)
	}
	if len(answer.Refused) > 0 || answer.Error != "" {
		return nil
	}
	domain := &libvirtxml.Domain{}
	if err := domain.Unmarshal(answer.Domain); err != nil {
		c.t.Fatalf("%v: %s", err, answer.Domain)
	}
	return domain
}

// TestKubeVirtsConverter: for VMS=200 VMs beside KubeVirt, the guests change by a rehearsal exactly if they change in the domains that KubeVirt's own converter
// makes of them.
func TestKubeVirtsConverter(t *testing.T) {
	nightly.Only(t)
	t.Parallel()
	catalog := readCatalog(t, samples.Sets(t)[0])
	c := startConverter(t)
	f := fleet.Make(t, 17, nightly.Number(t, "VMS", 200), catalog)
	runs := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt",
		"metadata": map[string]any{"name": "kubevirt", "namespace": "kubevirt"}, "spec": map[string]any{"configuration": map[string]any{}},
		"status": map[string]any{"observedKubeVirtVersion": "v1.9.0"}}}
	f.Settings = []*unstructured.Unstructured{runs}
	for _, vm := range f.VMs { // KubeVirt alone: nothing is pinned
		vm.SetAnnotations(nil)
	}
	f.Revisions = nil
	dump, all := f.Write(t), someChanges(t, catalog)
	same, changed := 0, 0
	for _, name := range sortedNames(all, nightly.Number(t, "CHANGES", 12)) {
		if name == "configuration" || name == "profile" || name == "preset" || name == "frontend" || name == "policy" {
			continue // KubeVirt alone has none of these, or its admission applies them
		}
		r := rehearse(t, dump, Options{Laid: changes(t, all[name])})
		base := slices.Concat(f.Catalog, f.Settings, f.Namespaces)
		var edited []*unstructured.Unstructured
		for _, object := range objectsOf(t, all[name]) {
			base := slices.IndexFunc(f.Catalog, func(o *unstructured.Unstructured) bool { return idOf(o) == idOf(object) })
			if base < 0 {
				t.Fatalf("%s: the catalog has no %s", name, object.GetName())
			}
			edited = append(edited, object)
		}
		later := append(slices.DeleteFunc(slices.Clone(base), func(o *unstructured.Unstructured) bool {
			return slices.ContainsFunc(edited, func(e *unstructured.Unstructured) bool { return idOf(e) == idOf(o) })
		}), edited...)
		before, after := guests(t, text(t, append(base, f.VMs...)...)), guests(t, text(t, append(later, f.VMs...)...))
		for _, vm := range r.VMs {
			key := vm.Namespace + "/" + vm.Name
			was, is := before[key], after[key]
			if was == nil || is == nil || vm.Verdict == Refused {
				continue
			}
			old, now := c.domainOf(was), c.domainOf(is)
			if old == nil || now == nil {
				continue
			}
			// KubeVirt gives input devices no alias. Two input devices of one bus have the same key here.
			kubeVirts := slices.DeleteFunc(abi.Compare(old, now), func(c record.Change) bool { return c.Device == "input." && strings.Contains(c.Text, "its type") })
			rehearsed := vm.Group > 0 && len(r.Groups[vm.Group-1].Changes) > 0
			if rehearsed != (len(kubeVirts) > 0) {
				t.Errorf("%s: %s: a rehearsal finds changes: %t, and KubeVirt's converter makes %+v", name, key, rehearsed, kubeVirts)
			}
			if rehearsed {
				changed++
			} else {
				same++
			}
		}
	}
	t.Logf("%d guests stay the same, %d change", same, changed)
	if same == 0 || changed == 0 {
		t.Error("one of both did not come to pass")
	}
}
