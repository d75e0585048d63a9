package pod

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestResourceClaims(t *testing.T) {
	in := input(t, `resourceClaims: [{name: a, resourceClaimName: b}, {name: c, resourceClaimTemplateName: d}],
		domain: {devices: {gpus: [{name: x, claimName: a, requestName: r}], hostDevices: [{name: v, claimName: c, requestName: s},
			{name: z, claimName: a, requestName: r}]}}`)
	in.LockedMemory = true
	made := made(t, in)
	want := []corev1.PodResourceClaim{{Name: "a", ResourceClaimName: new("b")}, {Name: "c", ResourceClaimTemplateName: new("d")}}
	if diff := cmp.Diff(want, made.Spec.ResourceClaims); diff != "" {
		t.Errorf("pod: %s", diff)
	}
	// A pair that is listed twice would be refused.
	if diff := cmp.Diff([]corev1.ResourceClaim{{Name: "a", Request: "r"}, {Name: "c", Request: "s"}}, made.Spec.Containers[0].Resources.Claims); diff != "" {
		t.Errorf("container: %s", diff)
	}
}
