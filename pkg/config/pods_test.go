package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

func TestPods(t *testing.T) {
	developer := func(d v1.DeveloperConfiguration) v1.KubeVirtConfiguration {
		return v1.KubeVirtConfiguration{DeveloperConfiguration: &d}
	}
	ratio := func(text string) v1.KubeVirtConfiguration {
		return v1.KubeVirtConfiguration{AdditionalGuestMemoryOverheadRatio: &text}
	}
	for name, c := range map[string]struct {
		given v1.KubeVirtConfiguration
		want  Pods
		wrong string // the field that is refused
	}{
		"nothing is set": {},
		"all is set": {
			given: v1.KubeVirtConfiguration{
				AutoCPULimitNamespaceLabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "shared"}},
				VMStateStorageClass:                "fast", ImagePullPolicy: corev1.PullAlways, AdditionalGuestMemoryOverheadRatio: new("1.25"),
				DeveloperConfiguration: &v1.DeveloperConfiguration{UseEmulation: true, CPUAllocationRatio: 4, MemoryOvercommit: 150},
			},
			want: Pods{Emulate: true, CPUAllocationRatio: 4, MemoryOvercommit: 150, OverheadRatio: 1.25, StateClass: "fast", PullPolicy: corev1.PullAlways,
				LimitedCPUs: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "shared"}}},
		},
		"a ratio of one":             {given: ratio("1"), want: Pods{OverheadRatio: 1}},
		"less overhead than needed":  {given: ratio("0.9"), wrong: "additionalGuestMemoryOverheadRatio"},
		"a ratio that is no number":  {given: ratio("NaN"), wrong: "additionalGuestMemoryOverheadRatio"},
		"a ratio without end":        {given: ratio("+Inf"), wrong: "additionalGuestMemoryOverheadRatio"},
		"a ratio in words":           {given: ratio("double"), wrong: "additionalGuestMemoryOverheadRatio"},
		"fewer vCPUs than none":      {given: developer(v1.DeveloperConfiguration{CPUAllocationRatio: -1}), wrong: "developerConfiguration.cpuAllocationRatio"},
		"more vCPUs than any CPU":    {given: developer(v1.DeveloperConfiguration{CPUAllocationRatio: 1001}), wrong: "developerConfiguration.cpuAllocationRatio"},
		"memory that is never there": {given: developer(v1.DeveloperConfiguration{MemoryOvercommit: 1}), wrong: "developerConfiguration.memoryOvercommit"},
		"no storage class":           {given: v1.KubeVirtConfiguration{VMStateStorageClass: "a/b"}, wrong: "vmStateStorageClass"},
		"a selector of no operator": {given: v1.KubeVirtConfiguration{AutoCPULimitNamespaceLabelSelector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: "Like"}}}},
			wrong: "autoCPULimitNamespaceLabelSelector.matchExpressions[0].operator"},
		"no pull policy": {given: v1.KubeVirtConfiguration{ImagePullPolicy: "Sometimes"}, wrong: "imagePullPolicy"},
	} {
		cluster, errs := FromKubeVirt(c.given)
		switch {
		case c.wrong != "" && (len(errs) != 1 || errs[0].Field != "spec.configuration."+c.wrong):
			t.Errorf("%s: %v, want one about %s", name, errs, c.wrong)
		case c.wrong == "" && len(errs) > 0:
			t.Errorf("%s: %v", name, errs)
		case c.wrong == "":
			if diff := cmp.Diff(c.want, cluster.Pods); diff != "" {
				t.Errorf("%s: -want +got\n%s", name, diff)
			}
		}
	}
}
