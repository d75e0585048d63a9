package manifests_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// dmi are DMI strings in YAML that a FrontendProfile may hold, and some that it must not.
var dmi = struct{ taken, refused []string }{
	[]string{"a", "Acme", "'a, \"b\" <c> & ''d'' $(e) \\f'", `'!'`, "'~'", strings.Repeat("x", 64)},
	[]string{"''", "' a'", "'a '", strings.Repeat("x", 65), "é", `"a\tb"`, `"a\nb"`, `"a\n"`, `"\0"`, `"a\x7f"`, `"\u202e"`, `"a\u00a0b"`},
}

// frontendBounds are the values of each field of a FrontendProfile: some that the API server takes, and some that it refuses at the field.
var frontendBounds = []struct {
	field          string
	taken, refused []string
}{
	{"smbios.manufacturer", dmi.taken, dmi.refused}, {"smbios.product", dmi.taken[4:], dmi.refused[:4]}, {"smbios.version", dmi.taken[4:], dmi.refused[:4]},
	{"smbios.sku", dmi.taken[4:], dmi.refused[:4]}, {"smbios.family", dmi.taken[4:], dmi.refused[:4]},
	{"video.amd64", []string{"bochs", "cirrus", "ramfb", "vga", "virtio"}, []string{"qxl", "''", "VGA", "none", "'vga\" primary=\"no'"}},
	{"video.amd64EFI", []string{"bochs", "cirrus", "ramfb", "vga", "virtio"}, []string{"qxl", "''"}},
	{"video.arm64", []string{"ramfb", "virtio"}, []string{"vga", "bochs", "''"}},
	{"freePorts", []string{"0", "8", "128"}, []string{"-1", "129", "2147483648", "9223372036854775807", "'8'", "1.5"}},
	{"usb.model", []string{"qemu-xhci", "nec-xhci"}, []string{"none", "piix3-uhci", "ich9-ehci1", "''"}},
	{"balloon.deflateOnOOM", []string{"true", "false"}, []string{"'true'", "1"}},
	{"generationID", []string{"true", "false"}, []string{"'no'"}},
}

// frontendProfiles: the API server refuses what is wrong with a FrontendProfile at the field, as the engine does, without any webhook.
func frontendProfiles(t *testing.T, p plane) {
	for _, c := range frontendBounds {
		names := strings.Split(c.field, ".")
		for i, values := range [][]string{c.taken, c.refused} {
			for _, value := range values {
				frontendProfile(t, p, c.field, strings.Join(names, ": {")+": "+value+strings.Repeat("}", len(names)-1), i == 0)
			}
		}
	}
	for _, c := range []struct{ why, object, refused string }{
		{"the lowest version", "metadata: {name: v1}, spec: {}", ""},
		{"the highest version", "metadata: {name: v999999999}, spec: {}", ""},
		{"a name without version", "metadata: {name: latest}, spec: {}", "metadata.name must be"},
		{"a version with a zero before it, which would be two names of one version", "metadata: {name: v01}, spec: {}", "metadata.name must be"},
		{"version 0", "metadata: {name: v0}, spec: {}", "metadata.name must be"},
		{"a version that overflows", "metadata: {name: v9999999999}, spec: {}", "metadata.name must be"},
		{"a patch version", "metadata: {name: v1.2}, spec: {}", "metadata.name must be"},
		{"a generated name", "metadata: {generateName: v1}, spec: {}", "metadata.name must be"},
		{"no spec, so that one could be added later", "metadata: {name: v1}", "spec: Required value"},
		{"an unknown field", "metadata: {name: v1}, spec: {freeports: 1}", "unknown field"},
	} {
		refusal := p.refusal(t, "{apiVersion: kilnvm.io/v1alpha1, kind: FrontendProfile, "+c.object+"}")
		if (refusal == "") != (c.refused == "") || !strings.Contains(refusal, c.refused) {
			t.Errorf("%s: want it refused with '%s': %s", c.why, c.refused, refusal)
		}
	}
	immutable(t, p)
}

func frontendProfile(t *testing.T, p plane, path, spec string, taken bool) {
	t.Helper()
	object := "{apiVersion: kilnvm.io/v1alpha1, kind: FrontendProfile, metadata: {name: v7}, spec: {" + spec + "}}"
	refusal := p.refusal(t, object)
	if (refusal == "") != taken || !taken && !strings.Contains(refusal, "spec."+path) && !strings.Contains(refusal, path+"\"") {
		t.Errorf("%s: want it taken: %t, or refused at %s: %s", spec, taken, path, refusal)
	}
	var profile v1alpha1.FrontendProfile
	err := yaml.UnmarshalStrict([]byte(object), &profile)
	if err == nil && !strings.HasSuffix(spec, ": ''}") { // an empty text of Go is an absent field
		err = config.InvalidFrontend(&profile.Spec, field.NewPath("spec")).ToAggregate()
		if (err == nil) != taken || !taken && !strings.Contains(err.Error(), "spec."+path) {
			t.Errorf("%s: want the engine to take it: %t, %v", spec, taken, err)
		}
	}
}

// immutable: a version means the same for ever. Its status is the controller's.
func immutable(t *testing.T, p plane) {
	p.kubectl(t, "{apiVersion: kilnvm.io/v1alpha1, kind: FrontendProfile, metadata: {name: v3}, spec: {freePorts: 3, smbios: {sku: a}}}", "create", "-f", "-")
	defer p.kubectl(t, "", "delete", "frontendprofile", "v3")
	for _, patch := range []string{
		`{"spec":{"freePorts":4}}`, `{"spec":{"smbios":null}}`, `{"spec":{"smbios":{"family":"b"}}}`, `{"spec":{"generationID":true}}`, `{"spec":null}`,
	} {
		if out, err := p.try("", "", "patch", "frontendprofile", "v3", "--type=merge", "-p", patch); err == nil {
			t.Errorf("%s changes a version: %s", patch, out)
		}
	}
	p.kubectl(t, "", "annotate", "frontendprofile", "v3", "example.com/reviewed-by=me")
	now := "2026-01-01T00:00:00Z"
	p.kubectl(t, "", "patch", "frontendprofile", "v3", "--subresource=status", "--type=merge", "-p", fmt.Sprintf(
		`{"status":{"conditions":[{"type":"InForce","status":"True","reason":"HighestVersion","message":"","lastTransitionTime":"%s"}]}}`, now))
	out := p.kubectl(t, "", "get", "frontendprofiles")
	if got := strings.Fields(out); len(got) < 6 || strings.Join(got[:6], " ") != "NAME IN FORCE AGE v3 True" {
		t.Errorf("columns are\n%s", out)
	}
}
