package guestcontroller

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/nodecpu"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// labelledNode is a node with the labels of KubeVirt's node-labeller.
func labelledNode(name, model string, features ...string) *corev1.Node {
	offer := nodecpu.Offer{Features: map[string]bool{"invtsc": true}, Models: map[string]bool{model: true}, Vendor: "AMD"}
	for _, feature := range features {
		offer.Features[feature] = true
	}
	labels := nodecpu.FromKubeVirt.Labels(offer)
	labels[v1.HostModelCPULabel+model] = "true"
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

// runsOn has the guest run on a node.
func (c *testCluster) runsOn(node string, edit func(*v1.VirtualMachineInstance)) {
	c.Helper()
	vmi := c.vmi()
	vmi.Status.Phase, vmi.Status.NodeName = v1.Running, node
	if edit != nil {
		edit(vmi)
	}
	status := vmi.Status.DeepCopy()
	if err := c.Update(c.Context(), vmi); err != nil { // which drops the status
		c.Fatal(err)
	}
	vmi.Status = *status
	if err := c.Status().Update(c.Context(), vmi); err != nil {
		c.Fatal(err)
	}
}

// asksForRecords has the VM ask for a record.
func (c *testCluster) asksForRecords() {
	c.Helper()
	vm := c.vm()
	vm.Annotations[v1alpha1.AnnotationFrontend] = v1alpha1.FrontendNew
	if err := c.Update(c.Context(), vm); err != nil {
		c.Fatal(err)
	}
}

var rome = &record.CPU{Requested: "host-model", Model: "EPYC-Rome", Vendor: "AMD", Features: []string{"avx2", "clwb"},
	Topology: record.Topology{Sockets: 1, Cores: 1, Threads: 1}}

// sameCPU compares CPUs without their topology, which follows from the VMI.
func sameCPU(t *testing.T, why string, want, got *record.CPU) {
	t.Helper()
	if want != nil && got != nil {
		same := *want
		same.Topology, want = got.Topology, &same
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", why, diff)
	}
}

// TestCPUOfHookedGuest: with the hook, the CPU of the node of the first boot joins the record when the guest runs. A later boot on another node keeps it, also
// if the VMI asks for it by model and features.
func TestCPUOfHookedGuest(t *testing.T) {
	c := newVMCluster(t, labelledNode("one", "EPYC-Rome", "avx2", "clwb"), labelledNode("two", "EPYC", "avx2"))
	c.replaceVMI(kubeVirtVMI(t, c.vm(), "1", 1, "{}"))
	first := c.reconciledHardware()
	sameCPU(t, "before the guest runs", nil, first.Spec.Hardware.CPU)
	c.runsOn("one", nil)
	booted := c.reconciledHardware().Spec.Hardware
	sameCPU(t, "the first boot", rome, booted.CPU)
	if booted.SchemaVersion != 2 || len(booted.Devices) == 0 || !cmp.Equal(booted.Devices, first.Spec.Hardware.Devices) {
		t.Errorf("version %d, devices %v", booted.SchemaVersion, booted.Devices)
	}
	later := kubeVirtVMI(t, c.vm(), "2", 2, recordText(t, booted))
	record.PinCPU(later, booted.CPU, true)
	if later.Spec.Domain.CPU.Model != "EPYC-Rome" {
		t.Fatalf("not pinned: %+v", later.Spec.Domain.CPU)
	}
	c.replaceVMI(later)
	c.runsOn("two", nil)
	again := c.reconciledHardware().Spec.Hardware
	sameCPU(t, "a later boot", rome, again.CPU)
	if _, added := again.Devices["disk.y"]; !added {
		t.Error("the later boot is not recorded")
	}
}

// TestCPUWithoutHook: without the hook, the CPU of a VM that asks for a record is recorded, and nothing else. It joins a captured record that has none. The
// record goes with the VM.
func TestCPUWithoutHook(t *testing.T) {
	c := newVMCluster(t, labelledNode("one", "EPYC-Rome", "avx2", "clwb"))
	c.replaceVMI(kubeVirtVMI(t, c.vm(), "1", 1, ""))
	c.runsOn("one", nil)
	if got := c.reconciledHardware(); got != nil {
		t.Fatalf("a VM that asks for nothing has a record: %+v", got)
	}
	c.asksForRecords()
	got := c.reconciledHardware()
	if got == nil || got.Spec.Identity != "seed" || got.Status.Guest.UID != c.vmi().UID || got.Status.VirtualMachineUID != c.vm().UID {
		t.Fatalf("%+v", got)
	}
	sameCPU(t, "a VM that asks", rome, got.Spec.Hardware.CPU)
	if diff := cmp.Diff(&record.Record{SchemaVersion: 2, CPU: got.Spec.Hardware.CPU}, got.Spec.Hardware); diff != "" {
		t.Errorf("more than the CPU is recorded: %s", diff)
	}
	if err := record.Check(got.Spec.Hardware); err != nil {
		t.Error(err)
	}
	for _, object := range []client.Object{c.vm(), c.vmi()} {
		if err := c.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	if left := c.reconciledHardware(); left != nil {
		t.Errorf("the record outlives its VM: %+v", left)
	}

	captured := &v1alpha1.GuestHardware{ObjectMeta: metav1.ObjectMeta{Name: key.Name, Namespace: key.Namespace}}
	captured.Spec = v1alpha1.GuestHardwareSpec{Identity: "seed", Hardware: &record.Record{Machine: "pc-q35-9.2",
		Devices: map[string]record.Address{"disk.z": {PCI: "0000:07:00.0"}}}}
	c = newVMCluster(t, labelledNode("one", "EPYC-Rome", "avx2", "clwb"), captured)
	c.asksForRecords()
	c.replaceVMI(kubeVirtVMI(t, c.vm(), "1", 1, ""))
	c.runsOn("one", nil)
	now, seen := c.reconciledHardware().Spec.Hardware, *rome
	seen.FirstSeen = true
	sameCPU(t, "a captured record", &seen, now.CPU)
	if !cmp.Equal(now.Devices, captured.Spec.Hardware.Devices) || now.Machine != "pc-q35-9.2" {
		t.Errorf("the captured record has changed: %+v", now)
	}
}

// TestUnknownCPU: no CPU is recorded if the labels of the node are not about the boot of the guest, or do not tell.
func TestUnknownCPU(t *testing.T) {
	lying := labelledNode("one", "EPYC-Rome", "avx2", "clwb")
	lying.Labels[v1.HostModelCPULabel+"EPYC"] = "true"
	for _, test := range []struct {
		why  string
		node *corev1.Node
		edit func(*v1.VirtualMachineInstance)
	}{
		{"no node", labelledNode("other", "EPYC-Rome", "avx2"), nil},
		{"two models", lying, nil},
		{"a guest that has migrated", nil, func(vmi *v1.VirtualMachineInstance) {
			vmi.Status.MigrationState = &v1.VirtualMachineInstanceMigrationState{Completed: true}
		}},
		{"a guest of an older KubeVirt", nil, func(vmi *v1.VirtualMachineInstance) { vmi.Labels[v1.OutdatedLauncherImageLabel] = "" }},
		{"a guest that only begins to start", nil, func(vmi *v1.VirtualMachineInstance) { vmi.Status.Phase = v1.Scheduled }},
		{"a model of the owner", nil, func(vmi *v1.VirtualMachineInstance) { vmi.Spec.Domain.CPU.Model = "EPYC-Rome" }},
		{"new hardware", nil, func(vmi *v1.VirtualMachineInstance) {
			vmi.Annotations = map[string]string{v1alpha1.AnnotationHardware: v1alpha1.HardwareLatest}
		}},
	} {
		if test.node == nil {
			test.node = labelledNode("one", "EPYC-Rome", "avx2", "clwb")
		}
		c := newVMCluster(t, test.node)
		c.asksForRecords()
		c.replaceVMI(kubeVirtVMI(t, c.vm(), "1", 1, ""))
		c.runsOn("one", test.edit)
		if got := c.reconciledHardware(); got != nil {
			t.Errorf("%s: %+v", test.why, got.Spec.Hardware)
		}
	}
}

// TestForgottenCPU: a CPU that the next boot is to record anew stays so while the guest runs, also when its devices change, and the next boot records it.
func TestForgottenCPU(t *testing.T) {
	for _, hooked := range []bool{true, false} {
		c := newVMCluster(t, labelledNode("one", "EPYC-Rome", "avx2", "clwb"), labelledNode("two", "EPYC", "avx2"))
		c.asksForRecords()
		text := ""
		if hooked {
			text = "{}"
		}
		c.replaceVMI(kubeVirtVMI(t, c.vm(), "1", 1, text))
		c.runsOn("one", nil)
		booted := c.reconciledHardware()
		sameCPU(t, "the first boot", rome, booted.Spec.Hardware.CPU)
		booted.Spec.Hardware = render.ForgetCPU(booted.Spec.Hardware)
		if err := c.Update(t.Context(), booted); err != nil {
			t.Fatal(err)
		}
		c.runsOn("one", func(vmi *v1.VirtualMachineInstance) {
			vmi.Status.VolumeStatus = append(vmi.Status.VolumeStatus, v1.VolumeStatus{Name: "another", Target: "sdz"})
		})
		forgotten := c.reconciledHardware().Spec.Hardware
		if forgotten.CPU == nil || forgotten.CPU.Requested != v1alpha1.CPURequestedNone {
			t.Errorf("hook %t: the guest that runs has its CPU recorded: %+v", hooked, forgotten.CPU)
		}
		if hooked {
			text = recordText(t, forgotten)
		}
		c.replaceVMI(kubeVirtVMI(t, c.vm(), "2", 1, text))
		c.runsOn("two", nil)
		sameCPU(t, "the next boot", &record.CPU{Requested: "host-model", Model: "EPYC", Vendor: "AMD", Features: []string{"avx2"}},
			c.reconciledHardware().Spec.Hardware.CPU)
	}
}
