package node

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A guest runs with the policy of its start: what libvirt could change while it runs is little, and a guest of which half follows
// the profiles is worse than one that follows those of yesterday. That they are others by now is told by a condition. The policy
// itself stays on this machine: the owner of a VM may not be meant to read it.

// policyChanged is the condition of a guest whose next start would be by another policy than its last one.
const policyChanged v1.VirtualMachineInstanceConditionType = "HostPolicyChanged"

const (
	reasonNextStart = "NextStart"
	// reasonRefused is that of profiles with which the guest would not start again.
	reasonRefused = "Refused"
)

// policyFile is in the VMI's own folder.
const policyFile = "host-policy.json"

// keepPolicy keeps the policy that a guest is started with.
func (n *Node) keepPolicy(vmi *v1.VirtualMachineInstance, policy v1alpha1.HostPolicy) error {
	raw, err := json.Marshal(policy)
	if err != nil {
		return err
	}
	return n.Machine.WriteFile(vmi, policyFile, raw)
}

// setPolicyChanged sets the condition HostPolicyChanged of a guest that runs, or removes it. A guest whose policy was not kept was started by an
// earlier release: nothing is known of it.
func (n *Node) setPolicyChanged(ctx context.Context, vmi *v1.VirtualMachineInstance) error {
	raw, err := n.Machine.ReadFile(vmi, policyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var was, is v1alpha1.HostPolicy
	if err == nil {
		err = json.Unmarshal(raw, &was)
	}
	if err != nil {
		return err
	}
	profiles, err := Profiles(ctx, n.Client)
	if err != nil {
		return err
	}
	is, errs := backend.Policy(profiles, vmi, n.facts())
	condition := v1.VirtualMachineInstanceCondition{Type: policyChanged, Status: corev1.ConditionTrue, Reason: reasonNextStart}
	fields := backend.PolicyChanges(was, is)
	switch {
	case len(errs) > 0:
		condition.Reason, condition.Message = reasonRefused, "the guest runs on, and would not start again: "+errs.ToAggregate().Error()
	case len(fields) > 0:
		condition.Message = "host profiles have changed since the guest was started; its next start goes by their " + strings.Join(fields, ", ")
	default:
		clearCondition(vmi, policyChanged)
		return nil
	}
	setCondition(vmi, condition)
	return nil
}

// Profiles are all host profiles of a cluster; none where that kind is not served.
func Profiles(ctx context.Context, reader client.Reader) ([]v1alpha1.HostProfile, error) {
	var list v1alpha1.HostProfileList
	if err := reader.List(ctx, &list); err != nil && !meta.IsNoMatchError(err) {
		return nil, err
	}
	return list.Items, nil
}
