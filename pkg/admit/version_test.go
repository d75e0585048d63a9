package admit_test

import (
	"testing"

	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
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
			explicit, verdict := admit.VMI(vmi, admit.Input{Cluster: cluster})
			if len(verdict.Errors) > 0 { // a version without the annotation lacks its rule, too
				t.Errorf("%s: %v", test.version, verdict.Errors)
			}
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

// TestPreferencesOfNewerVersions: beside an older KubeVirt a preference has only the fields of that version, also while the instancetype does not exist yet.
func TestPreferencesOfNewerVersions(t *testing.T) {
	model, video := v1.Isa, "virtio"
	preference := &instancetype.Preference{}
	preference.Spec.Devices = &v1beta1.DevicePreferences{PreferredPanicDeviceModel: &model, PreferredVideoType: &video}
	preference.Spec.PreferredLaunchSecurity = &v1.LaunchSecurity{SEV: &v1.SEV{}}
	preference.Spec.Features = &v1beta1.FeaturePreferences{PreferredHyperv: &v1.FeatureHyperv{TLBFlush: &v1.TLBFlush{Direct: &v1.FeatureState{}}}}
	size := &instancetype.Instancetype{}
	size.Spec.CPU.Guest, size.Spec.Memory.Guest = 1, resource.MustParse("1Gi")
	for _, test := range []struct {
		version     config.Version
		newer, tlbs bool
	}{{7, false, false}, {8, false, true}, {9, true, true}} {
		cluster, _ := test.version.FromKubeVirt(v1.KubeVirtConfiguration{})
		vm := &v1.VirtualMachine{Spec: v1.VirtualMachineSpec{RunStrategy: new(v1.RunStrategyAlways), Template: &v1.VirtualMachineInstanceTemplateSpec{},
			Instancetype: &v1.InstancetypeMatcher{Name: "size"}, Preference: &v1.PreferenceMatcher{Name: "taste"}}}
		explicit, _ := admit.VM(vm, nil, admit.Input{Cluster: cluster, Set: instancetype.Set{Instancetype: size, Preference: preference}})
		domain := explicit.Spec.Domain
		if has := len(domain.Devices.PanicDevices) > 0; has != test.newer || (domain.Devices.Video != nil) != has || (domain.LaunchSecurity != nil) != has {
			t.Errorf("%s: panic devices %v, video %v, encryption %v", test.version, domain.Devices.PanicDevices, domain.Devices.Video, domain.LaunchSecurity)
		}
		if flush := domain.Features.Hyperv.TLBFlush; (flush.Direct != nil) != test.tlbs {
			t.Errorf("%s: tlbflush %v", test.version, flush)
		}
		// Without the size no VMI is made: the rules judge a draft, in which the gates of these devices are off.
		_, verdict := admit.VM(vm, nil, admit.Input{Cluster: cluster, Set: instancetype.Set{Preference: preference}})
		if !test.newer && len(verdict.Errors) > 0 {
			t.Errorf("%s: %v", test.version, verdict.Errors)
		}
	}
	if preference.Spec.Devices.PreferredVideoType == nil || preference.Spec.Features.PreferredHyperv.TLBFlush.Direct == nil {
		t.Error("the preference itself was changed")
	}
}
