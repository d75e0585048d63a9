package admit_test

import (
	"testing"

	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
)

// TestAnnotationsOfNewerVersions: a VMI gets an annotation of KubeVirt by default only beside a KubeVirt that has it. An annotation that is written stays.
func TestAnnotationsOfNewerVersions(t *testing.T) {
	for _, test := range []struct {
		version          config.Version
		topology, quotes bool
	}{{7, false, false}, {8, true, false}, {9, true, true}, {0, true, true}} {
		cluster, errs := test.version.FromKubeVirt(v1.KubeVirtConfiguration{})
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		for _, written := range []map[string]string{nil, {v1.PciTopologyVersionAnnotation: "v2"}} {
			vmi := &v1.VirtualMachineInstance{}
			vmi.Annotations = written
			vmi.Spec.Domain.LaunchSecurity = &v1.LaunchSecurity{TDX: &v1.TDX{}}
			explicit, _ := admit.VMI(vmi, admit.Input{Cluster: cluster})
			topology, has := explicit.Annotations[v1.PciTopologyVersionAnnotation]
			if _, quotes := explicit.Annotations[v1.QGSSocketPathAnnotation]; quotes != test.quotes || has != (test.topology || written != nil) {
				t.Errorf("%s: annotations %v", test.version, explicit.Annotations)
			}
			if written != nil && topology != "v2" {
				t.Errorf("%s: topology '%s' replaces the written one", test.version, topology)
			}
		}
	}
}
