package pods

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/kilnvm/kiln/api/v1alpha1"
	launcherimage "github.com/kilnvm/kiln/manifests/images/launcher"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/test/nightly"
)

// hostModel is a VirtualMachine whose CPU is host-model, which has another meaning with each version of QEMU.
func hostModel(name, placement string) string {
	return strings.Replace(machine(name, placement), "cpu: {model: qemu64}", "cpu: {model: host-model}", 1)
}

// twoQEMUs gives the second node a launcher with an earlier QEMU under the name of the current one, as a node that an upgrade has not reached, and waits until
// both nodes have reported their CPUs. The second node gets the current launcher back when the test ends.
func (n *tenant) twoQEMUs() {
	n.Helper()
	two, current := join(n.T), n.launcherImage()
	two.Import(n, n.makeImage(current, launcherimage.Earlier))
	n.Cleanup(func() {
		if err := installed.Import(context.WithoutCancel(n.Context()), two); err != nil {
			n.Error(err)
		}
		n.reportAgain("node-2")
	})
	n.reportAgain("node-2")
	n.eventually("node-2 reports the CPU of the earlier QEMU, and node-1 of the current one", func() (string, bool) {
		one, two := n.reportedFeatures("node-1"), n.reportedFeatures("node-2")
		return fmt.Sprintf("%d and %d features", len(one), len(two)), len(one) > 0 && slices.Contains(two, "pcommit") && !slices.Contains(one, "pcommit")
	})
}

// reportAgain restarts 'launcher devices' on a node. The new process reports the QEMU of its image.
func (n *tenant) reportAgain(node string) {
	n.Helper()
	ctx := context.WithoutCancel(n.Context())
	out, err := shared.Kubectl(ctx, "--namespace", "kiln-devices", "delete", "pod", "--selector", "app.kubernetes.io/name=kiln-devices-cpu",
		"--field-selector", "spec.nodeName="+node, "--timeout=180s")
	if err != nil {
		n.Error(err, out)
	}
}

// reportedFeatures returns the CPU features in the labels of a node, sorted.
func (n *tenant) reportedFeatures(name string) (features []string) {
	n.Helper()
	var node corev1.Node
	n.read("node", name, &node)
	for key := range node.Labels {
		if feature, found := strings.CutPrefix(key, v1alpha1.LabelCPUFeature); found {
			features = append(features, feature)
		}
	}
	slices.Sort(features)
	return features
}

// verifiedRecord returns the GuestHardware of a guest once it says that libvirt runs the recorded CPU.
func (n *tenant) verifiedRecord(vm string) (hardware v1alpha1.GuestHardware) {
	n.Helper()
	n.eventually("the CPU of "+vm+" is verified", func() (string, bool) {
		n.read("guesthardware", vm, &hardware)
		cpu := hardware.Spec.Hardware.CPU
		return fmt.Sprintf("%+v", cpu), cpu != nil && cpu.Verified
	})
	return hardware
}

// moveTo stops a VM, selects another node for it, and starts it there.
func (n *tenant) moveTo(vm, node string) {
	n.Helper()
	n.kubectl("patch", "vm", vm, "--type=merge", `-p={"spec":{"runStrategy":"Halted"}}`)
	n.eventually("the guest has ended", func() (string, bool) {
		out, err := shared.Kubectl(n.Context(), "--namespace", n.namespace, "get", "vmi,pod", "--ignore-not-found", "-o", "name")
		return out, err == nil && !strings.Contains(out, "/"+vm+"\n") && !strings.Contains(out, "guest-"+vm)
	})
	n.kubectl("patch", "vm", vm, "--type=merge",
		`-p={"spec":{"runStrategy":"Always","template":{"spec":{"nodeSelector":{"kubernetes.io/hostname":"`+node+`"}}}}}`)
}

// lacksCPU waits until a VM that should start says which features of its recorded CPU the nodes lack, and checks that no guest runs.
func (n *tenant) lacksCPU(vm, feature string) {
	n.Helper()
	n.eventually("VM "+vm+" says that the node lacks "+feature, func() (string, bool) {
		got := n.placeable(vm)
		return fmt.Sprintf("%+v", got), got.Status == corev1.ConditionFalse && got.Reason == v1alpha1.ReasonNoNodeHasCPU && strings.Contains(got.Message, feature)
	})
	if phase := n.kubectl("get", "vmi", vm, "-o", "jsonpath={.status.phase}"); phase == "Running" {
		n.Errorf("%s runs on a node that lacks %s", vm, feature)
	}
}

// TestCPUOfNodes: two nodes have QEMUs that offer different CPUs. A guest with host-model that was made on one waits on the other, with the names of the
// features. It starts again where it was made, with the same CPU in every register of CPUID.
func TestCPUOfNodes(t *testing.T) {
	nightly.Only(t)
	n := newTenant(t, "cpus")
	n.twoQEMUs()
	for _, c := range []struct{ vm, made, other, feature string }{{"early", "node-2", "node-1", "pcommit"}, {"late", "node-1", "node-2", "fsrm"}} {
		n.apply(hostModel(c.vm, only(c.made)))
		n.phase(c.vm, "Running")
		seen := n.hardware(n.console(c.vm, "KILN-REPORT-END"))
		first := n.verifiedRecord(c.vm)
		if _, has := slices.BinarySearch(first.Spec.Hardware.CPU.Features, c.feature); !has || !strings.Contains(seen, "cpuid 7=") {
			t.Errorf("%s has the CPU %+v, and sees\n%s", c.vm, first.Spec.Hardware.CPU, seen)
		}
		n.moveTo(c.vm, c.other)
		n.lacksCPU(c.vm, c.feature)
		n.moveTo(c.vm, c.made)
		n.phase(c.vm, "Running")
		if diff := cmp.Diff(seen, n.hardware(n.console(c.vm, "KILN-REPORT-END"))); diff != "" {
			t.Errorf("%s sees other hardware at its second boot (-first +second):\n%s", c.vm, diff)
		}
		second := n.verifiedRecord(c.vm)
		if changes := record.Compare(*first.Spec.Hardware, *second.Spec.Hardware); len(changes) > 0 {
			t.Errorf("the record of %s has changed: %+v", c.vm, changes)
		}
		n.kubectl("delete", "vm", c.vm, "--timeout=120s")
	}
}
