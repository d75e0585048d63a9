package frontends

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/frontend"
	"sigs.k8s.io/yaml"
)

// Profiled returns the defaults of a cluster with a FrontendProfile of this spec.
func Profiled(t testing.TB, spec string) config.FrontendDefaults {
	t.Helper()
	profile := v1alpha1.FrontendProfile{}
	profile.Name = "v7"
	if err := yaml.UnmarshalStrict([]byte(spec), &profile.Spec); err != nil {
		t.Fatal(err)
	}
	defaults := config.Default().WithFrontendProfiles([]v1alpha1.FrontendProfile{profile}).FrontendDefaults()
	if defaults.Version != "v7" {
		t.Fatalf("the profile is not valid: %s", spec)
	}
	return defaults
}

// longest are DMI strings that XML and QEMU's command line must escape, of as many characters as a profile may have.
var longest = strings.Repeat(`a,b=<&>"' $`, 6)[:63] + "."

// ProfileOf returns the spec of a FrontendProfile that sets everything.
func ProfileOf(t testing.TB, ports int, usb, video string) string {
	t.Helper()
	text, err := yaml.Marshal(longest)
	if err != nil {
		t.Fatal(err)
	}
	quoted := strings.TrimSpace(string(text))
	return fmt.Sprintf("smbios:\n  manufacturer: %s\n  product: %s\n  version: '1,2'\n  sku: S\n  family: F\nvideo: {%s}\nfreePorts: %d\nusb: {model: %s}\n"+
		"balloon: {deflateOnOOM: true}\ngenerationID: true\n", quoted, quoted, video, ports, usb)
}

// WithTablet is a guest with a USB device, a disk and an interface.
const WithTablet = "spec: {domain: {devices: {inputs: [{name: pen, type: tablet, bus: usb}], " +
	"disks: [{name: a, disk: {bus: virtio}}], interfaces: [{name: default}]}}}"

// AllProfiled returns guests under profiles with every value, and with each model that a profile may name.
func AllProfiled(t testing.TB) map[string]frontend.Input {
	t.Helper()
	all := map[string]frontend.Input{}
	for _, ports := range []int{0, 128} {
		for _, usb := range []string{"qemu-xhci", "nec-xhci"} {
			for _, video := range []string{"bochs", "cirrus", "ramfb", "vga", "virtio"} {
				name := fmt.Sprintf("amd64-%d-%s-%s", ports, usb, video)
				in := With(t, "amd64", name, WithTablet)
				in.Defaults, in.Generation = Profiled(t, ProfileOf(t, ports, usb, "amd64: "+video)), "5d307ca9-b3ef-428c-8861-06e72d69f223"
				all[name] = in
			}
			for _, video := range []string{"ramfb", "virtio"} {
				name := fmt.Sprintf("arm64-%d-%s-%s", ports, usb, video)
				in := With(t, "arm64", name, WithTablet)
				in.Defaults = Profiled(t, ProfileOf(t, ports, usb, "arm64: "+video))
				all[name] = in
			}
		}
	}
	in := With(t, "s390x", "s390x", "spec: {domain: {devices: {disks: [{name: a, disk: {bus: virtio}}], interfaces: [{name: default}]}}}")
	in.Defaults = Profiled(t, ProfileOf(t, 128, "nec-xhci", "amd64: cirrus"))
	all["s390x"] = in
	return all
}
