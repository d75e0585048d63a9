package admit_test

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestErrorsNameTheOrigin: an error at a field that the VM does not have names the object that set the field, whether the VM has the parent of the field or
// not.
func TestErrorsNameTheOrigin(t *testing.T) {
	t.Parallel()
	const size, preference = "instancetype 'size' sets ", "preference 'taste' sets "
	for _, test := range []struct{ why, instancetype, preference, template, path, origin string }{
		{"the bus of a disk", "", "devices: {preferredDiskBus: ide}", "devices: {disks: [{name: a, disk: {}}]}", "domain.devices.disks[0].disk.bus", preference},
		{"the bus of a CD-ROM", "", "devices: {preferredCdromBus: ide}", "devices: {disks: [{name: a, cdrom: {}}]}", "domain.devices.disks[0].cdrom.bus", preference},
		{"the bus of a LUN", "", "devices: {preferredLunBus: ide}", "devices: {disks: [{name: a, lun: {}}]}", "domain.devices.disks[0].lun.bus", preference},
		{"the cache of a disk", "", "devices: {preferredDiskCache: fast}", "devices: {disks: [{name: a, disk: {}}]}", "domain.devices.disks[0].cache", preference},
		{"the IO of a disk", "", "devices: {preferredDiskIO: fast}", "devices: {disks: [{name: a, disk: {}}]}", "domain.devices.disks[0].io", preference},
		{"the model of a card", "", "devices: {preferredInterfaceModel: token-ring}", "devices: {interfaces: [{name: default, masquerade: {}}]}",
			"domain.devices.interfaces[0].model", preference},
		{"the bus of an input", "", "devices: {preferredInputBus: ps3}", "devices: {inputs: [{name: i, type: tablet}]}", "domain.devices.inputs[0].bus", preference},
		{"the type of an input", "", "devices: {preferredInputType: mouse}", "devices: {inputs: [{name: i, bus: usb, type: ''}]}",
			"domain.devices.inputs[0].type", preference},
		{"the model of a sound card", "", "devices: {preferredSoundModel: gramophone}", "devices: {sound: {name: s}}", "domain.devices.sound.model", preference},
		{"a Hyper-V feature of which a default says that it is on", "", "features: {preferredHyperv: {synic: {}, vpindex: {enabled: false}}}", "devices: {}",
			"", preference},
		{"a policy of IO threads", "ioThreadsPolicy: many", "", "devices: {}", "domain.ioThreadsPolicy", size},
		{"a video card without a model", "", "devices: {preferredVideoType: ''}", "devices: {}", "", preference},
		{"an architecture without the user's device", "", "preferredArchitecture: arm64", "devices: {sound: {name: s}}", "domain.devices.sound",
			"architecture 'arm64' has no sound device: remove it; preference 'taste' sets spec.architecture"},
		{"what is missing beside what an instancetype sets", "cpu: {guest: 2, realtime: {}}, memory: {guest: 1Gi}", "", "devices: {}", "", size},
		{"dedicated CPUs beside a CPU model of the VM", "cpu: {guest: 2, dedicatedCPUPlacement: true}, memory: {guest: 1Gi, overcommitPercent: 0}, " +
			"launchSecurity: {sev: {}, snp: {}}", "", "cpu: {model: host-model}, devices: {}", "domain.launchSecurity", size},
	} {
		var set instancetype.Set
		if test.instancetype != "" {
			set.Instancetype = &instancetype.Instancetype{Source: instancetype.Source{Kind: instancetype.Kinds.Cluster, Name: "size"}}
			spec := test.instancetype
			if !strings.Contains(spec, "memory:") {
				spec += ", cpu: {guest: 1}, memory: {guest: 1Gi}"
			}
			unmarshal(t, "{"+spec+"}", &set.Instancetype.Spec)
		}
		if test.preference != "" {
			set.Preference = &instancetype.Preference{Source: instancetype.Source{Kind: instancetype.PreferenceKinds.Cluster, Name: "taste"}}
			unmarshal(t, "{"+test.preference+"}", &set.Preference.Spec)
		}
		vm := &v1.VirtualMachine{}
		unmarshal(t, "{runStrategy: Halted, template: {spec: {domain: {"+test.template+"}, volumes: [{name: a, "+
			"persistentVolumeClaim: {claimName: a}}]}}}", &vm.Spec)
		if test.instancetype == "" {
			unmarshal(t, "{guest: 1Gi}", &vm.Spec.Template.Spec.Domain.Memory)
		} else {
			vm.Spec.Instancetype = &v1.InstancetypeMatcher{Name: "size"}
		}
		if test.preference != "" {
			vm.Spec.Preference = &v1.PreferenceMatcher{Name: "taste"}
		}
		_, verdict := admit.VM(vm, nil, admit.Input{Set: set, Cluster: config.Default()})
		at := "spec.template.spec." + test.path
		if test.path == "" {
			at = "spec.preference" // the VM has nothing near the field
			if test.instancetype != "" {
				at = "spec.instancetype"
			}
		}
		var found *field.Error
		for _, err := range verdict.Errors {
			if err.Field == at {
				found = err
			}
		}
		if found == nil || !strings.HasPrefix(found.Detail, test.origin) {
			t.Errorf("%s: want an error at %s that begins with %q: %v", test.why, at, test.origin, verdict.Errors)
		}
	}
}

func unmarshal(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}

// TestOwnValuesNameNobody: an error at a field that the user wrote is the user's, whatever a preference says of the field beside it.
func TestOwnValuesNameNobody(t *testing.T) {
	t.Parallel()
	set := instancetype.Set{Preference: &instancetype.Preference{Source: instancetype.Source{Kind: instancetype.PreferenceKinds.Cluster, Name: "taste"}}}
	unmarshal(t, "{devices: {preferredDiskBus: sata, preferredDiskCache: none}}", &set.Preference.Spec)
	vm := &v1.VirtualMachine{}
	unmarshal(t, "{runStrategy: Halted, preference: {name: taste}, template: {spec: {"+
		"domain: {memory: {guest: 1Gi}, devices: {disks: [{name: a, disk: {bus: ide}}]}}, "+
		"volumes: [{name: a, persistentVolumeClaim: {claimName: a}}]}}}", &vm.Spec)
	_, verdict := admit.VM(vm, nil, admit.Input{Set: set, Cluster: config.Default()})
	if len(verdict.Errors) != 1 || strings.Contains(verdict.Errors[0].Detail, "taste") {
		t.Errorf("one error that names nobody is wanted: %v", verdict.Errors)
	}
}
