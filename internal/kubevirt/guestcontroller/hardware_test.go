package guestcontroller

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/ownership"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/explicit"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kubeVirtVMI returns a VMI as KubeVirt creates it for a VM, with the given number of disks and a record.
func kubeVirtVMI(t *testing.T, vm *v1.VirtualMachine, uid string, disks int, text string) *v1.VirtualMachineInstance {
	t.Helper()
	given := &v1.VirtualMachineInstance{}
	given.Name, given.Namespace = vm.Name, vm.Namespace
	given.Spec.Domain.Memory = &v1.Memory{Guest: ptr.To(resource.MustParse("1Gi"))}
	for i := range disks {
		name := string(rune('z' - i)) // before the existing disks
		given.Spec.Domain.Devices.Disks = append([]v1.Disk{{Name: name}}, given.Spec.Domain.Devices.Disks...)
		given.Spec.Volumes = append(given.Spec.Volumes, v1.Volume{Name: name,
			VolumeSource: v1.VolumeSource{EmptyDisk: &v1.EmptyDiskSource{Capacity: resource.MustParse("1Gi")}}})
	}
	vmi := explicit.Expand(t, given)
	vmi.UID = "" // the API server sets it
	vmi.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(vm, v1.VirtualMachineGroupVersionKind)}
	if text != "" {
		vmi.Annotations = map[string]string{v1alpha1.AnnotationFrontend: text}
	}
	vmi.Labels = map[string]string{"boot": uid}
	return vmi
}

// newVMCluster returns a cluster with a VM.
func newVMCluster(t *testing.T, objects ...client.Object) *testCluster {
	t.Helper()
	vm := newVM(v1.RunStrategyAlways)
	vm.Annotations = map[string]string{v1alpha1.AnnotationIdentity: "seed"}
	return newCluster(t, append(objects, vm)...)
}

func (c *testCluster) reconciledHardware() *v1alpha1.GuestHardware {
	c.Helper()
	for range 2 {
		if _, err := c.hardware.Reconcile(c.Context(), ctrl.Request{NamespacedName: key}); err != nil {
			c.Fatal(err)
		}
	}
	hardware, err := ownership.ReadHardware(c.Context(), c.Client, key)
	if err != nil {
		c.Fatal(err)
	}
	return hardware
}

func (c *testCluster) replaceVMI(vmi *v1.VirtualMachineInstance) {
	c.Helper()
	if before := c.vmi(); before != nil {
		if err := c.Delete(c.Context(), before); err != nil {
			c.Fatal(err)
		}
	}
	if err := c.Create(c.Context(), vmi); err != nil {
		c.Fatal(err)
	}
}

func recordText(t *testing.T, r *record.Record) string {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestRecordOfKubeVirtsGuest: each boot with the annotation is recorded, including added devices; no earlier device moves. A record that was captured meanwhile
// stays. The record is deleted with the VM.
func TestRecordOfKubeVirtsGuest(t *testing.T) {
	c := newVMCluster(t)
	c.replaceVMI(kubeVirtVMI(t, c.vm(), "1", 1, "{}"))
	first := c.reconciledHardware()
	want, errs := render.KubeVirt(c.vmi(), nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if first == nil || first.Spec.Identity != "seed" || first.Status.VirtualMachineUID != c.vm().UID || first.Status.Guest.UID != c.vmi().UID ||
		recordText(t, first.Spec.Hardware) != recordText(t, &want) {
		t.Fatalf("%+v", first)
	}
	c.replaceVMI(kubeVirtVMI(t, c.vm(), "2", 2, recordText(t, first.Spec.Hardware)))
	second := c.reconciledHardware()
	for name, at := range first.Spec.Hardware.Devices {
		if now := second.Spec.Hardware.Devices[name]; !cmp.Equal(at, now) {
			t.Errorf("%s was at %s and is at %s", name, at, now)
		}
	}
	if second.Spec.Hardware.Devices["disk.y"].PCI == "" && second.Spec.Hardware.Devices["disk.y"].Drive == "" || second.Status.Guest.UID != c.vmi().UID {
		t.Errorf("the new disk has no place: %+v", second)
	}
	captured := second.DeepCopy()
	captured.Spec.Hardware.Machine = "pc-q35-7.2"
	if err := c.Update(t.Context(), captured); err != nil {
		t.Fatal(err)
	}
	c.replaceVMI(kubeVirtVMI(t, c.vm(), "3", 3, recordText(t, second.Spec.Hardware)))
	if got := c.reconciledHardware(); got.Spec.Hardware.Machine != "pc-q35-7.2" || got.Spec.Hardware.Devices["disk.x"] != (record.Address{}) ||
		got.Status.Guest.UID != c.vmi().UID {
		t.Errorf("what was captured while the VMI was made is overwritten: %+v", got)
	}
	if err := c.Delete(t.Context(), c.vm()); err != nil {
		t.Fatal(err)
	}
	if c.reconciledHardware() == nil {
		t.Error("the record goes before the VMI")
	}
	if err := c.Delete(t.Context(), c.vmi()); err != nil {
		t.Fatal(err)
	}
	if got := c.reconciledHardware(); got != nil {
		t.Errorf("the record outlives its VM: %+v", got)
	}
}

// TestNewerRecordOfKubeVirtsGuest: a boot that adds a disk keeps the fields that a later version of Kiln has recorded.
func TestNewerRecordOfKubeVirtsGuest(t *testing.T) {
	c := newVMCluster(t)
	c.replaceVMI(kubeVirtVMI(t, c.vm(), "1", 1, "{}"))
	stored := c.reconciledHardware()
	stored.Spec.Hardware.SchemaVersion, stored.Spec.Hardware.Unknown = 3, map[string]json.RawMessage{"cache": json.RawMessage(`{"model":"a<b"}`)}
	if err := c.Update(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	c.replaceVMI(kubeVirtVMI(t, c.vm(), "2", 2, recordText(t, stored.Spec.Hardware)))
	now := c.reconciledHardware().Spec.Hardware
	if _, added := now.Devices["disk.y"]; !added || now.SchemaVersion != 3 || !cmp.Equal(now.Unknown, read(t, recordText(t, stored.Spec.Hardware)).Unknown) {
		t.Errorf("%+v", now)
	}
}

func read(t *testing.T, text string) (out record.Record) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestNoRecordOfKubeVirtsGuest: for these guests no GuestHardware is created, or the existing one stays.
func TestNoRecordOfKubeVirtsGuest(t *testing.T) {
	foreign := &v1alpha1.GuestHardware{ObjectMeta: metav1.ObjectMeta{Name: key.Name, Namespace: key.Namespace}}
	foreign.Spec = v1alpha1.GuestHardwareSpec{Identity: "other", Hardware: &record.Record{Machine: "pc-q35-6.0"}}
	for _, test := range []struct {
		why, text string
		edit      func(*v1.VirtualMachineInstance)
		hardware  *v1alpha1.GuestHardware
	}{
		{why: "no annotation"},
		{why: "one that nobody wrote", text: "{"},
		{why: "one that is in no GuestHardware, of a tenant's template", text: `{"defaults": "v1", "digest": "", "machine": "pc-q35-6.0"}`},
		{why: "a VMI of nobody", text: "{}", edit: func(vmi *v1.VirtualMachineInstance) { vmi.OwnerReferences = nil }},
		{why: "a VMI of another VM", text: "{}", edit: func(vmi *v1.VirtualMachineInstance) { vmi.OwnerReferences[0].UID = "older" }},
		{why: "a guest that has ended", text: "{}", edit: func(vmi *v1.VirtualMachineInstance) { vmi.Status.Phase = v1.Succeeded }},
		{why: "a guest that Kiln cannot render", text: "{}", edit: func(vmi *v1.VirtualMachineInstance) { vmi.Spec.Domain.Memory = nil }},
		{why: "a record that a backup brought for another guest", text: "{}", hardware: foreign},
	} {
		var objects []client.Object
		if test.hardware != nil {
			objects = append(objects, test.hardware)
		}
		c := newVMCluster(t, objects...)
		vmi := kubeVirtVMI(t, c.vm(), "1", 1, test.text)
		if test.edit != nil {
			test.edit(vmi)
		}
		c.replaceVMI(vmi)
		got := c.reconciledHardware()
		if (got != nil) != (test.hardware != nil) || got != nil && !cmp.Equal(got.Spec, foreign.Spec) {
			t.Errorf("%s: %+v", test.why, got)
		}
	}
}

// TestStaleRecordOfKubeVirtsGuest: the record of an earlier VM of the name is replaced.
func TestStaleRecordOfKubeVirtsGuest(t *testing.T) {
	stale := &v1alpha1.GuestHardware{ObjectMeta: metav1.ObjectMeta{Name: key.Name, Namespace: key.Namespace}}
	stale.Spec = v1alpha1.GuestHardwareSpec{Identity: "other", Hardware: &record.Record{Machine: "pc-q35-6.0"}}
	stale.Status.VirtualMachineUID = "older"
	c := newVMCluster(t, stale)
	c.replaceVMI(kubeVirtVMI(t, c.vm(), "1", 1, "{}"))
	if got := c.reconciledHardware(); got == nil || got.Spec.Identity != "seed" || got.Spec.Hardware.Machine != "" {
		t.Errorf("%+v", got)
	}
}

// TestPluggedIntoKubeVirtsGuest: a plugged-in device is recorded when the status contains it, also after a restart of the controller. A record that an
// administrator has captured is continued.
func TestPluggedIntoKubeVirtsGuest(t *testing.T) {
	c := newVMCluster(t)
	c.replaceVMI(kubeVirtVMI(t, c.vm(), "1", 1, "{}"))
	booted := c.reconciledHardware()
	plug := func(name, target string) {
		t.Helper()
		vmi := c.vmi()
		if target == "" {
			vmi.Spec.Domain.Devices.Disks = append(vmi.Spec.Domain.Devices.Disks, v1.Disk{Name: name,
				DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: v1.DiskBusVirtio}}})
			vmi.Spec.Volumes = append(vmi.Spec.Volumes, v1.Volume{Name: name,
				VolumeSource: v1.VolumeSource{EmptyDisk: &v1.EmptyDiskSource{Capacity: resource.MustParse("1Gi")}}})
			if err := c.Update(t.Context(), vmi); err != nil {
				t.Fatal(err)
			}
			return
		}
		vmi.Status.VolumeStatus = append(vmi.Status.VolumeStatus, v1.VolumeStatus{Name: name, Target: target})
		if err := c.Status().Update(t.Context(), vmi); err != nil {
			t.Fatal(err)
		}
	}
	plug("b", "")
	if got := c.reconciledHardware(); !cmp.Equal(got.Spec, booted.Spec) {
		t.Errorf("recorded before it was plugged in: %v", cmp.Diff(booted.Spec, got.Spec))
	}
	plug("b", "vdb")
	first := c.reconciledHardware()
	if first.Spec.Hardware.Devices["disk.b"].PCI == "" || first.Spec.Hardware.Devices["disk.z"] != booted.Spec.Hardware.Devices["disk.z"] {
		t.Fatalf("not recorded: %+v", first.Spec.Hardware.Devices)
	}
	captured := first.DeepCopy()
	captured.Spec.Hardware.Machine = "pc-q35-7.2"
	if err := c.Update(t.Context(), captured); err != nil {
		t.Fatal(err)
	}
	plug("c", "")
	plug("c", "vdc")
	c.hardware = c.newHardwareReconciler() // the controller starts again
	second := c.reconciledHardware()
	got, was := second.Spec.Hardware, first.Spec.Hardware
	if got.Devices["disk.c"].PCI == "" || got.Devices["disk.b"] != was.Devices["disk.b"] || got.Machine != "pc-q35-7.2" {
		t.Errorf("not continued: %+v", got)
	}
	plug("gone", "vdd") // and is leaving
	plug("d", "")
	plug("d", "vde")
	if got := c.reconciledHardware(); !cmp.Equal(got.Spec, second.Spec) {
		t.Errorf("recorded while a disk is leaving: %v", cmp.Diff(second.Spec, got.Spec))
	}
}
