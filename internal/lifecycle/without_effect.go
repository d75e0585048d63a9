package lifecycle

import (
	"context"
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/pkg/admit"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// noteWithoutEffect sets the message of condition FieldsWithoutEffect to the fields of an explicit VMI that have no effect in the runtime.
func (c *Controller) noteWithoutEffect(s *state, explicit *v1.VirtualMachineInstance) {
	cluster := c.clusterConfig()
	if cluster.Limits.Runtime == "" {
		return
	}
	_, without := admit.WithoutEffect(explicit, cluster)
	var words []string
	for i, field := range without {
		if i == admit.MostShownEffects {
			words = append(words, fmt.Sprintf("and %d more: 'kubectl kiln validate --runtime %s' lists them", len(without)-i, cluster.Limits.Runtime))
			break
		}
		words = append(words, strings.TrimPrefix(field.Path.String(), "spec.")+" "+field.Reason)
	}
	text := condition.Message(strings.Join(words, "; "))
	s.withoutEffect = &text
}

// noteWithoutEffectOfNew sets the message for a VMI that the status of its VM does not report yet: the process that created the VMI died before it wrote the
// status.
func (c *Controller) noteWithoutEffectOfNew(ctx context.Context, s *state) {
	if s.withoutEffect != nil || s.vmi == nil || s.vm.Status.Created || c.clusterConfig().Limits.Runtime == "" {
		return
	}
	// The cache has no specs.
	vmi, err := objects.GetOrNil(ctx, c.Live, client.ObjectKeyFromObject(s.vm), &v1.VirtualMachineInstance{})
	if err == nil && vmi != nil && vmi.UID == s.vmi.UID {
		c.noteWithoutEffect(s, vmi)
	}
}

// withoutEffectConditions returns condition FieldsWithoutEffect: none if all fields have an effect, and the stored one if this reconcile has not looked.
func (s *state) withoutEffectConditions() []v1.VirtualMachineCondition {
	switch {
	case s.withoutEffect == nil:
		return conditionsOfType(s.vm, v1alpha1.ConditionFieldsWithoutEffect)
	case *s.withoutEffect == "":
		return nil
	}
	return []v1.VirtualMachineCondition{{Type: v1alpha1.ConditionFieldsWithoutEffect, Status: corev1.ConditionTrue,
		Reason: v1alpha1.ReasonNoEffect, Message: *s.withoutEffect}}
}
