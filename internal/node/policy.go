package node

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/hostprofile"
	"github.com/kilnvm/kiln/internal/hostresources"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// A running guest keeps the policy of its start, because libvirt can change little of it in a running domain, and a mixture of two policies is worse than the
// old one. When the merged HostProfiles change, the VMI gets the condition HostPolicyChanged. The policy itself stays on this machine, because the owner of a
// VM may not be allowed to read HostProfiles.

const conditionPolicyChanged v1.VirtualMachineInstanceConditionType = v1alpha1.ConditionHostPolicyChanged

// policyFile is a file in the VMI's folder.
const policyFile = "host-policy.json"

// savePolicy writes the policy of a VMI's start into the VMI's folder.
func savePolicy(bound hostresources.Bound, policy v1alpha1.HostPolicy) error {
	raw, err := json.Marshal(policy)
	if err != nil {
		return err
	}
	return bound.WriteFile(policyFile, raw)
}

// policyCondition returns the condition HostPolicyChanged of a running VMI. It returns nil for a VMI without a saved policy, because an earlier release started
// the VMI.
func (n *Node) policyCondition(ctx context.Context, vmi *v1.VirtualMachineInstance) (*v1.VirtualMachineInstanceCondition, error) {
	raw, err := n.Machine.ReadFile(vmi, policyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var was v1alpha1.HostPolicy
	if err == nil {
		err = json.Unmarshal(raw, &was)
	}
	if err != nil {
		return nil, err
	}
	profiles, err := hostprofile.All(ctx, n.Client)
	if err != nil {
		return nil, err
	}
	current, errs := backend.Policy(profiles, vmi, n.hostFacts())
	condition := &v1.VirtualMachineInstanceCondition{Type: conditionPolicyChanged, Status: corev1.ConditionTrue, Reason: v1alpha1.ReasonNextStart}
	fields := backend.PolicyChanges(was, current)
	switch {
	case len(errs) > 0:
		condition.Reason, condition.Message = v1alpha1.ReasonRefused, "the VMI keeps running, but its next start would be refused: "+errs.ToAggregate().Error()
	case len(fields) > 0:
		condition.Message = "the HostProfiles have changed since the VMI was started; the next start will apply changes in: " + strings.Join(fields, ", ")
	default:
		condition.Status = corev1.ConditionFalse
	}
	return condition, nil
}
