package vm

import (
	"testing"

	v1 "kubevirt.io/api/core/v1"
)

func TestBootDisplay(t *testing.T) {
	yes, no := true, false
	options := func(enabled *bool, ramFB *v1.FeatureState) *v1.VGPUOptions {
		return &v1.VGPUOptions{Display: &v1.VGPUDisplayOptions{Enabled: enabled, RamFB: ramFB}}
	}
	for _, test := range []struct {
		why     string
		options *v1.VGPUOptions
		want    bool
	}{
		{"no options", nil, false},
		{"no display", &v1.VGPUOptions{}, false},
		{"a display is on, and so is its ramfb", options(nil, nil), true},
		{"a display that is on", options(&yes, nil), true},
		{"a display that is off", options(&no, nil), false},
		{"a ramfb of which nothing is said", options(nil, &v1.FeatureState{}), true},
		{"a ramfb that is on", options(&yes, &v1.FeatureState{Enabled: &yes}), true},
		{"a ramfb that is off", options(&yes, &v1.FeatureState{Enabled: &no}), false},
		{"a ramfb of a display that is off", options(&no, &v1.FeatureState{Enabled: &yes}), false},
	} {
		t.Run(test.why, func(t *testing.T) {
			if got := BootDisplay(test.options); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
