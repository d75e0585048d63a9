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

// Running guests keep the policy that they were started with: libvirt can change little of it in a domain that runs, and a mixture of two
// policies is worse than the old one. When the merged HostProfiles change, the VMI gets the condition HostPolicyChanged. The policy itself
// stays on this machine: the owner of a VM may not be allowed to read HostProfiles.

const policyChanged v1.VirtualMachineInstanceConditionType = v1alpha1.ConditionHostPolicyChanged

// policyFile is in the VMI's own folder.
const policyFile = "host-policy.json"

// savePolicy writes the policy that a VMI is started with into its folder.
func savePolicy(bound hostresources.Bound, policy v1alpha1.HostPolicy) error {
	raw, err := json.Marshal(policy)
	if err != nil {
		return err
	}
	return bound.WriteFile(policyFile, raw)
}

// policyChange returns the condition HostPolicyChanged of a running VMI; nil for a VMI without a saved policy, which an earlier release started.
func (n *Node) policyChange(ctx context.Context, vmi *v1.VirtualMachineInstance) (*v1.VirtualMachineInstanceCondition, error) {
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
	is, errs := backend.Policy(profiles, vmi, n.facts())
	condition := &v1.VirtualMachineInstanceCondition{Type: policyChanged, Status: corev1.ConditionTrue, Reason: v1alpha1.ReasonNextStart}
	fields := backend.PolicyChanges(was, is)
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
