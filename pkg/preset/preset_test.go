package preset

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

func preset(name string, domain v1.DomainSpec) v1.VirtualMachineInstancePreset {
	return v1.VirtualMachineInstancePreset{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.VirtualMachineInstancePresetSpec{Selector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "web"}}, Domain: &domain}}
}

func requestsOf(name corev1.ResourceName, value string) v1.DomainSpec {
	return v1.DomainSpec{Resources: v1.ResourceRequirements{Requests: corev1.ResourceList{name: resource.MustParse(value)}}}
}

// apply is Fill with what was skipped in words.
func apply(presets []v1.VirtualMachineInstancePreset, vmi *v1.VirtualMachineInstance) (warnings []string, errs field.ErrorList) {
	skipped, errs := Fill(presets, vmi, Observer{})
	for _, s := range skipped {
		warnings = append(warnings, s.String())
	}
	return warnings, errs
}

func web() *v1.VirtualMachineInstance {
	return &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"tier": "web"}}}
}

func TestRequestsMergeByKey(t *testing.T) {
	vmi := web()
	warnings, errs := apply([]v1.VirtualMachineInstancePreset{preset("b", requestsOf("memory", "1Gi")), preset("a", requestsOf("cpu", "2"))}, vmi)
	if len(errs) > 0 || len(warnings) > 0 || len(vmi.Spec.Domain.Resources.Requests) != 2 {
		t.Errorf("one preset gives CPU, the other memory: %v %v %v", vmi.Spec.Domain.Resources.Requests, warnings, errs)
	}
	if vmi.Annotations["virtualmachinepreset.kubevirt.io/a"] != "kubevirt.io/v1" || vmi.Annotations["virtualmachinepreset.kubevirt.io/b"] == "" {
		t.Errorf("both are marked as applied: %v", vmi.Annotations)
	}
}

func TestTheGuestsOwnValueWins(t *testing.T) {
	vmi := web()
	vmi.Spec.Domain.CPU = &v1.CPU{Cores: 1}
	warnings, errs := apply([]v1.VirtualMachineInstancePreset{preset("a", v1.DomainSpec{CPU: &v1.CPU{Cores: 8}})}, vmi)
	if len(errs) > 0 || vmi.Spec.Domain.CPU.Cores != 1 || len(vmi.Annotations) > 0 {
		t.Errorf("nothing of the preset was applied: %+v %v %v", vmi.Spec.Domain.CPU, vmi.Annotations, errs)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "'a'") || !strings.Contains(warnings[0], "spec.domain.cpu") {
		t.Errorf("a warning names preset and field: %q", warnings)
	}
}

func TestDisagreementIsRefused(t *testing.T) {
	for range 20 { // whatever order maps are walked in
		vmi := web()
		_, errs := apply([]v1.VirtualMachineInstancePreset{preset("b", requestsOf("memory", "1Gi")), preset("a", requestsOf("memory", "2Gi"))}, vmi)
		if len(errs) != 1 || errs[0].Field != "metadata.labels" {
			t.Fatalf("got %v", errs)
		}
		for _, want := range []string{"'a' and 'b'", "1Gi", "2Gi", "spec.domain.resources.requests.memory"} {
			if !strings.Contains(errs[0].Detail, want) {
				t.Errorf("'%s' lacks %s", errs[0].Detail, want)
			}
		}
		if len(vmi.Spec.Domain.Resources.Requests) > 0 {
			t.Error("something was applied")
		}
	}
}

func TestWhoIsMeant(t *testing.T) {
	cpu := v1.DomainSpec{CPU: &v1.CPU{Cores: 2}}
	other := web()
	other.Labels = nil
	excluded := web()
	excluded.Annotations = map[string]string{Exclude: "true"}
	for name, vmi := range map[string]*v1.VirtualMachineInstance{"labels do not match": other, "excluded": excluded} {
		if _, errs := apply([]v1.VirtualMachineInstancePreset{preset("a", cpu)}, vmi); len(errs) > 0 || vmi.Spec.Domain.CPU != nil {
			t.Errorf("%s: %+v %v", name, vmi.Spec.Domain.CPU, errs)
		}
	}
	bad := preset("bad", cpu)
	bad.Spec.Selector = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	if _, errs := apply([]v1.VirtualMachineInstancePreset{bad}, web()); len(errs) != 1 || !strings.Contains(errs[0].Detail, "'bad'") {
		t.Errorf("an invalid selector names its preset: %v", errs)
	}
}

func TestUncoveredFieldsAreNamed(t *testing.T) {
	warnings, _ := apply([]v1.VirtualMachineInstancePreset{preset("a", v1.DomainSpec{Machine: &v1.Machine{Type: "q35"}})}, web())
	if len(warnings) != 1 || !strings.Contains(warnings[0], "spec.domain.machine") {
		t.Errorf("KubeVirt drops it in silence: %q", warnings)
	}
}

func TestPresetsAreNotAliased(t *testing.T) {
	vmi, presets := web(), []v1.VirtualMachineInstancePreset{preset("a", v1.DomainSpec{CPU: &v1.CPU{Cores: 2}})}
	apply(presets, vmi)
	vmi.Spec.Domain.CPU.Cores = 99
	if presets[0].Spec.Domain.CPU.Cores != 2 {
		t.Error("the guest shares the preset's memory")
	}
}
