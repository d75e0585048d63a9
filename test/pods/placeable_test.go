package pods

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// placed is a VM that nobody has started, with the verdict on it and what happens when it is started.
type placed struct {
	name, manifest string
	status         corev1.ConditionStatus
	// reason is the reason of condition Placeable, and message is a part of its message.
	reason, message string
	// started is the printable status after a start, and why is in condition Ready then.
	started v1.VirtualMachinePrintableStatus
	why     string
}

// verdictTime is the time within which a VM must have its verdict.
const verdictTime = 2 * time.Second

// TestPlaceable: within two seconds, a VM that nobody has started says whether the cluster could run its guest, and when it is started, that is what happens.
func TestPlaceable(t *testing.T) {
	n := newTenant(t, "placeable")
	t.Parallel()
	n.placeAll([]placed{
		{name: "large", manifest: strings.Replace(plain("large", "", ""), "guest: 64Mi", "guest: 3Ti", 1), status: corev1.ConditionFalse,
			reason: v1alpha1.ReasonNoNodeLargeEnough, message: "memory", started: v1.VirtualMachineStatusUnschedulable, why: "Insufficient memory"},
		{name: "claim", manifest: withVolume("claim", "persistentVolumeClaim: {claimName: none}"), status: corev1.ConditionFalse,
			reason: v1alpha1.ReasonFailedPvcNotFound, message: "'none'", started: v1.VirtualMachineStatusPvcNotFound, why: "'none'"},
		{name: "secret", manifest: withVolume("secret", "cloudInitNoCloud: {secretRef: {name: none}}"), status: corev1.ConditionFalse,
			reason: v1alpha1.ReasonReferenceNotFound, message: "no Secret 'none'", started: v1.VirtualMachineStatusUnschedulable, why: "no Secret 'none'"},
		{name: "label", manifest: strings.Replace(plain("label", "", ""), "node-1", "nowhere", 1), status: corev1.ConditionFalse,
			reason: v1alpha1.ReasonNoNodeMatches, message: "kubernetes.io/hostname=nowhere", started: v1.VirtualMachineStatusUnschedulable, why: "node"},
		{name: "machine", manifest: withDomain("machine", "machine: {type: pc-q35-rhel9.6.0}"), status: corev1.ConditionFalse,
			reason: v1alpha1.ReasonNoNodeHasMachineType, message: "'pc-q35-rhel9.6.0'", started: v1.VirtualMachineStatusCrashLoopBackOff, why: "pc-q35-rhel9.6.0"},
		{name: "fits", manifest: plain("fits", "", ""), status: corev1.ConditionTrue, reason: v1alpha1.ReasonNodeFits,
			started: v1.VirtualMachineStatusRunning},
	})
	if got := n.placeable("fits"); got.Reason != v1alpha1.ReasonGuestRuns || got.Status != corev1.ConditionTrue {
		t.Errorf("the guest runs: %+v", got)
	}
}

// TestPlaceableByQuota: the same for a quota of the namespace. The verdict follows the quota.
func TestPlaceableByQuota(t *testing.T) {
	n := newTenant(t, "placeable-quota")
	t.Parallel()
	quota := "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: none}\nspec: {hard: {pods: %d}}\n"
	n.apply(fmt.Sprintf(quota, 0))
	n.eventually("the quota is in force", func() (string, bool) {
		out := n.kubectl("get", "resourcequota", "none", "-o", "jsonpath={.status.hard.pods}")
		return out, out == "0"
	})
	n.placeAll([]placed{{name: "quota", manifest: plain("quota", "", ""), status: corev1.ConditionFalse, reason: v1alpha1.ReasonQuotaExceeded,
		message: "'none'", started: v1.VirtualMachineStatusUnschedulable, why: "exceeded quota: none"}})
	n.apply(halted(plain("more", "", "")))
	n.apply(fmt.Sprintf(quota, 5))
	n.eventually("the verdict follows the quota", func() (string, bool) {
		got := n.placeable("more")
		return fmt.Sprintf("%+v", got), got.Reason == v1alpha1.ReasonNodeFits
	})
}

// halted is a VM that nobody has started.
func halted(manifest string) string {
	return strings.Replace(manifest, "runStrategy: Always", "runStrategy: Halted", 1)
}

// placeAll makes VMs, checks their verdicts, starts them, and checks that the verdicts were right.
func (n *tenant) placeAll(all []placed) {
	n.Helper()
	for _, c := range all {
		n.apply(halted(c.manifest))
		created := time.Now()
		var got v1.VirtualMachineCondition
		n.eventually("condition Placeable of "+c.name, func() (string, bool) {
			got = n.placeable(c.name)
			return fmt.Sprintf("%+v", got), got.Status != ""
		})
		took, called := time.Since(created), time.Now()
		n.placeable(c.name)
		call := time.Since(called)
		n.Logf("%s: %s %s after %s, a call of kubectl takes %s: %s", c.name, got.Status, got.Reason, took.Round(time.Millisecond),
			call.Round(time.Millisecond), got.Message)
		if took-calls*call > verdictTime {
			n.Errorf("%s: the verdict came after %s only", c.name, took)
		}
		if got.Status != c.status || got.Reason != c.reason || !strings.Contains(got.Message, c.message) {
			n.Errorf("%s: %+v, want %s %s with '%s'", c.name, got, c.status, c.reason, c.message)
		}
	}
	for _, c := range all {
		n.kubectl("patch", "vm", c.name, "--type=merge", "--patch", `{"spec":{"runStrategy":"Always"}}`)
	}
	for _, c := range all {
		n.eventually("what was said of "+c.name+" happens", func() (string, bool) {
			vm := n.readVM(c.name)
			return fmt.Sprintf("%s, Ready %s", vm.Status.PrintableStatus, readyOf(vm)), vm.Status.PrintableStatus == c.started &&
				strings.Contains(readyOf(vm), c.why)
		})
		if got := n.placeable(c.name); got.Status != c.status {
			n.Errorf("%s was started: %+v", c.name, got)
		}
	}
}

// placeable returns condition Placeable of a VM.
func (n *tenant) placeable(name string) v1.VirtualMachineCondition {
	n.Helper()
	return placeableOf(n.readVM(name))
}

// placeableOf returns condition Placeable of a VM, empty if the VM has none.
func placeableOf(vm *v1.VirtualMachine) (found v1.VirtualMachineCondition) {
	for _, c := range vm.Status.Conditions {
		if c.Type == v1alpha1.ConditionPlaceable {
			return c
		}
	}
	return found
}
