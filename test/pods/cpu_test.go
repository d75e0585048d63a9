package pods

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	n.Cleanup(n.upgradeSecond)
	n.reportAgain("node-2")
	n.eventually("node-2 reports the CPU of the earlier QEMU, and node-1 of the current one", func() (string, bool) {
		one, two := n.reportedFeatures("node-1"), n.reportedFeatures("node-2")
		return fmt.Sprintf("%d and %d features", len(one), len(two)), len(one) > 0 && slices.Contains(two, vanishing) && !slices.Contains(one, vanishing)
	})
}

// vanishing is a feature that host-model has with the earlier QEMU, and not with the current one.
const vanishing = "pcommit"

// upgradeSecond gives the second node the current launcher, which reports its CPU. Guests that run go on with the QEMU of before.
func (n *tenant) upgradeSecond() {
	n.Helper()
	if err := installed.Import(context.WithoutCancel(n.Context()), join(n.T)); err != nil {
		n.Error(err)
	}
	n.reportAgain("node-2")
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
	for _, c := range []struct{ vm, made, other, feature string }{{"early", "node-2", "node-1", vanishing}, {"late", "node-1", "node-2", "fsrm"}} {
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

// migratable is a VirtualMachine without a CPU model, whose machine type both QEMUs have: a machine type of the current QEMU would keep its guest from the
// earlier one.
func migratable(name, placement string) string {
	return strings.Replace(machine(name, placement), "cpu: {model: qemu64}", "machine: {type: pc-q35-7.2}", 1)
}

// commonCPU makes a ClusterGuestProfile for the tenant's namespace with the CPU that both nodes have in common, and returns this CPU.
func (n *tenant) commonCPU() v1alpha1.CommonCPUStatus {
	n.Helper()
	n.Cleanup(func() {
		if out, err := shared.Kubectl(context.WithoutCancel(n.Context()), "delete", "clusterguestprofile", n.namespace); err != nil {
			n.Error(err, out)
		}
	})
	n.apply(fmt.Sprintf("apiVersion: kilnvm.io/v1alpha1\nkind: ClusterGuestProfile\nmetadata: {name: %[1]s}\n"+
		"spec: {selector: {}, namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}, commonCPU: {}}\n", n.namespace))
	var profile v1alpha1.ClusterGuestProfile
	n.eventually("the profile has the CPU of both nodes", func() (string, bool) {
		n.read("clusterguestprofile", n.namespace, &profile)
		of := profile.Status
		return fmt.Sprintf("%+v", of), of.CommonCPU != nil && of.CommonCPU.Nodes == 2 && of.CommonCPU.Model != "" &&
			meta.IsStatusConditionTrue(of.Conditions, v1alpha1.ConditionCommonCPU)
	})
	return *profile.Status.CommonCPU
}

// TestCommonCPUOfNodes: a profile fills the CPU that two nodes with different QEMUs have in common. Two guests, one made on each node, change places after each
// of ten boots. A guest finds the same CPU, DMI and devices at each boot, on one node the same in each byte, and its record stays.
func TestCommonCPUOfNodes(t *testing.T) {
	nightly.Only(t)
	n := newTenant(t, "common-cpu")
	n.twoQEMUs()
	common := n.commonCPU()
	if slices.Contains(common.Features, vanishing) || slices.Contains(common.Features, "fsrm") || !slices.Contains(common.Features, "avx2") {
		t.Errorf("the nodes have in common %+v", common)
	}
	t.Logf("the nodes have CPU %s with %d features in common", common.Model, len(common.Features))
	nodes, vms := [2]string{"node-1", "node-2"}, [2]string{"late", "early"}
	type sight struct {
		node, report string
		record       *v1alpha1.HardwareRecord
	}
	seen := map[string][]sight{}
	for boot := range 10 {
		for i, vm := range vms {
			if at := nodes[(i+boot)%2]; boot == 0 {
				n.apply(migratable(vm, only(at)))
			} else {
				n.moveTo(vm, at)
			}
		}
		for i, vm := range vms {
			report, hardware, version := n.boot(vm)
			now := sight{nodes[(i+boot)%2], report, hardware.Spec.Hardware}
			if on := n.nodeOf(vm); on != now.node {
				t.Fatalf("%s runs on %s, want %s", vm, on, now.node)
			}
			t.Logf("boot %d of %s on %s, with %s: %d facts", boot+1, vm, now.node, version, strings.Count(report, "\n"))
			for _, before := range seen[vm] {
				was, is := withoutQEMU(before.report), withoutQEMU(report)
				if before.node == now.node {
					was, is = strings.Split(before.report, "\n"), strings.Split(report, "\n")
				}
				if diff := cmp.Diff(was, is); diff != "" {
					t.Errorf("%s sees on %s other hardware at boot %d than before on %s (-before +now):\n%s", vm, now.node, boot+1, before.node, diff)
				}
				if diff := cmp.Diff(before.record, now.record); diff != "" {
					t.Errorf("boot %d of %s on %s changes the record (-before +now):\n%s", boot+1, vm, now.node, diff)
				}
			}
			seen[vm] = append(seen[vm], now)
			n.hasCommonCPU(vm, report, now.record.CPU, common)
		}
	}
}

// hasCommonCPU checks that a guest was asked for with a common CPU, and that its report is about a CPU.
func (n *tenant) hasCommonCPU(vm, report string, recorded *record.CPU, common v1alpha1.CommonCPUStatus) {
	n.Helper()
	for _, fact := range []string{"cpuid 0=", "cpuid 7=", "cpuid 80000001=", "cpu model=", "cpu 0 flags=", "dmi product_uuid="} {
		if !strings.Contains("\n"+report, "\n"+fact) {
			n.Errorf("%s does not report '%s':\n%s", vm, fact, report)
		}
	}
	if recorded == nil || recorded.Requested != common.Model || !slices.Equal(recorded.Features, common.Features) {
		n.Errorf("%s has the recorded CPU %+v, want %+v", vm, recorded, common)
	}
}

// TestFeatureVanishes: an upgrade takes a feature from the node of two guests. 'kubectl kiln cpu check' and condition CPUOffered name exactly the guest that
// needs it, and both guests go on. The named one cannot start again, until 'repin --cpu' has it record another CPU.
func TestFeatureVanishes(t *testing.T) {
	nightly.Only(t)
	n := newTenant(t, "vanishes")
	n.twoQEMUs()
	k, check := n.cpuTool()
	n.apply(hostModel("needs", only("node-2")) + machine("other", only("node-2")))
	for _, vm := range []string{"needs", "other"} {
		n.phase(vm, "Running")
		n.console(vm, "KILN-REPORT-END")
	}
	first := n.verifiedRecord("needs")
	n.offers("needs", metav1.ConditionTrue, "")
	n.offers("other", metav1.ConditionTrue, "")
	check("")
	needs, other := n.process("needs"), n.process("other")

	n.upgradeSecond()
	n.eventually("node-2 does not report "+vanishing, func() (string, bool) {
		features := n.reportedFeatures("node-2")
		return fmt.Sprint(features), len(features) > 0 && !slices.Contains(features, vanishing)
	})
	n.offers("needs", metav1.ConditionFalse, vanishing)
	n.offers("other", metav1.ConditionTrue, "")
	check("virtualmachine.kubevirt.io/needs")
	if now := n.process("needs"); now != needs || now == 0 {
		t.Errorf("the guest that needs the feature was process %d, and is %d", needs, now)
	}

	n.moveTo("needs", "node-2")
	n.lacksCPU("needs", vanishing)
	if out, err := k.run(n.Context(), n.namespace, "repin", "vm/needs", "--cpu"); err != nil {
		t.Fatal(err, string(out))
	}
	n.kubectl("delete", "vmi", "needs", "--timeout=60s")
	n.phase("needs", "Running")
	n.console("needs", "KILN-REPORT-END")
	second := n.verifiedRecord("needs")
	changes := record.Compare(*first.Spec.Hardware, *second.Spec.Hardware)
	if len(changes) != 1 || changes[0].Part != record.PartCPU || slices.Contains(second.Spec.Hardware.CPU.Features, vanishing) {
		t.Errorf("the renewed record has changed by %+v, and has the CPU %+v", changes, second.Spec.Hardware.CPU)
	}
	n.offers("needs", metav1.ConditionTrue, "")
	check("")
	if now := n.process("other"); now != other || now == 0 {
		t.Errorf("the guest that does not need the feature was process %d, and is %d", other, now)
	}
}

// cpuTool builds kubectl-kiln, and returns it with a function that runs 'cpu check' with the configuration of the cluster. The check must name one guest and
// exit with 1, or name none and exit with 0 if want is empty.
func (n *tenant) cpuTool() (k tool, check func(want string)) {
	n.Helper()
	config := filepath.Join(n.TempDir(), "configuration.yaml")
	if err := os.WriteFile(config, []byte("developerConfiguration: {useEmulation: true}\n"), 0o600); err != nil {
		n.Fatal(err)
	}
	k = buildTool(n.T)
	return k, func(want string) {
		n.Helper()
		status, wantStatus := 0, 0
		if want != "" {
			want, wantStatus = want+"\n", 1
		}
		out, err := k.run(n.Context(), n.namespace, "cpu", "check", "-o", "name", "--config", config)
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			status = exit.ExitCode()
		}
		if string(out) != want || status != wantStatus {
			n.Errorf("'cpu check' names '%s' and exits with %d, want '%s' and %d: %v", out, status, want, wantStatus, err)
		}
	}
}

// offers waits until condition CPUOffered of a guest has a status, with a text in its message.
func (n *tenant) offers(vm string, status metav1.ConditionStatus, text string) {
	n.Helper()
	n.eventually(fmt.Sprintf("condition CPUOffered of %s is %s", vm, status), func() (string, bool) {
		var hardware v1alpha1.GuestHardware
		n.read("guesthardware", vm, &hardware)
		found := meta.FindStatusCondition(hardware.Status.Conditions, v1alpha1.ConditionCPUOffered)
		return fmt.Sprintf("%+v", found), found != nil && found.Status == status && strings.Contains(found.Message, text)
	})
}
