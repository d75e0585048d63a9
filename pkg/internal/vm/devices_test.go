package vm

import (
	"testing"

	v1 "kubevirt.io/api/core/v1"
)

func TestIsDeviceName(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "A-9_z": true, "-": true, "Z0": true,
		"": false, "a.b": false, "a b": false, "a\n": false, "\na": false, "a/b": false, "ä": false,
	} {
		if IsDeviceName(name) != want {
			t.Errorf("'%s': got %t", name, !want)
		}
	}
}

func TestHotpluggable(t *testing.T) {
	claim := func(hotpluggable bool) *v1.PersistentVolumeClaimVolumeSource {
		return &v1.PersistentVolumeClaimVolumeSource{Hotpluggable: hotpluggable}
	}
	dataVolume := func(hotpluggable bool) *v1.DataVolumeSource { return &v1.DataVolumeSource{Hotpluggable: hotpluggable} }
	for _, c := range []struct {
		name   string
		source v1.VolumeSource
		want   bool
	}{
		{"a hotpluggable claim", v1.VolumeSource{PersistentVolumeClaim: claim(true)}, true},
		{"a claim", v1.VolumeSource{PersistentVolumeClaim: claim(false)}, false},
		{"a hotpluggable DataVolume", v1.VolumeSource{DataVolume: dataVolume(true)}, true},
		{"a DataVolume", v1.VolumeSource{DataVolume: dataVolume(false)}, false},
		{"a containerDisk", v1.VolumeSource{ContainerDisk: &v1.ContainerDiskSource{}}, false},
	} {
		if got := Hotpluggable(&v1.Volume{VolumeSource: c.source}); got != c.want {
			t.Errorf("%s: got %t, want %t", c.name, got, c.want)
		}
	}
}
