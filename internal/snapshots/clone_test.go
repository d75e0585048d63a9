package snapshots

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/snapshot"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clone "kubevirt.io/api/clone/v1beta1"
	v1 "kubevirt.io/api/core/v1"
)

// TestClone: a clone has the device addresses of its source, another identity, and disks of its own.
func TestClone(t *testing.T) {
	c := newCluster(t, withVolumeSnapshots, storageObjects()...)
	of := cloneOf("copy", "web")
	of.Spec.NewMacAddresses = map[string]string{"lan": "02:00:00:00:00:07"}
	of.Spec.NewSMBiosSerial = ptr.To("two")
	c.must(c.Create(t.Context(), of))
	c.reconcileAll(c.runDriver)
	done := readObject(c, "copy", &clone.VirtualMachineClone{}).Status
	if done.Phase != clone.Succeeded || *done.TargetName != "two" || done.CreationTime == nil {
		t.Fatalf("%+v", done)
	}
	two, hardware := c.vm("two"), c.hardware("two")
	if two.Labels["app"] != "" || *two.Spec.RunStrategy != v1.RunStrategyHalted || two.Annotations[v1alpha1.AnnotationIdentity] == "seed" ||
		two.Annotations[v1alpha1.AnnotationPins] != c.vm("web").Annotations[v1alpha1.AnnotationPins] {
		t.Errorf("%+v", two.ObjectMeta)
	}
	spec := two.Spec.Template.Spec
	if spec.Domain.Devices.Interfaces[0].MacAddress != "02:00:00:00:00:07" || spec.Domain.Firmware.Serial != "two" ||
		!strings.HasPrefix(spec.Volumes[0].PersistentVolumeClaim.ClaimName, "restore-") {
		t.Errorf("%+v", spec)
	}
	was, is := testHardware().Spec.Hardware, hardware.Spec.Hardware
	if hardware.Spec.Identity != two.Annotations[v1alpha1.AnnotationIdentity] || is.UUID == was.UUID || is.Serial != "two" ||
		is.MACs["lan"] != "02:00:00:00:00:07" || !cmp.Equal(is.Devices, was.Devices) || is.Machine != was.Machine ||
		!cmp.Equal(is.CPU, was.CPU) || is.SchemaVersion != was.SchemaVersion {
		t.Errorf("%+v", hardware.Spec)
	}
	if c.vm("web").Status.SnapshotInProgress != nil || len(c.vm("web").Finalizers) > 0 {
		t.Errorf("the source is locked: %+v", c.vm("web").Status)
	}
}

// TestImpossibleClones: a VM that cannot be cloned is refused with the reason, and neither a VM nor a GuestHardware is created.
func TestImpossibleClones(t *testing.T) {
	for why, test := range map[string]struct {
		change func(*cluster, *clone.VirtualMachineClone)
		want   string
	}{
		"a disk of two VMs": {func(*cluster, *clone.VirtualMachineClone) {}, "two VMs would write to one disk"},
		"state of two VMs": {func(c *cluster, _ *clone.VirtualMachineClone) {
			vm := c.vm("web")
			vm.Spec.Template.Spec.Domain.Devices.TPM = &v1.TPMDevice{Persistent: new(true)}
			c.must(c.Update(c.Context(), vm))
		}, "may not be in two VMs"},
		"no right":     {func(c *cluster, _ *clone.VirtualMachineClone) { c.denied["create virtualmachines"] = true }, "may not create virtualmachines"},
		"nobody asked": {func(_ *cluster, of *clone.VirtualMachineClone) { of.Annotations = nil }, "kilnvm.io/asker"},
		"itself":       {func(_ *cluster, of *clone.VirtualMachineClone) { of.Spec.Target.Name = "web" }, "spec.target.name"},
	} {
		c := newCluster(t, nil, testObjects()...)
		of := cloneOf("copy", "web")
		test.change(c, of)
		c.must(c.Create(t.Context(), of))
		c.reconcileAll()
		status := readObject(c, "copy", &clone.VirtualMachineClone{}).Status
		if status.Phase != clone.Failed || !strings.Contains(status.Conditions[0].Message, test.want) {
			t.Errorf("%s: %+v", why, status)
		}
		if c.vm("two") != nil || c.hardware("two") != nil {
			t.Errorf("%s: something was made", why)
		}
	}
}

// TestHardwareOfTheTarget: a restore into a new name replaces the GuestHardware of a VM that is gone, and does not use one that a backup brought.
func TestHardwareOfTheTarget(t *testing.T) {
	vm := testVM()
	vm.Spec.Template.Spec.Volumes = nil
	stale := &v1alpha1.GuestHardware{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "two"}, Spec: v1alpha1.GuestHardwareSpec{Identity: "gone",
		Hardware: &v1alpha1.HardwareRecord{Defaults: "v1", Machine: "pc-q35-7.2"}}, Status: v1alpha1.GuestHardwareStatus{VirtualMachineUID: "gone"}}
	c := newCluster(t, nil, vm, testHardware(), instancetypeRevision(), testNetwork(), stale)
	c.must(c.Create(t.Context(), snapshotOf("s")))
	c.reconcileAll()
	c.must(c.Create(t.Context(), restoreOf("r", "two")))
	c.reconcileAll()
	if of := c.hardware("two"); c.vm("two") == nil || of.Spec.Hardware.Machine != "pc-q35-9.2" || of.Status.VirtualMachineUID != "" ||
		of.Spec.Identity != c.vm("two").Annotations[v1alpha1.AnnotationIdentity] || c.vm("two").Annotations[snapshot.Mark] == "" {
		t.Errorf("%+v", of)
	}
	foreign := stale.DeepCopy()
	foreign.Name, foreign.ResourceVersion, foreign.Status = "three", "", v1alpha1.GuestHardwareStatus{}
	c.must(c.Create(t.Context(), foreign))
	c.must(c.Status().Update(t.Context(), foreign))
	other := restoreOf("other", "three")
	other.UID = "r-2"
	c.must(c.Create(t.Context(), other))
	c.reconcileAll()
	if c.vm("three") != nil || c.hardware("three").Spec.Identity != "gone" {
		t.Error("hardware that a backup brought for another guest is used or deleted")
	}
}
