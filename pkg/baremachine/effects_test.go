package baremachine

import (
	"slices"
	"strings"
	"testing"

	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestWarnings: a warning contains the path of the field. A value that is equal to the default has no warning.
func TestWarnings(t *testing.T) {
	const nic, pull = "domain.devices.interfaces[0]", "volumes[0].containerDisk.imagePullPolicy"
	for spec, want := range map[string]string{
		"{}": "",
		"{evictionStrategy: None, domain: {devices: {disks: [{name: a, changedBlockTracking: false}]}}}": "",
		"{evictionStrategy: LiveMigrate}":                                    "evictionStrategy",
		"{domain: {devices: {interfaces: [{ports: [{port: 80}], tag: x}]}}}": nic + ".tag " + nic + ".ports",
		"{domain: {launchSecurity: {sev: {attestation: {}}}}}":               "domain.launchSecurity.sev.attestation",
		"{volumes: [{containerDisk: {image: 'a:1', imagePullPolicy: IfNotPresent}}, {containerDisk: {image: a, imagePullPolicy: Always}}]}": "",
		"{volumes: [{containerDisk: {image: 'a:1', imagePullPolicy: Always}}]}":                                                             pull,
		"{volumes: [{containerDisk: {image: 'a:latest', imagePullPolicy: Never}}]}":                                                         pull,
	} {
		vmi := &v1.VirtualMachineInstance{}
		if err := yaml.UnmarshalStrict([]byte(spec), &vmi.Spec); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, warning := range WarningsOf(vmi) {
			at, reason, _ := strings.Cut(strings.TrimPrefix(warning, "spec."), " ")
			if !strings.HasPrefix(reason, "has no effect: ") {
				t.Errorf("no reason: %s", warning)
			}
			got = append(got, at)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %s", spec, got, want)
		}
	}
}

// TestEffectsAreShort: an event has room for several warnings.
func TestEffectsAreShort(t *testing.T) {
	if !slices.ContainsFunc(EffectlessFields(), func(e Effect) bool { return e.Field == "affinity" }) {
		t.Error("the table lacks affinity")
	}
	for _, e := range EffectlessFields() {
		if text := "spec." + strings.ReplaceAll(e.Field, "[]", "[255]") + " " + e.Reason; len(text) > 150 {
			t.Errorf("%d characters: %s", len(text), text)
		}
	}
}
