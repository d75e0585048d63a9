package record_test

import (
	"testing"

	"github.com/kilnvm/kiln/pkg/record"
	v1 "kubevirt.io/api/core/v1"
)

// epyc is a CPU that was recorded for host-model, and lacks some features.
func epyc(lacks ...string) *record.CPU {
	return &record.CPU{Requested: v1.CPUModeHostModel, Model: "EPYC", Vendor: "AMD", Features: []string{"avx2", "svm", "x2apic"}, DisabledFeatures: lacks}
}

// asks are the model and the features of a VMI, such as 'EPYC avx2=require'.
func asks(vmi *v1.VirtualMachineInstance) string {
	text := vmi.Spec.Domain.CPU.Model
	for _, f := range vmi.Spec.Domain.CPU.Features {
		text += " " + f.Name + "=" + f.Policy
	}
	return text
}

func withCPU(model string, features ...v1.CPUFeature) *v1.VirtualMachineInstance {
	out := &v1.VirtualMachineInstance{}
	out.Spec.Domain.CPU = &v1.CPU{Model: model, Features: features}
	return out
}

// TestPinCPU: what a VMI asks for, and that UnpinCPU finds host-model and what the owner asked for again.
func TestPinCPU(t *testing.T) {
	t.Parallel()
	const all = " avx2=require svm=require x2apic=require"
	for _, test := range []struct {
		why, model string
		features   []v1.CPUFeature
		recorded   *record.CPU
		hooked     bool
		want, was  string // was is what UnpinCPU returns, if it is not what the VMI asked for
	}{
		{why: "host-model", recorded: epyc(), want: "EPYC" + all},
		{why: "host-model with the hook", recorded: epyc(), hooked: true, want: "EPYC" + all},
		{why: "no record", want: "host-model"},
		{why: "a model of the owner", model: "Haswell", recorded: epyc(), want: "Haswell"},
		{why: "the host's CPU", model: v1.CPUModeHostPassthrough, recorded: epyc(), want: "host-passthrough"},
		{why: "a record for another model", recorded: &record.CPU{Requested: "Haswell", Model: "Haswell"}, want: "host-model"},
		{why: "a feature that KubeVirt disables too", recorded: epyc("mpx"), want: "EPYC" + all},
		{why: "a model of which the node lacks a feature", recorded: epyc("sha-ni"), want: "host-model"},
		{why: "a model of which the node lacks a feature, with the hook", recorded: epyc("sha-ni"), hooked: true, want: "host-model" + all,
			was: "host-model" + all},
		{why: "a feature that the owner does without", features: []v1.CPUFeature{{Name: "sha-ni", Policy: "disable"}}, recorded: epyc("sha-ni"),
			want: "EPYC sha-ni=disable" + all},
		{why: "a feature that the owner now does without", features: []v1.CPUFeature{{Name: "svm", Policy: "disable"}}, recorded: epyc(),
			want: "EPYC svm=disable avx2=require x2apic=require"},
		{why: "a feature that the owner asks for", features: []v1.CPUFeature{{Name: "aes"}}, recorded: epyc(), want: "EPYC aes=" + all},
		{why: "optional features", features: []v1.CPUFeature{{Name: "svm", Policy: "optional"}, {Name: "mpx", Policy: "optional"}, {Name: "aes", Policy: "optional"}},
			recorded: epyc("mpx"), want: "EPYC svm=require mpx=disable aes=optional avx2=require x2apic=require", was: "host-model mpx=disable aes=optional"},
	} {
		if test.model == "" {
			test.model = v1.CPUModeHostModel
		}
		given := withCPU(test.model, test.features...)
		before := asks(given)
		record.PinCPU(given, test.recorded, test.hooked)
		if got := asks(given); got != test.want {
			t.Errorf("%s: %s, want %s", test.why, got, test.want)
		}
		record.PinCPU(given, test.recorded, test.hooked)
		if got := asks(given); got != test.want {
			t.Errorf("%s, once more: %s, want %s", test.why, got, test.want)
		}
		if test.was == "" {
			test.was = before
		}
		if got := asks(record.UnpinCPU(given, test.recorded)); got != test.was {
			t.Errorf("%s: without the pin %s, want %s", test.why, got, test.was)
		}
		if got := asks(given); got != test.want {
			t.Errorf("%s: UnpinCPU changes its VMI to %s", test.why, got)
		}
	}
	record.PinCPU(&v1.VirtualMachineInstance{}, epyc(), false)
	if given := withCPU("EPYC"); record.UnpinCPU(given, epyc()) != given {
		t.Error("a model of the owner, without the recorded features, counts as a pin")
	}
}
