package node

import (
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// TestChangedProfilesSetCondition: a running guest keeps the policy of its start, and its condition names the fields that the next start will change.
func TestChangedProfilesSetCondition(t *testing.T) {
	t.Parallel()
	vmi := claimedVMI(t, "runs")
	spec := func(text string) (spec v1alpha1.HostProfileSpec) {
		t.Helper()
		if err := yaml.UnmarshalStrict([]byte(text), &spec); err != nil {
			t.Fatal(err)
		}
		return spec
	}
	profile := &v1alpha1.HostProfile{Spec: spec("{lifecycle: {onCrash: Preserve}, rng: {source: /dev/random}}")}
	profile.Name = "first"
	cluster := newClusterWithHardware(t, vmi, profile)
	n := newNode(t, startLibvirt(t), cluster, cluster)
	if after := reconcileRepeatedly(t, n, vmi); after.Status.Phase != v1.Running {
		t.Fatalf("phase is '%s': %v", after.Status.Phase, after.Status.Conditions)
	}
	const changed = "the HostProfiles have changed since the VMI was started; the next start will apply changes in: "
	for _, c := range []struct{ why, spec, reason, message string }{
		{"as they were", "{lifecycle: {onCrash: Preserve}, rng: {source: /dev/random}}", "", ""},
		{"another priority of the same", "{priority: 3, lifecycle: {onCrash: Preserve}, rng: {source: /dev/random}}", "", ""},
		{"a value", "{lifecycle: {onCrash: Destroy}, rng: {source: /dev/random}}", v1alpha1.ReasonNextStart, changed + "lifecycle.onCrash"},
		{"one field less, and one more", "{lifecycle: {onCrash: Preserve}, cache: {l3Sizes: [1Mi]}}",
			v1alpha1.ReasonNextStart, changed + "cache.l3Sizes, rng.source"},
		{"two that disagree", "{lifecycle: {onCrash: Restart}}", v1alpha1.ReasonRefused, "its next start would be refused: hostProfile.lifecycle.onCrash: Forbidden"},
		{"for other VMIs", "{vmiSelector: {matchLabels: {other: guest}}, lifecycle: {onCrash: Preserve}}",
			v1alpha1.ReasonNextStart, changed + "rng.source, lifecycle.onCrash"},
		{"as they were, again", "{lifecycle: {onCrash: Preserve}, rng: {source: /dev/random}}", "", ""},
	} {
		profile.Spec = spec(c.spec)
		if err := cluster.Update(t.Context(), profile); err != nil {
			t.Fatal(err)
		}
		second := &v1alpha1.HostProfile{Spec: spec("{lifecycle: {onCrash: Destroy}}")}
		second.Name = "second"
		if c.reason == v1alpha1.ReasonRefused {
			if err := cluster.Create(t.Context(), second); err != nil {
				t.Fatal(err)
			}
		} else if err := client.IgnoreNotFound(cluster.Delete(t.Context(), second)); err != nil {
			t.Fatal(err)
		}
		after := reconcileRepeatedly(t, n, vmi)
		i := slices.IndexFunc(after.Status.Conditions, func(c v1.VirtualMachineInstanceCondition) bool { return c.Type == conditionPolicyChanged })
		switch {
		case (i < 0) != (c.reason == ""):
			t.Errorf("%s: conditions %v", c.why, after.Status.Conditions)
		case i >= 0 && (after.Status.Conditions[i].Reason != c.reason || !strings.Contains(after.Status.Conditions[i].Message, c.message)):
			t.Errorf("%s: condition %v", c.why, after.Status.Conditions[i])
		}
		if got := activeDomain(t, n, "default_runs").OnCrash; got != "preserve" {
			t.Errorf("%s: the guest runs with on_crash '%s'", c.why, got)
		}
	}
}
