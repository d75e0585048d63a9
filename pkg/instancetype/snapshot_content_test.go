package instancetype_test

import (
	"fmt"
	"testing"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// TestSameContent: two revisions of one content, as Kiln and as KubeVirt store it, and of contents that differ in one part.
func TestSameContent(t *testing.T) {
	const (
		instancetypes = `{"apiVersion":"instancetype.kubevirt.io/%s","kind":"VirtualMachineClusterInstancetype","metadata":{"name":%q},"spec":%s}`
		preferences   = `{"apiVersion":"instancetype.kubevirt.io/%s","kind":"VirtualMachineClusterPreference","metadata":{"name":%q},"spec":%s}`
		size          = `{"cpu":{"guest":2},"memory":{"guest":"1Gi"}}`
		taste         = `{"cpu":{"preferredCPUTopology":"cores"}}`
	)
	of := func(form, version, name, spec string) string { return fmt.Sprintf(form, version, name, spec) }
	for _, test := range []struct {
		why, a, b     string
		same, version bool
	}{
		{"itself", of(instancetypes, "v1beta1", "small", size), of(instancetypes, "v1beta1", "small", size), true, true},
		{"as KubeVirt's client writes it", of(instancetypes, "v1beta1", "small", size),
			of(instancetypes, "v1beta1", "small", `{"cpu":{"guest":2},"memory":{"guest":"1024Mi"},"nodeSelector":{},"gpus":[]}`), true, true},
		{"of another version", of(instancetypes, "v1beta1", "small", size), of(instancetypes, "v1", "small", size), true, false},
		{"of another size", of(instancetypes, "v1beta1", "small", size), of(instancetypes, "v1beta1", "small", `{"cpu":{"guest":4},"memory":{"guest":"1Gi"}}`),
			false, true},
		{"of another name", of(instancetypes, "v1beta1", "small", size), of(instancetypes, "v1beta1", "big", size), false, true},
		{"of another kind", of(instancetypes, "v1beta1", "a", `{}`), of(preferences, "v1beta1", "a", `{}`), false, true},
		{"of another kind, the other way round", of(preferences, "v1beta1", "a", `{}`), of(instancetypes, "v1beta1", "a", `{}`), false, true},
		{"a preference", of(preferences, "v1beta1", "linux", taste), of(preferences, "v1beta1", "linux", taste), true, true},
		{"another preference", of(preferences, "v1beta1", "linux", taste), of(preferences, "v1beta1", "linux", `{"cpu":{"preferredCPUTopology":"threads"}}`),
			false, true},
		{"nothing", "", of(instancetypes, "v1beta1", "small", size), false, false},
		{"nothing, the other way round", of(instancetypes, "v1beta1", "small", size), "", false, false},
	} {
		same, version := instancetype.SameContent([]byte(test.a), []byte(test.b)), instancetype.SameVersion([]byte(test.a), []byte(test.b))
		if same != test.same || version != test.version {
			t.Errorf("%s: same content %t, same version %t", test.why, same, version)
		}
	}
}

// TestWhatKubeVirtExpandsIsNoDifference: the values that KubeVirt computes otherwise than Kiln. Admission takes no VMI of KubeVirt's for one of another
// instancetype because of them.
func TestWhatKubeVirtExpandsIsNoDifference(t *testing.T) {
	most := uint32(300)
	given := &instancetype.Instancetype{}
	given.Spec.CPU.Guest, given.Spec.CPU.MaxSockets = 2, &most
	given.Spec.Memory.Guest, given.Spec.Memory.OvercommitPercent = resource.MustParse("1Gi"), 15
	set := instancetype.Set{Instancetype: given}
	for _, test := range []struct {
		why        string
		maxSockets uint32
		request    string
		fields     int
	}{
		{"as Kiln computes them", 255, "912680550", 0},
		{"as KubeVirt does: 300 sockets, and 85 % of 1Gi in 32-bit floating point", 300, "912680576", 0},
		{"other sockets", 299, "912680576", 1},
		{"another request", 300, "912680577", 1},
	} {
		vmi := &v1.VirtualMachineInstance{}
		vmi.Spec.Architecture = "amd64"
		instancetype.Apply(set, config.Newest, vmi)
		vmi.Spec.Domain.CPU.MaxSockets = test.maxSockets
		vmi.Spec.Domain.Resources.Requests["memory"] = resource.MustParse(test.request)
		if errs := instancetype.Differences(set, vmi, nil); len(errs) != test.fields {
			t.Errorf("%s: %v", test.why, errs)
		}
	}
}
