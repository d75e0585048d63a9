package node

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/libvirt"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// renderDocuments returns the documents with which a node would start a VMI.
func renderDocuments(t *testing.T, n *Node, vmi *v1.VirtualMachineInstance) backend.Documents {
	t.Helper()
	bound, errs := n.Machine.Bind(t.Context(), vmi, nil)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	rendered, errs := render.Domain(render.Machine{VMI: vmi, Defaults: config.Default().Frontend, Host: n.hostFacts(), Bindings: bound.Bindings})
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return rendered.Documents
}

// foreignDomainXML returns the XML of a domain that the machine's administrator defines.
func foreignDomainXML(name, uuid string) string {
	return `<domain type="qemu"><name>` + name + `</name><uuid>` + uuid + `</uuid><memory unit="MiB">32</memory><vcpu>1</vcpu>` +
		`<os><type arch="x86_64" machine="q35">hvm</type></os></domain>`
}

func startForeignDomain(t *testing.T, d *libvirt.Daemon, xml, name string) {
	t.Helper()
	_, err := d.Define(xml)
	if err == nil {
		err = d.Create(name)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestForeignDomain: a domain that Kiln did not define is neither taken for the guest, nor stopped, nor undefined, even when the VMI is deleted.
func TestForeignDomain(t *testing.T) {
	t.Parallel()
	d := libvirt.Start(t)
	startForeignDomain(t, d, foreignDomainXML("default_db", "11111111-2222-4333-8444-555555555555"), "default_db")
	vmi := claimedVMI(t, "db")
	zero := int64(0)
	vmi.Spec.TerminationGracePeriodSeconds = &zero
	api := newClusterWithHardware(t, vmi)
	n := newNode(t, connectLibvirt(t, d), api, api)
	after := reconcileRepeatedly(t, n, vmi)
	refused := conditionOf(after, v1.VirtualMachineInstanceSynchronized)
	if after.Status.Phase != v1.Scheduled || refused.Status != corev1.ConditionFalse ||
		refused.Reason != "NameTaken" || !strings.Contains(refused.Message, "'default_db'") {
		t.Errorf("phase is '%s', Synchronized is %+v; want the name taken", after.Status.Phase, refused)
	}
	if err := n.Delete(t.Context(), after); err != nil {
		t.Fatal(err)
	}
	if gone := reconcileRepeatedly(t, n, vmi); gone.UID != "" {
		t.Errorf("the VMI stays: phase '%s', finalizers %v", gone.Status.Phase, gone.Finalizers)
	}
	if state, err := d.State("default_db"); err != nil || state != "running" {
		t.Errorf("the administrator's domain is '%s' (%v), want it running as before", state, err)
	}
}

// TestSuccessorOfTheName: a VMI does not get the domain of an earlier VMI with the same name.
func TestSuccessorOfTheName(t *testing.T) {
	t.Parallel()
	d := libvirt.Start(t)
	l := connectLibvirt(t, d)
	vmi := claimedVMI(t, "zombie")
	api := newClusterWithHardware(t, vmi)
	n := newNode(t, l, api, api)
	if first := reconcileRepeatedly(t, n, vmi); first.Status.Phase != v1.Running {
		t.Fatalf("phase is '%s': %v", first.Status.Phase, first.Status.Conditions)
	}
	next := claimedVMI(t, "zombie")
	next.UID = "99999999-6d2a-4c7b-9a43-8f3e1d2c7b6a"
	successors := newClusterWithHardware(t, next)
	m := newNode(t, l, successors, successors)
	second := reconcileRepeatedly(t, m, next)
	if refused := conditionOf(second, v1.VirtualMachineInstanceSynchronized); second.Status.Phase != v1.Scheduled || refused.Reason != "NameTaken" {
		t.Errorf("phase is '%s', Synchronized is %+v; want the name taken", second.Status.Phase, refused)
	}
	for what, err := range map[string]error{
		"Shutdown": l.Shutdown(t.Context(), m.owner(next)), "Destroy": l.Destroy(t.Context(), m.owner(next)), "Remove": l.Remove(t.Context(), m.owner(next)),
	} {
		if err == nil || !strings.Contains(err.Error(), "earlier VirtualMachineInstance") {
			t.Errorf("%s of another's domain: %v", what, err)
		}
	}
	if status, err := l.State(t.Context(), n.owner(vmi)); err != nil || status.State != hypervisor.Running {
		t.Errorf("the first guest is %+v, %v; want it as before", status, err)
	}
}

// TestUUIDOfAnother: a VMI with the UUID of another domain is refused before anything is created, and the message does not name the other owner.
func TestUUIDOfAnother(t *testing.T) {
	t.Parallel()
	d := libvirt.Start(t)
	const uuid = "11111111-2222-4333-8444-555555555555"
	startForeignDomain(t, d, foreignDomainXML("victim_payroll", uuid), "victim_payroll")
	vmi := claimedVMI(t, "clone")
	vmi.Spec.Domain.Firmware.UUID = uuid
	api := newClusterWithHardware(t, vmi)
	n := newNode(t, connectLibvirt(t, d), api, api)
	after := reconcileRepeatedly(t, n, vmi)
	refused := conditionOf(after, v1.VirtualMachineInstanceSynchronized)
	if refused.Reason != "UUIDTaken" || !strings.Contains(refused.Message, uuid) || strings.Contains(refused.Message, "victim") {
		t.Errorf("Synchronized is %+v; want the UUID, and no name of the other", refused)
	}
	if _, err := d.State("default_clone"); err == nil {
		t.Error("the domain was defined all the same")
	}
}

// TestRepeatedStart: after a start whose report was lost, the repeated start does not touch files that the guest has open, and reports the running domain.
func TestRepeatedStart(t *testing.T) {
	t.Parallel()
	d := libvirt.Start(t)
	vmi := claimedVMI(t, "again")
	vmi.Spec.Domain.Devices.Disks = []v1.Disk{{Name: "init", DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: v1.DiskBusVirtio}}}}
	vmi.Spec.Volumes = []v1.Volume{{Name: "init", VolumeSource: v1.VolumeSource{CloudInitNoCloud: &v1.CloudInitNoCloudSource{UserData: "#cloud-config"}}}}
	api := newClusterWithHardware(t, vmi)
	n := newNode(t, connectLibvirt(t, d), api, api)
	first := reconcileRepeatedly(t, n, vmi)
	if first.Status.Phase != v1.Running {
		t.Fatalf("phase is '%s': %v", first.Status.Phase, first.Status.Conditions)
	}
	before := fileTimes(t, n.Machine.Folder(vmi))
	if before["init.iso"] == "" {
		t.Fatalf("the guest has no cloud-init image among %v", before)
	}
	first.Status.Phase, first.Status.Machine = v1.Scheduled, nil
	if err := n.Status().Update(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	second := reconcileRepeatedly(t, n, vmi)
	if second.Status.Phase != v1.Running || second.Status.Machine == nil || !strings.HasPrefix(second.Status.Machine.Type, "pc-q35") {
		t.Errorf("phase is '%s', machine %+v; want what runs", second.Status.Phase, second.Status.Machine)
	}
	for name, was := range before {
		if now := fileTimes(t, n.Machine.Folder(vmi))[name]; now != was && name != "serial.log" {
			t.Errorf("'%s' was touched: %s, now %s", name, was, now)
		}
	}
}

// fileTimes returns time and size of each file of a folder, which change when a file is written or replaced.
func fileTimes(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		all[entry.Name()] = strconv.FormatInt(info.ModTime().UnixNano(), 10) + " " + strconv.FormatInt(info.Size(), 10)
	}
	return all
}

// TestPoweredOffBeforeItsReport: a guest that ended before the launcher reported its start is not started again.
func TestPoweredOffBeforeItsReport(t *testing.T) {
	t.Parallel()
	d := libvirt.Start(t)
	l := connectLibvirt(t, d)
	vmi := claimedVMI(t, "brief")
	api := newClusterWithHardware(t, vmi)
	n := newNode(t, l, api, api)
	first := reconcileRepeatedly(t, n, vmi)
	first.Status.Phase = v1.Scheduled
	if err := n.Status().Update(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if err := d.Destroy("default_brief"); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(vmi)}); err != nil {
		t.Fatal(err)
	}
	checkEnd(t, n, reconcileRepeatedly(t, n, vmi), v1.Failed, "Destroyed")
	if state, err := d.State("default_brief"); err != nil || state != "shut off" {
		t.Errorf("the domain is '%s' (%v), want it left as it ended", state, err)
	}
}

// TestMarkByHand: docs/how-to/bare-machines.md says how to mark the domain of a guest that was started before domains were marked.
func TestMarkByHand(t *testing.T) {
	t.Parallel()
	d := libvirt.Start(t)
	startForeignDomain(t, d, foreignDomainXML("default_old", "11111111-2222-4333-8444-555555555555"), "default_old")
	vmi := claimedVMI(t, "old")
	vmi.Status.Phase = v1.Running
	virsh(t, d, "metadata", "default_old", hypervisor.MarkNamespace, "--key", "kiln", "--live", "--config",
		"--set", `<guest namespace="default" name="old" uid="`+string(vmi.UID)+`" node="here"/>`)
	api := newClusterWithHardware(t, vmi)
	n := newNode(t, connectLibvirt(t, d), api, api)
	after := reconcileRepeatedly(t, n, vmi)
	if after.Status.Phase != v1.Running || conditionOf(after, v1.VirtualMachineInstanceReady).Status != corev1.ConditionTrue {
		t.Errorf("phase is '%s': %v", after.Status.Phase, after.Status.Conditions)
	}
	if err := n.Hypervisor.Remove(t.Context(), n.owner(vmi)); err != nil {
		t.Error(err)
	}
	if _, err := d.State("default_old"); err == nil {
		t.Error("the domain stays")
	}
}
