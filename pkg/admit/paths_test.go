package admit

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// TestWrittenPaths: an error is at what was sent, whatever names a tenant gave to it.
func TestWrittenPaths(t *testing.T) {
	t.Parallel()
	f := sourceFinder{}
	err := json.Unmarshal([]byte(`{"spec": {"disks": [{"name": "a"}], "labels": {"a.b/c": "", "a]b": "", "x[0]": {"y": {}}}}}`), &f.sent)
	if err != nil {
		t.Fatal(err)
	}
	labels := field.NewPath("spec", "labels")
	for _, test := range []struct{ path, want, why string }{
		{"spec.disks[0].name", "spec.disks[0].name", "it was sent"},
		{"spec.disks[0].bus", "spec.disks[0].bus", "its parent was sent"},
		{"spec.disks[0].disk.bus", "spec.disks[0].disk", "its parent was not"},
		{"spec.disks[1]", "spec.disks[1]", "its parent was sent"},
		{"spec.disks[1].name", "spec.disks", "there is no such element"},
		{"spec.disks[-1].name", "spec.disks", "there is no such element"},
		{"spec.disks.a.b", "spec.disks.a", "a list has no fields"},
		{"spec.domain.cpu.cores", "spec.domain", "nothing of it was sent"},
		{labels.Key("a.b/c").String(), "spec.labels[a.b/c]", "a key may hold dots"},
		{labels.Key("a]b").Child("z").String(), "spec.labels[a]b].z", "a key may hold a bracket"},
		{labels.Key("x[0]").Child("y", "z").String(), "spec.labels[x[0]].y.z", "a key may look like an element"},
		{labels.Key("a.b").Child("z").String(), "spec.labels", "there is no such key"},
	} {
		if got := f.nearestSent(test.path); got != test.want {
			t.Errorf("%s: '%s', want '%s': %s", test.path, got, test.want, test.why)
		}
	}
}

// TestVolumesOfMadeDisks: a disk that nobody wrote was made for a volume, which the owner can change.
func TestVolumesOfMadeDisks(t *testing.T) {
	t.Parallel()
	vm := &v1.VirtualMachine{}
	vm.Spec.Template = &v1.VirtualMachineInstanceTemplateSpec{}
	written := &vm.Spec.Template.Spec
	written.Domain.Devices.Disks = []v1.Disk{{Name: "own"}}
	written.Volumes = []v1.Volume{{Name: "own"}, {Name: "data"}}
	vmi := &v1.VirtualMachineInstance{}
	vmi.Spec.Domain.Devices.Disks = []v1.Disk{{Name: "own"}, {Name: "data"}, {Name: "none"}}
	f := sourceFinder{vm: vm, done: &run{vmi: vmi}}
	for path, want := range map[string]string{
		disksPath + "[1].disk.bus":        "spec.template.spec.volumes[1]",
		disksPath + "[1]":                 "spec.template.spec.volumes[1]",
		disksPath + "[0].disk.bus":        "otherwise", // the owner wrote it
		disksPath + "[2].disk.bus":        "otherwise", // no volume has its name
		disksPath + "[3].disk.bus":        "otherwise", // the VMI has only three disks
		disksPath + "[99999999999999999]": "otherwise",
		disksPath:                         "otherwise",
		disksPath + ".x[1]":               "otherwise",
		"spec.template.spec.volumes[1]":   "otherwise",
	} {
		if got := f.volumePath(path, "otherwise"); got != want {
			t.Errorf("%s: '%s', want '%s'", path, got, want)
		}
	}
}
