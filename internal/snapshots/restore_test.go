package snapshots

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/pkg/snapshot"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
)

// TestRefusals: a restore that may not be activated reports every cause with its path and remedy, and changes nothing.
func TestRefusals(t *testing.T) {
	for why, test := range map[string]struct {
		change func(*cluster, *api.VirtualMachineRestore)
		reason string
		want   []string
	}{
		"claim and network are gone": {func(c *cluster, _ *api.VirtualMachineRestore) {
			c.must(c.Delete(c.Context(), testClaim("root")))
			c.must(c.Delete(c.Context(), testNetwork()))
		}, v1alpha1.ReasonNotActivatable, []string{
			`spec.template.spec.networks[0].multus.networkName: Not found: "other/lan": create this NetworkAttachmentDefinition again, or restore without network 'lan'`,
			`spec.template.spec.volumes[0].persistentVolumeClaim.claimName: Not found: "root": create this PersistentVolumeClaim again`}},
		"the network is another's": {func(c *cluster, _ *api.VirtualMachineRestore) { c.denied["get network-attachment-definitions"] = true },
			v1alpha1.ReasonNotActivatable, []string{"networks[0].multus.networkName: Forbidden: NetworkAttachmentDefinition 'other/lan' may not be used"}},
		"no right to the VM": {func(c *cluster, _ *api.VirtualMachineRestore) { c.denied["update virtualmachines"] = true },
			v1alpha1.ReasonNotActivatable, []string{"spec.target: Forbidden: 'alice', who created the restore, may not update virtualmachines"}},
		"the revision is gone": {func(c *cluster, _ *api.VirtualMachineRestore) { c.must(c.Delete(c.Context(), instancetypeRevision())) },
			v1alpha1.ReasonNotActivatable, []string{"metadata.annotations[kilnvm.io/pins].instancetype: Not found", "restore this ControllerRevision from a backup"}},
		"the record is gone": {func(c *cluster, _ *api.VirtualMachineRestore) {
			content := readObject(c, operation.ContentName("snap-1"), &api.VirtualMachineSnapshotContent{})
			revision := instancetypeRevision()
			revision.Name = content.Annotations[v1alpha1.AnnotationRecord]
			c.must(c.Delete(c.Context(), revision))
		}, v1alpha1.ReasonNotActivatable, []string{"metadata.annotations[kilnvm.io/record]: Invalid value", "does not exist"}},
		"nobody asked": {func(_ *cluster, r *api.VirtualMachineRestore) { r.Annotations = nil }, v1alpha1.ReasonMalformed, []string{"kilnvm.io/asker"}},
		"malformed":    {func(_ *cluster, r *api.VirtualMachineRestore) { r.Spec.Target.Kind = "Pod" }, v1alpha1.ReasonMalformed, []string{"spec.target.kind"}},
		"admission refuses": {func(c *cluster, _ *api.VirtualMachineRestore) {
			c.refuseVM = func(vm *v1.VirtualMachine) error {
				if vm.Annotations[snapshot.Mark] == "" {
					return nil
				}
				return apierrors.NewForbidden(schema.GroupResource{Resource: "virtualmachines"}, vm.Name, nil)
			}
		}, v1alpha1.ReasonNotAdmitted, []string{"forbidden"}},
		"another VM of the name": {func(c *cluster, _ *api.VirtualMachineRestore) {
			of := readObject(c, "s", &api.VirtualMachineSnapshot{})
			of.Status.SourceUID = ptr.To(c.vm("web").UID + "-before")
			c.must(c.Status().Update(c.Context(), of))
		}, v1alpha1.ReasonTargetExists, []string{"is not the VM of the snapshot"}},
		"the content is gone": {func(c *cluster, _ *api.VirtualMachineRestore) {
			content := readObject(c, operation.ContentName("snap-1"), &api.VirtualMachineSnapshotContent{})
			content.Finalizers = nil
			c.must(c.Update(c.Context(), content))
			c.must(c.Delete(c.Context(), content))
		}, v1alpha1.ReasonSnapshotNotReady, []string{"no"}},
	} {
		c := newCluster(t, nil, testObjects()...)
		c.must(c.Create(t.Context(), snapshotOf("s")))
		c.reconcileAll()
		c.editVM()
		before, hardware := c.vm("web"), c.hardware("web")
		restore := restoreOf("r", "web")
		test.change(c, restore)
		c.must(c.Create(t.Context(), restore))
		c.reconcileAll()
		of := readObject(c, "r", &api.VirtualMachineRestore{}).Status
		if why == "the content is gone" { // the snapshot is no longer ready, and the restore waits
			if of.Conditions[0].Reason != v1alpha1.ReasonSnapshotNotReady || operation.HasFailed(of.Conditions) {
				t.Errorf("%s: %+v", why, of)
			}
			continue
		}
		failure := operation.FindCondition(of.Conditions, api.ConditionFailure)
		if failure == nil || failure.Reason != test.reason || *of.Complete || !c.hasEvent(test.reason) {
			t.Errorf("%s: %+v", why, of)
			continue
		}
		for _, text := range test.want {
			if !strings.Contains(failure.Message, text) {
				t.Errorf("%s: no '%s' in\n%s", why, text, failure.Message)
			}
		}
		if diff := cmp.Diff(before.Spec, c.vm("web").Spec); diff != "" || !cmp.Equal(hardware.Spec, c.hardware("web").Spec) ||
			c.vm("web").Status.RestoreInProgress != nil || c.vm("web").Annotations[snapshot.Mark] != "" {
			t.Errorf("%s: a restore that is refused changes the VM: %v\n%s", why, c.vm("web").ObjectMeta, diff)
		}
	}
}

// TestLeftOut: with the annotation a device that can no longer be attached is left out, and reported.
func TestLeftOut(t *testing.T) {
	c := newCluster(t, nil, testObjects()...)
	c.must(c.Create(t.Context(), snapshotOf("s")))
	c.reconcileAll()
	c.editVM()
	c.must(c.Delete(t.Context(), testNetwork()))
	restore := restoreOf("r", "web")
	restore.Annotations[v1alpha1.AnnotationLeaveOut] = "true"
	c.must(c.Create(t.Context(), restore))
	c.reconcileAll()
	of := readObject(c, "r", &api.VirtualMachineRestore{}).Status
	changed := operation.FindCondition(of.Conditions, v1alpha1.ConditionHardwareChanged)
	if !*of.Complete || changed == nil || !strings.Contains(changed.Message, "restored without network 'lan'") || !c.hasEvent(v1alpha1.ReasonHardwareChanged) {
		t.Fatalf("%+v", of)
	}
	spec := c.vm("web").Spec.Template.Spec
	if len(spec.Networks)+len(spec.Domain.Devices.Interfaces) > 0 || *spec.Domain.Devices.AutoattachPodInterface || len(spec.Volumes) != 1 {
		t.Errorf("%+v", spec)
	}
	if diff := cmp.Diff(testHardware().Spec, c.hardware("web").Spec); diff != "" {
		t.Errorf("a restore that leaves out devices changes the record: %s", diff)
	}
}

func runningGuest() *v1.VirtualMachineInstance {
	vmi := &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web", UID: "vmi-1"}}
	vmi.Status.Phase = v1.Running
	return vmi
}

// TestReadiness: a restore treats a running target as its targetReadinessPolicy says.
func TestReadiness(t *testing.T) {
	for _, test := range []struct {
		policy   api.TargetReadinessPolicy
		strategy v1.VirtualMachineRunStrategy
		// now and later are the conditions at once and six minutes later.
		now, later string
		asks       string
	}{
		{api.VirtualMachineRestoreWaitGracePeriodAndFail, v1.RunStrategyAlways, v1alpha1.ReasonTargetNotReady, "Failure", ""},
		{api.VirtualMachineRestoreFailImmediate, v1.RunStrategyAlways, "Failure", "Failure", ""},
		{api.VirtualMachineRestoreWaitEventually, v1.RunStrategyAlways, v1alpha1.ReasonTargetNotReady, v1alpha1.ReasonTargetNotReady, ""},
		{api.VirtualMachineRestoreStopTarget, v1.RunStrategyAlways, v1alpha1.ReasonTargetNotReady, v1alpha1.ReasonTargetNotReady, "Halted"},
		{api.VirtualMachineRestoreStopTarget, v1.RunStrategyManual, v1alpha1.ReasonTargetNotReady, v1alpha1.ReasonTargetNotReady, "Stop"},
		{api.VirtualMachineRestoreStopTarget, v1.RunStrategyRerunOnFailure, v1alpha1.ReasonTargetNotReady, v1alpha1.ReasonTargetNotReady, "Stop"},
	} {
		c := newCluster(t, nil, append(testObjects(), runningGuest())...)
		vm := c.vm("web")
		vm.Spec.RunStrategy = ptr.To(test.strategy)
		c.must(c.Update(t.Context(), vm))
		c.must(c.Create(t.Context(), snapshotOf("s")))
		c.reconcileAll()
		restore := restoreOf("r", "web")
		restore.Spec.TargetReadinessPolicy = ptr.To(test.policy)
		c.must(c.Create(t.Context(), restore))
		state := func() string {
			c.reconcileAll()
			of := readObject(c, "r", &api.VirtualMachineRestore{}).Status
			if operation.HasFailed(of.Conditions) {
				return "Failure"
			}
			return operation.FindCondition(of.Conditions, api.ConditionReady).Reason
		}
		now := state()
		c.now = c.now.Add(6 * time.Minute)
		if later := state(); now != test.now || later != test.later {
			t.Errorf("%s, %s: %s, then %s", test.policy, test.strategy, now, later)
		}
		asks := ""
		if vm := c.vm("web"); len(vm.Status.StateChangeRequests) > 0 {
			asks = string(vm.Status.StateChangeRequests[0].Action)
		} else if *vm.Spec.RunStrategy == v1.RunStrategyHalted {
			asks = "Halted"
		}
		if asks != test.asks {
			t.Errorf("%s, %s: asks '%s'", test.policy, test.strategy, asks)
		}
		if test.later == "Failure" {
			continue
		}
		c.must(c.WithWatch.Delete(t.Context(), runningGuest()))
		c.reconcileAll()
		if of := readObject(c, "r", &api.VirtualMachineRestore{}).Status; !*of.Complete || *c.vm("web").Spec.RunStrategy != map[bool]v1.VirtualMachineRunStrategy{
			true: v1.RunStrategyHalted, false: test.strategy}[test.asks == "Halted"] {
			t.Errorf("%s, %s: %+v, run strategy %s", test.policy, test.strategy, of, *c.vm("web").Spec.RunStrategy)
		}
	}
}
