package beside

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
)

// objectVersion is the label by which KubeVirt knows that a revision is of the newest API. Revisions of old versions of KubeVirt lack it.
const objectVersion = "instancetype.kubevirt.io/object-version"

// TestRevisionsUpgraded: a VM of an old KubeVirt names a revision without the label, and KubeVirt stores its content again. The VM then is pinned to what it
// was, starts with it, and the revision that other VMs are pinned to stays.
func TestRevisionsUpgraded(t *testing.T) {
	s := newSpace(t)
	s.create(small)
	s.create(virtio)
	s.create(sized)
	s.create(strings.NewReplacer("name: sized", "name: old", "Always", "Halted").Replace(sized))
	was := s.runs("sized")
	shared := s.revision("sized")
	if other := s.revision("old"); other != shared {
		t.Fatalf("the VMs share no revision: %s, %s", shared, other)
	}
	// KubeVirt would store the shared revision again, too, and try to delete it.
	if err := s.on.MergePatch(t.Context(), s.in("controllerrevision"), shared, `{"metadata": {"labels": {"`+objectVersion+`": null}}}`); err == nil {
		t.Error("an administrator took the label from a revision that VMs are pinned to")
	}
	s.ok(s.on.MergePatch(t.Context(), s.in("vmf"), "small", `{"spec": {"cpu": {"guest": 4}}}`)) // so that only revisions have what the VMs are pinned to
	s.ok(s.on.StopControllers())
	t.Cleanup(func() { s.ok(s.on.StartControllers(context.Background())) })
	s.asKubeVirt(s.unlabelled(shared, "old"), "create", "-f", "-")
	s.asKubeVirt("", "patch", "vm", "old", "--subresource=status", "--type=merge", "-p",
		`{"status": {"instancetypeRef": {"controllerRevisionRef": {"name": "from-old-kubevirt"}}}}`)
	upgraded := ""
	s.eventually("KubeVirt has stored the revision again", func() (bool, any) {
		vm := s.machine("old")
		upgraded = vm.Status.InstancetypeRef.ControllerRevisionRef.Name
		return upgraded != "from-old-kubevirt", vm.Status
	})
	if label := s.get("controllerrevision", upgraded).GetLabels()[objectVersion]; label == "" || upgraded == shared {
		t.Fatalf("KubeVirt names revision '%s' with version '%s'", upgraded, label)
	}
	s.ok(s.on.StartControllers(context.Background()))
	s.eventually("the status names the pin again", func() (bool, any) {
		vm := s.machine("old")
		return vm.Status.InstancetypeRef.ControllerRevisionRef.Name == shared, vm.Status
	})
	s.must("start", "old")
	s.must("restart", "sized")
	for name, uid := range map[string]string{"old": "", "sized": string(was.UID)} {
		if cpu := s.runs(name, uid).Spec.Domain.CPU; cpu.Sockets*max(cpu.Cores, 1)*max(cpu.Threads, 1) != 1 {
			t.Errorf("%s has the CPUs of the edited instancetype: %+v", name, cpu)
		}
	}
	s.quiet()
	if list, err := s.on.List(t.Context(), s.in("vmi"), ""); err != nil || len(list.Items) != 2 {
		t.Errorf("%d VMIs of 2 VMs, %v", len(list.Items), err)
	}
	s.get("controllerrevision", shared)
	s.noFight()
}

// unlabelled is a revision as an old KubeVirt would have stored it for a VM.
func (s space) unlabelled(of, vm string) string {
	s.Helper()
	stored := s.get("controllerrevision", of)
	machine := s.machine(vm)
	old := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "ControllerRevision", "data": stored.Object["data"], "revision": int64(0)}}
	old.SetName("from-old-kubevirt")
	labels := stored.GetLabels()
	delete(labels, objectVersion)
	old.SetLabels(labels)
	owner := map[string]any{"apiVersion": v1.GroupVersion.String(), "kind": "VirtualMachine", "name": vm, "uid": string(machine.UID),
		"controller": true, "blockOwnerDeletion": true}
	if err := unstructured.SetNestedSlice(old.Object, []any{owner}, "metadata", "ownerReferences"); err != nil {
		s.Fatal(err)
	}
	text, err := json.Marshal(old)
	s.ok(err)
	return string(text)
}

// asKubeVirt runs kubectl as virt-controller.
func (s space) asKubeVirt(input string, args ...string) {
	s.Helper()
	account := "system:serviceaccount:" + s.on.KubeVirt + ":kubevirt-controller"
	if _, stderr, err := s.on.Kubectl(s.Context(), input, append([]string{"-n", s.name, "--as", account}, args...)...); err != nil {
		s.Fatal(err, stderr)
	}
}
