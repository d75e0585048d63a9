package nodecpu

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	v1 "kubevirt.io/api/core/v1"
)

// TestHostModel: the CPU that host-model means on a node, and labels that do not tell it.
func TestHostModel(t *testing.T) {
	t.Parallel()
	labelled := func(change func(map[string]string)) map[string]string {
		labels := FromKubeVirt.Labels(Offer{Features: map[string]bool{"avx2": true, "invtsc": true, "aes": true}, Models: map[string]bool{"Haswell": true,
			"Nehalem": true}, Vendor: "Intel"})
		labels[v1.HostModelCPULabel+"Haswell"], labels[v1.HostModelCPULabel+"EPYC"] = "true", "false"
		change(labels)
		return labels
	}
	whole := &v1alpha1.ReportedCPU{Model: "Haswell", Vendor: "Intel", Features: []string{"aes", "avx2"}, DisabledFeatures: []string{"mpx"}}
	for _, test := range []struct {
		why    string
		change func(map[string]string)
		want   *v1alpha1.ReportedCPU
	}{
		{"Intel", func(map[string]string) {}, whole},
		{"Intel with MPX", func(l map[string]string) { l[v1.CPUFeatureLabel+"mpx"] = "true" },
			&v1alpha1.ReportedCPU{Model: "Haswell", Vendor: "Intel", Features: []string{"aes", "avx2", "mpx"}}},
		{"AMD", func(l map[string]string) {
			delete(l, v1.CPUModelVendorLabel+"Intel")
			l[v1.CPUModelVendorLabel+"AMD"] = "true"
		}, &v1alpha1.ReportedCPU{Model: "Haswell", Vendor: "AMD", Features: []string{"aes", "avx2"}}},
		{"no label", func(l map[string]string) { clear(l) }, nil},
		{"two models", func(l map[string]string) { l[v1.HostModelCPULabel+"EPYC"] = "true" }, nil},
		{"a model that lacks a feature here", func(l map[string]string) { delete(l, v1.CPUModelLabel+"Haswell") }, nil},
		{"no features", func(l map[string]string) {
			maps.DeleteFunc(l, func(key, _ string) bool { return strings.HasPrefix(key, v1.CPUFeatureLabel) })
		}, nil},
		{"a mode", func(l map[string]string) {
			delete(l, v1.HostModelCPULabel+"Haswell")
			l[v1.HostModelCPULabel+"host-model"], l[v1.CPUModelLabel+"host-model"] = "true", "true"
		}, nil},
		{"a feature that libvirt cannot have", func(l map[string]string) { l[v1.CPUFeatureLabel+"A_"] = "true" }, nil},
	} {
		if diff := cmp.Diff(test.want, HostModel(labelled(test.change))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.why, diff)
		}
	}
}
