package snapshot

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	clone "kubevirt.io/api/clone/v1beta1"
	api "kubevirt.io/api/snapshot/v1beta1"
)

// of is a reference to a VM.
func of(name string) corev1.TypedLocalObjectReference {
	return corev1.TypedLocalObjectReference{APIGroup: ptr.To("kubevirt.io"), Kind: "VirtualMachine", Name: name}
}

// mistakes are errors as text.
func mistakes(errs field.ErrorList) string {
	var texts []string
	for _, err := range errs {
		texts = append(texts, fmt.Sprintf("%s: %s", err.Field, err.Type))
	}
	return strings.Join(texts, "; ")
}

// TestChecks: the nearest legal neighbour of each mistake is legal.
func TestChecks(t *testing.T) {
	t.Parallel()
	deadline := func(d time.Duration) *api.VirtualMachineSnapshotSpec {
		return &api.VirtualMachineSnapshotSpec{Source: of("web"), FailureDeadline: &metav1.Duration{Duration: d}}
	}
	overriding := func(o api.VolumeRestoreOverride) *api.VirtualMachineRestoreSpec {
		return &api.VirtualMachineRestoreSpec{Target: of("web"), VirtualMachineSnapshotName: "s", VolumeRestoreOverrides: []api.VolumeRestoreOverride{o}}
	}
	cloning := func(source, target *corev1.TypedLocalObjectReference, mac string) *clone.VirtualMachineCloneSpec {
		return &clone.VirtualMachineCloneSpec{Source: source, Target: target, NewMacAddresses: map[string]string{"b": "", "a": mac}}
	}
	other := of("s")
	other.APIGroup, other.Kind = ptr.To("snapshot.kubevirt.io"), "VirtualMachineSnapshot"
	mixed := other
	mixed.APIGroup = ptr.To("kubevirt.io")
	for why, test := range map[string]struct {
		got  field.ErrorList
		want string
	}{
		"no deadline":           {CheckSnapshot(deadline(0)), ""},
		"the longest deadline":  {CheckSnapshot(deadline(longestDeadline)), ""},
		"a longer one":          {CheckSnapshot(deadline(longestDeadline + 1)), "spec.failureDeadline: Invalid value"},
		"a deadline before now": {CheckSnapshot(deadline(-1)), "spec.failureDeadline: Invalid value"},
		"a name":                {CheckRestore(overriding(api.VolumeRestoreOverride{VolumeName: "a", RestoreName: "b"})), ""},
		"a label alone":         {CheckRestore(overriding(api.VolumeRestoreOverride{VolumeName: "a", Labels: map[string]string{}})), ""},
		"nothing":               {CheckRestore(overriding(api.VolumeRestoreOverride{VolumeName: "a"})), "spec.volumeRestoreOverrides[0]: Required value"},
		"no name of a claim": {CheckRestore(overriding(api.VolumeRestoreOverride{VolumeName: "a", RestoreName: "../b"})),
			"spec.volumeRestoreOverrides[0].restoreName: Invalid value"},
		"a target that admission names": {CheckClone(cloning(ptr.To(of("web")), nil, "")), ""},
		"of a snapshot":                 {CheckClone(cloning(&other, ptr.To(of("s")), "02:00:00:00:00:01")), ""},
		"of another group":              {CheckClone(cloning(&mixed, nil, "")), "spec.source.apiGroup: Unsupported value"},
		"itself":                        {CheckClone(cloning(ptr.To(of("web")), ptr.To(of("web")), "")), "spec.target.name: Invalid value"},
		"a snapshot that no object can be": {CheckRestore(&api.VirtualMachineRestoreSpec{Target: of("web"), VirtualMachineSnapshotName: "S"}),
			"spec.virtualMachineSnapshotName: Invalid value"},
		"a kind in lower case, of another group": {CheckSnapshot(&api.VirtualMachineSnapshotSpec{
			Source: corev1.TypedLocalObjectReference{APIGroup: ptr.To("a"), Kind: "virtualmachines", Name: "web"}}),
			"spec.source.kind: Unsupported value; spec.source.apiGroup: Unsupported value"},
		"another kind, whose group is not known": {CheckSnapshot(&api.VirtualMachineSnapshotSpec{
			Source: corev1.TypedLocalObjectReference{APIGroup: ptr.To("a"), Kind: "Pod", Name: "web"}}), "spec.source.kind: Unsupported value"},
		"no name":             {CheckSnapshot(&api.VirtualMachineSnapshotSpec{Source: of("")}), "spec.source.name: Required value"},
		"a multicast address": {CheckClone(cloning(ptr.To(of("web")), nil, "03:00:00:00:00:01")), "spec.newMacAddresses[a]: Invalid value"},
	} {
		if got := mistakes(test.got); got != test.want {
			t.Errorf("%s: '%s', want '%s'", why, got, test.want)
		}
		for _, err := range test.got {
			if err.Origin == "" {
				t.Errorf("%s: no rule", why)
			}
		}
	}
}
