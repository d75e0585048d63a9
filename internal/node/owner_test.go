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

// rendered are the documents of a VMI as a node would start it.
func rendered(t *testing.T, n *Node, vmi *v1.VirtualMachineInstance) backend.Documents {
	t.Helper()
	bound, errs := n.Machine.Bind(t.Context(), vmi, nil)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	rendered, errs := render.Domain(render.Machine{VMI: vmi, Defaults: config.Default().Frontend, Host: n.facts(), Bindings: bound.Bindings})
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return rendered.Documents
}

// foreign is a domain of the machine's administrator.
func foreign(name, uuid string) string {
	return `<domain type="qemu"><name>` + name + `</name><uuid>` + uuid + `</uuid><memory unit="MiB">32</memory><vcpu>1</vcpu>` +
		`<os><type arch="x86_64" machine="q35">hvm</type></os></domain>`
}

func starts(t *testing.T, d *libvirt.Daemon, xml, name string) {
	t.Helper()
	_, err := d.Define(xml)
	if err == nil {
		err = d.Create(name)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestForeignDomain: a domain that Kiln did not make is neither taken for the guest, nor stopped, nor undefined, whatever becomes
// of the VMI.
func TestForeignDomain(t *testing.T) {
	t.Parallel()
	d := libvirt.Start(t)
	starts(t, d, foreign("default_db", "11111111-2222-4333-8444-555555555555"), "default_db")
	vmi := claimed(t, "db")
	zero := int64(0)
	vmi.Spec.TerminationGracePeriodSeconds = &zero
	api := holding(t, vmi)
	n := node(t, connected(t, d), api, api)
	after := run(t, n, vmi)
	refused := conditionOf(after, v1.VirtualMachineInstanceSynchronized)
	if after.Status.Phase != v1.Scheduled || refused.Status != corev1.ConditionFalse ||
		refused.Reason != "NameTaken" || !strings.Contains(refused.Message, "'default_db'") {
		t.Errorf("phase is '%s', Synchronized is %+v; want the name taken", after.Status.Phase, refused)
	}
	if err := n.Delete(t.Context(), after); err != nil {
		t.Fatal(err)
	}
	if gone := run(t, n, vmi); gone.UID != "" {
		t.Errorf("the VMI stays: phase '%s', finalizers %v", gone.Status.Phase, gone.Finalizers)
	}
	if state, err := d.State("default_db"); err != nil || state != "running" {
		t.Errorf("the administrator's domain is '%s' (%v), want it running as before", state, err)
	}
}

// TestSuccessorOfTheName: a VMI does not get the guest of an earlier one of its name.
func TestSuccessorOfTheName(t *testing.T) {
	t.Parallel()
	d := libvirt.Start(t)
	l := connected(t, d)
	vmi := claimed(t, "zombie")
	api := holding(t, vmi)
	n := node(t, l, api, api)
	if first := run(t, n, vmi); first.Status.Phase != v1.Running {
		t.Fatalf("phase is '%s': %v", first.Status.Phase, first.Status.Conditions)
	}
	next := claimed(t, "zombie")
	next.UID = "99999999-6d2a-4c7b-9a43-8f3e1d2c7b6a"
	successors := holding(t, next)
	m := node(t, l, successors, successors)
	second := run(t, m, next)
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

// TestUUIDOfAnother: a VMI with the UUID of another domain is refused before anything is created, by a message that names no other owner.
func TestUUIDOfAnother(t *testing.T) {
	t.Parallel()
	d := libvirt.Start(t)
	const uuid = "11111111-2222-4333-8444-555555555555"
	starts(t, d, foreign("victim_payroll", uuid), "victim_payroll")
	vmi := claimed(t, "clone")
	vmi.Spec.Domain.Firmware.UUID = uuid
	api := holding(t, vmi)
	n := node(t, connected(t, d), api, api)
	after := run(t, n, vmi)
	refused := conditionOf(after, v1.VirtualMachineInstanceSynchronized)
	if refused.Reason != "UUIDTaken" || !strings.Contains(refused.Message, uuid) || strings.Contains(refused.Message, "victim") {
		t.Errorf("Synchronized is %+v; want the UUID, and no name of the other", refused)
	}
	if _, err := d.State("default_clone"); err == nil {
		t.Error("the domain was defined all the same")
	}
}

// TestRepeatedStart: a start whose report was lost touches nothing that the guest has open, and reports what runs.
func TestRepeatedStart(t *testing.T) {
	t.Parallel()
	d := libvirt.Start(t)
	vmi := claimed(t, "again")
	vmi.Spec.Domain.Devices.Disks = []v1.Disk{{Name: "init", DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: v1.DiskBusVirtio}}}}
	vmi.Spec.Volumes = []v1.Volume{{Name: "init", VolumeSource: v1.VolumeSource{CloudInitNoCloud: &v1.CloudInitNoCloudSource{UserData: "#cloud-config"}}}}
	api := holding(t, vmi)
	n := node(t, connected(t, d), api, api)
	first := run(t, n, vmi)
	if first.Status.Phase != v1.Running {
		t.Fatalf("phase is '%s': %v", first.Status.Phase, first.Status.Conditions)
	}
	before := files(t, n.Machine.Folder(vmi))
	if before["init.iso"] == "" {
		t.Fatalf("the guest has no cloud-init image among %v", before)
	}
	first.Status.Phase, first.Status.Machine = v1.Scheduled, nil
	if err := n.Status().Update(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	second := run(t, n, vmi)
	if second.Status.Phase != v1.Running || second.Status.Machine == nil || !strings.HasPrefix(second.Status.Machine.Type, "pc-q35") {
		t.Errorf("phase is '%s', machine %+v; want what runs", second.Status.Phase, second.Status.Machine)
	}
	for name, was := range before {
		if now := files(t, n.Machine.Folder(vmi))[name]; now != was && name != "serial.log" {
			t.Errorf("'%s' was touched: %s, now %s", name, was, now)
		}
	}
}

// files are those of a folder, with what changes when one is written or replaced.
func files(t *testing.T, dir string) map[string]string {
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

// TestPoweredOffBeforeItsReport: a guest that powered off before the launcher could report that it runs is not started again.
func TestPoweredOffBeforeItsReport(t *testing.T) {
	t.Parallel()
	d := libvirt.Start(t)
	l := connected(t, d)
	vmi := claimed(t, "brief")
	api := holding(t, vmi)
	n := node(t, l, api, api)
	first := run(t, n, vmi)
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
	ended(t, n, run(t, n, vmi), v1.Failed, "Destroyed")
	if state, err := d.State("default_brief"); err != nil || state != "shut off" {
		t.Errorf("the domain is '%s' (%v), want it left as it ended", state, err)
	}
}

// TestMarkByHand: the way in docs/operations.md of a guest that was started before domains were marked.
func TestMarkByHand(t *testing.T) {
	t.Parallel()
	d := libvirt.Start(t)
	starts(t, d, foreign("default_old", "11111111-2222-4333-8444-555555555555"), "default_old")
	vmi := claimed(t, "old")
	vmi.Status.Phase = v1.Running
	virsh(t, d, "metadata", "default_old", hypervisor.MarkNamespace, "--key", "kiln", "--live", "--config",
		"--set", `<guest namespace="default" name="old" uid="`+string(vmi.UID)+`" node="here"/>`)
	api := holding(t, vmi)
	n := node(t, connected(t, d), api, api)
	if after := run(t, n, vmi); after.Status.Phase != v1.Running || conditionOf(after, v1.VirtualMachineInstanceReady).Status != corev1.ConditionTrue {
		t.Errorf("phase is '%s': %v", after.Status.Phase, after.Status.Conditions)
	}
	if err := n.Hypervisor.Remove(t.Context(), n.owner(vmi)); err != nil {
		t.Error(err)
	}
	if _, err := d.State("default_old"); err == nil {
		t.Error("the domain stays")
	}
}
