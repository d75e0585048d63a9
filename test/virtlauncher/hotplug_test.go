package virtlauncher

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"

	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/nightly"
)

// TestHotplugVolume: volumes are plugged into a running guest, and one is unplugged: by virtctl, and by an edit of the VM. Each time the guest itself reports
// what came or went, in the same boot, and the VM need not be restarted. It is the same beside Kiln.
func TestHotplugVolume(t *testing.T) {
	require(t)
	nightly.Only(t)
	both(t, func(g space) {
		l := g.plugsInto(machine)
		g.claim("first")
		g.virtctl("addvolume", "demo", "--volume-name=first", "--serial=of-virtctl", "--persist")
		g.sees("a disk of virtctl", hasDisk("of-virtctl"))
		g.virtctl("removevolume", "demo", "--volume-name=first", "--persist")
		g.sees("no disk of virtctl", func(r guest.Report) bool { return len(r.Disks) == 1 })
		g.claim("second")
		g.edit(`[{"op": "add", "path": "/spec/template/spec/domain/devices/disks/-",
				"value": {"name": "second", "serial": "of-an-edit", "disk": {"bus": "scsi"}}},
			{"op": "add", "path": "/spec/template/spec/volumes/-",
				"value": {"name": "second", "persistentVolumeClaim": {"claimName": "second", "hotpluggable": true}}}]`)
		g.sees("a disk of an edit", hasDisk("of-an-edit"))
		l.goesOn()
	})
}

// live is a guest before something is plugged in.
type live struct {
	space
	uid, boot string
	report    guest.Report
}

// plugsInto starts the guest of a VM, and waits for what it has without anything plugged in.
func (g space) plugsInto(vm string) live {
	g.Helper()
	g.create(vm)
	g.virtctl("start", "demo")
	l := live{space: g, uid: string(g.runs("demo", "").UID)}
	g.treated("demo", true)
	l.boot = g.boot("demo")
	l.report = g.sees("its first hardware", func(r guest.Report) bool { return len(r.CPUs) == 1 && len(r.Disks) == 1 && len(r.NICs) == 1 })
	return l
}

// goesOn fails the test if the guest was restarted, or must be for what was plugged in. Then it deletes the VM.
func (l live) goesOn() {
	l.Helper()
	if vmi, boot := l.vmi("demo"), l.space.boot("demo"); string(vmi.UID) != l.uid || boot != l.boot {
		l.Errorf("the guest has been restarted: VMI %s, it was %s; boot %s, it was %s", vmi.UID, l.uid, boot, l.boot)
	}
	for _, condition := range l.vm("demo").Status.Conditions {
		if condition.Type == v1.VirtualMachineRestartRequired && condition.Status == corev1.ConditionTrue {
			l.Errorf("the VM must be restarted: %s", condition.Message)
		}
	}
	l.kubectl("delete", "vm", "demo", "--timeout=180s")
	l.gone("vm,vmi,pods")
}

// sees waits until the guest reports that it has something.
func (g space) sees(what string, has func(guest.Report) bool) (report guest.Report) {
	g.Helper()
	g.eventually("the guest sees "+what, func() (bool, any) {
		text, err := ask(g.Context(), g.address("demo"), "/report")
		if err == nil {
			report, err = guest.ParseReport(strings.NewReader(text))
		}
		return err == nil && has(report), fmt.Sprintf("%v: CPUs %v, %d KiB, disks %+v, cards %+v; VMI: %+v", err, report.CPUs, report.MemoryKiB,
			report.Disks, report.NICs, g.vmi("demo").Status)
	})
	return report
}

// hasDisk reports whether a guest has a disk with a serial number, of the size of claim.
func hasDisk(serial string) func(guest.Report) bool {
	return func(r guest.Report) bool {
		return slices.ContainsFunc(r.Disks, func(d guest.Disk) bool { return d.Serial == serial && d.Bytes == claimed })
	}
}

// edit patches the VM, as its owner does.
func (g space) edit(patch string) {
	g.Helper()
	g.kubectl("patch", "vm", "demo", "--type=json", "--patch", patch)
}

// claimed is the size of claims.
const claimed = 64 << 20

// claim makes a PVC on a folder of this machine, which both nodes see. It has the image of a disk that belongs to QEMU's account.
func (g space) claim(name string) {
	g.Helper()
	folder := filepath.Join(installed.Dir, g.name+"-"+name)
	image := filepath.Join(folder, "disk.img")
	if err := os.Mkdir(folder, 0o755); err != nil {
		g.Fatal(err)
	}
	for _, do := range []func() error{
		func() error { return os.WriteFile(image, nil, 0o660) },
		func() error { return os.Truncate(image, claimed) },
		func() error { return os.Chown(image, 107, 107) },
		func() error { return os.Chown(folder, 107, 107) },
	} {
		if err := do(); err != nil {
			g.Fatal(err)
		}
	}
	volume := g.name + "-" + name
	g.create(fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolume, metadata: {name: %s}, spec: {accessModes: [ReadWriteMany], capacity: {storage: 64Mi},
		persistentVolumeReclaimPolicy: Retain, hostPath: {path: %s, type: Directory}}}`, volume, folder))
	g.create(fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: %s}, spec: {accessModes: [ReadWriteMany], volumeName: %s,
		storageClassName: "", resources: {requests: {storage: 64Mi}}}}`, name, volume))
}
