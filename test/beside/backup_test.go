package beside

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/nightly"
	"github.com/kilnvm/kiln/test/velero"
	v1 "kubevirt.io/api/core/v1"
)

// excluded are the resources that docs/how-to/install-beside-kubevirt.md leaves out of a restore.
var excluded = []string{"pods", "virtualmachineinstances.kubevirt.io", "virtualmachineinstancemigrations.kubevirt.io"}

// backedUp is what a VM with each kind of pin is made of.
var backedUp = []string{small, virtio, `
{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstancePreset, metadata: {name: watched},
 spec: {selector: {matchLabels: {tier: web}}, domain: {devices: {watchdog: {name: dog, i6300esb: {action: reset}}}}}}`, `
{apiVersion: kilnvm.io/v1alpha1, kind: GuestProfile, metadata: {name: web}, spec: {selector: {matchLabels: {tier: web}},
 template: {spec: {terminationGracePeriodSeconds: 120, domain: {ioThreadsPolicy: auto}}}}}`,
	strings.NewReplacer("runStrategy: Always", "runStrategy: Halted", "template: {metadata: {}", "template: {metadata: {labels: {tier: web}}").Replace(sized)}

// restorable is what a guest is: what its VM is pinned to, its VMI, and the record of its hardware.
type restorable struct {
	Pins, Identity, PinsOfVMI string
	VMI                       v1.VirtualMachineInstanceSpec
	Hardware                  any
}

func (s space) restorable(name string) restorable {
	s.Helper()
	vm, vmi := s.machine(name), s.guest(name)
	return restorable{vm.Annotations[v1alpha1.AnnotationPins], vm.Annotations[v1alpha1.AnnotationIdentity], vmi.Annotations[v1alpha1.AnnotationPins],
		vmi.Spec, s.get("guesthardware", name).Object["spec"]}
}

// TestBackupInVelerosOrder: a namespace of KubeVirt has a VM with a pin of each kind, recorded hardware, and a guest that was migrated. It is restored in
// another cluster with KubeVirt and Kiln, with other UIDs and without statuses, in the order in which Velero creates objects. The same guest starts there,
// although the instancetype was edited before the backup. Without the revisions the guest gets the edited instancetype, and an event reports that. Without the
// record the guest has no recorded address, and nothing reports that.
func TestBackupInVelerosOrder(t *testing.T) {
	nightly.Only(t) // it starts a second KubeVirt; test/e2e has this order without KubeVirt
	s := newSpace(t)
	t.Parallel()
	for _, object := range backedUp {
		s.create(object)
	}
	s.pinned("sized")
	s.create("{apiVersion: kilnvm.io/v1alpha1, kind: GuestHardware, metadata: {name: sized}, spec: {identity: '" +
		s.machine("sized").Annotations[v1alpha1.AnnotationIdentity] + "', hardware: " + hardwareText() + "}}")
	s.ok(s.on.MergePatch(t.Context(), s.in("vmf"), "small", `{"spec": {"cpu": {"guest": 4}}}`))
	s.must("start", "sized")
	live{s, "sized", s.runs("sized")}.migrates()
	was := s.restorable("sized")
	if at := was.VMI.Domain.Devices.Disks[0].Disk.PciAddress; at != "0000:07:00.0" || was.VMI.Domain.CPU.Sockets != 1 || was.VMI.Domain.Devices.Watchdog == nil {
		t.Fatalf("the guest has a disk at '%s', CPUs %+v, watchdog %+v", at, was.VMI.Domain.CPU, was.VMI.Domain.Devices.Watchdog)
	}
	saved, err := velero.Save(func(args ...string) (string, error) {
		stdout, stderr, err := s.on.Kubectl(t.Context(), "", append([]string{"--namespace", s.name}, args...)...)
		if err != nil {
			err = fmt.Errorf("%w: %s", err, stderr)
		}
		return stdout, err
	})
	s.ok(err)
	for _, resource := range append([]string{"controllerrevisions.apps", "guesthardwares.kilnvm.io"}, excluded...) {
		if len(saved[resource]) == 0 {
			t.Errorf("the backup has no %s", resource)
		}
	}

	other := anotherCluster(t)
	restored := func(name string, without ...string) space {
		s.ok(other.MakeNamespace(t.Context(), name))
		in := space{t, other, name}
		text, err := saved.Manifest(name, slices.Concat(excluded, without)...)
		s.ok(err)
		_, stderr, _ := other.Kubectl(t.Context(), text, "create", "-f", "-", "--as="+velero.Account) // an error is among the lines
		if errs := velero.Errors(stderr); errs != "" {
			t.Errorf("%s: %s", name, errs)
		}
		in.runs("sized")
		return in
	}
	// Migrations come before VMIs by name. A migration that is restored later would move the guest.
	const migrations = "virtualmachineinstancemigrations.kubevirt.io"
	text, err := velero.Backup{migrations: saved[migrations]}.Manifest("default")
	s.ok(err)
	if _, stderr, _ := other.Kubectl(t.Context(), text, "create", "-f", "-"); !strings.Contains(stderr, "does not exist") {
		t.Errorf("a migration is restored without its guest: %s", stderr)
	}

	in := restored(s.name)
	if diff := cmp.Diff(was, in.restorable("sized")); diff != "" {
		t.Errorf("another guest (-saved +restored):\n%s", diff)
	}
	if lost := in.events("RevisionMissing"); len(lost) > 0 {
		t.Errorf("the whole backup was restored, and there are the events %v", lost)
	}
	in.must("restart", "sized")
	if again := in.runs("sized", string(in.guest("sized").UID)); cmp.Diff(was.VMI, again.Spec) != "" {
		t.Errorf("after a restart (-saved +now):\n%s", cmp.Diff(was.VMI, again.Spec))
	}

	in = restored("without-revisions", "controllerrevisions.apps")
	if cpu := in.guest("sized").Spec.Domain.CPU; cpu.Sockets*max(cpu.Cores, 1)*max(cpu.Threads, 1) != 4 {
		t.Errorf("without its revisions the guest has not the current instancetype: %+v", cpu)
	}
	in.eventually("an event says that revisions are missing", func() (bool, any) {
		lost := in.events("RevisionMissing")
		return len(lost) > 0, lost
	})

	in = restored("without-hardware", "guesthardwares.kilnvm.io")
	if at := in.guest("sized").Spec.Domain.Devices.Disks[0].Disk.PciAddress; at != "" {
		t.Errorf("without a record the disk is at '%s'", at)
	}
	if refused := other.Refused(); len(refused) > 0 {
		t.Errorf("components were refused: %v", refused)
	}
}

// pinned waits until a VM has a pin of each kind. Replicas of the webhook may see preset and profile later than the VM.
func (s space) pinned(name string) {
	s.Helper()
	s.eventually(name+" is pinned to all", func() (bool, any) {
		s.patch(name, `{"metadata": {"annotations": {"kilnvm.io/pins": ""}}}`)
		text, pins := s.machine(name).Annotations[v1alpha1.AnnotationPins], v1alpha1.Pins{}
		err := json.Unmarshal([]byte(text), &pins)
		return err == nil && pins.Instancetype != "" && pins.Preference != "" && len(pins.Presets) == 1 && len(pins.Profiles) == 1, text
	})
}

// anotherCluster starts a cluster with KubeVirt and Kiln. Velero's account has the rights there that it has by default, and Kiln's permission to write
// revisions.
func anotherCluster(t *testing.T) *cluster.Beside {
	t.Helper()
	dir, err := cluster.Dir("kiln-beside-restored")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	other, err := start(t.Context(), dir, cluster.Options{Guests: "kubevirt"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(other.Logs())
		}
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := other.AddKiln(t.Context()); err != nil {
		t.Fatal(err)
	}
	kubectl := func(args ...string) string {
		stdout, stderr, err := other.Kubectl(t.Context(), "", args...)
		if err != nil {
			t.Fatalf("kubectl %v: %v: %s", args, err, stderr)
		}
		return stdout
	}
	kubectl("create", "clusterrolebinding", "velero", "--clusterrole=cluster-admin", "--serviceaccount=velero:velero")
	writers := kubectl("get", "configmap", "kiln-revision-writers", "-n", "kiln-system", "-o", "jsonpath={.data.writers}")
	patch, err := json.Marshal(map[string]any{"data": map[string]any{"writers": writers + velero.Account + "\n"}})
	if err != nil {
		t.Fatal(err)
	}
	kubectl("patch", "configmap", "kiln-revision-writers", "-n", "kiln-system", "--type=merge", "-p", string(patch))
	return other
}
