package frontend_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/frontend"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/test/libvirt"
	"libvirt.org/go/libvirtxml"
	"sigs.k8s.io/yaml"
)

// profiled are the defaults under a FrontendProfile.
func profiled(t testing.TB, spec string) config.FrontendDefaults {
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

// profileOf sets everything that a profile can set.
func profileOf(t testing.TB, ports int, usb, video string) string {
	t.Helper()
	text, err := yaml.Marshal(longest)
	if err != nil {
		t.Fatal(err)
	}
	quoted := strings.TrimSpace(string(text))
	return fmt.Sprintf("smbios:\n  manufacturer: %s\n  product: %s\n  version: '1,2'\n  sku: S\n  family: F\nvideo: {%s}\nfreePorts: %d\nusb: {model: %s}\n"+
		"balloon: {deflateOnOOM: true}\ngenerationID: true\n", quoted, quoted, video, ports, usb)
}

const withTablet = "spec: {domain: {devices: {inputs: [{name: pen, type: tablet, bus: usb}], " +
	"disks: [{name: a, disk: {bus: virtio}}], interfaces: [{name: default}]}}}"

// profiledGuests have every value of a profile, and each model that one may name.
func profiledGuests(t testing.TB) map[string]frontend.Input {
	t.Helper()
	all := map[string]frontend.Input{}
	for _, ports := range []int{0, 128} {
		for _, usb := range []string{"qemu-xhci", "nec-xhci"} {
			for _, video := range []string{"bochs", "cirrus", "ramfb", "vga", "virtio"} {
				name := fmt.Sprintf("amd64-%d-%s-%s", ports, usb, video)
				in := with(t, "amd64", name, withTablet)
				in.Defaults, in.Generation = profiled(t, profileOf(t, ports, usb, "amd64: "+video)), "5d307ca9-b3ef-428c-8861-06e72d69f223"
				all[name] = in
			}
			for _, video := range []string{"ramfb", "virtio"} {
				name := fmt.Sprintf("arm64-%d-%s-%s", ports, usb, video)
				in := with(t, "arm64", name, withTablet)
				in.Defaults = profiled(t, profileOf(t, ports, usb, "arm64: "+video))
				all[name] = in
			}
		}
	}
	in := with(t, "s390x", "s390x", "spec: {domain: {devices: {disks: [{name: a, disk: {bus: virtio}}], interfaces: [{name: default}]}}}")
	in.Defaults = profiled(t, profileOf(t, 128, "nec-xhci", "amd64: cirrus"))
	all["s390x"] = in
	return all
}

// TestProfilesAreLegal: whatever a FrontendProfile may hold is a domain that libvirt takes as it is, on each architecture.
func TestProfilesAreLegal(t *testing.T) {
	t.Parallel()
	daemon := libvirt.Start(t)
	for name, in := range profiledGuests(t) {
		t.Run(name, func(t *testing.T) {
			dom := rendered(t, in)
			complete(dom)
			text := printed(t, dom)
			if err := libvirt.Validate(text); err != nil {
				t.Errorf("libvirt's schema: %v", err)
			}
			stored, err := daemon.Define(text)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			var back libvirtxml.Domain
			if err := back.Unmarshal(stored); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(projected(t, dom), projected(t, &back)); diff != "" {
				t.Errorf("libvirt changed the guest (-rendered +stored):\n%s", diff)
			}
		})
	}
}

// TestProfilesStart: QEMU starts the largest profile of each architecture.
func TestProfilesStart(t *testing.T) {
	t.Parallel()
	daemon := libvirt.Start(t)
	all := profiledGuests(t)
	for name, cpu := range map[string]string{"amd64-128-nec-xhci-cirrus": "qemu64", "arm64-128-nec-xhci-ramfb": "cortex-a57", "s390x": "qemu"} {
		t.Run(name, func(t *testing.T) {
			in := all[name]
			in.VMI.Spec.Domain.CPU.Model = cpu // without KVM
			dom := rendered(t, in)
			complete(dom)
			files(t, dom)
			text := printed(t, dom)
			if _, err := daemon.Define(text); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			startPaused(t, daemon, dom.Name)
			if err := daemon.Destroy(dom.Name); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRecordWinsOverProfile: a guest that has booted finds the same after the profile has gone, and after another one came.
func TestRecordWinsOverProfile(t *testing.T) {
	t.Parallel()
	for name, in := range profiledGuests(t) {
		first := rendered(t, in)
		frozen := abi.Freeze(first, in.Defaults.Version)
		if err := record.Check(&frozen); err != nil {
			t.Errorf("%s: the record is refused: %v", name, err)
		}
		for why, defaults := range map[string]config.FrontendDefaults{
			"no profile":      config.Default().Frontend,
			"another profile": profiled(t, "{freePorts: 3, smbios: {manufacturer: X}, usb: {model: qemu-xhci}, generationID: false}"),
		} {
			in.Frozen, in.Defaults = &frozen, defaults
			if diff := cmp.Diff(printed(t, first), printed(t, rendered(t, in))); diff != "" {
				t.Errorf("%s, %s: (-first boot +second):\n%s", name, why, diff)
			}
		}
	}
}

// TestRecordWithoutProfile: a guest of the release before FrontendProfiles keeps its devices when the first profile comes.
func TestRecordWithoutProfile(t *testing.T) {
	t.Parallel()
	for _, arch := range []string{"amd64", "arm64"} {
		in := with(t, arch, "old", withTablet)
		first := rendered(t, in)
		frozen := abi.Freeze(first, "2")
		if frozen.USB != "" || frozen.DeflateOnOOM {
			t.Errorf("%s: the record has new fields: %+v", arch, frozen)
		}
		in.Frozen, in.Defaults = &frozen, profiled(t, profileOf(t, 128, "nec-xhci", "amd64: cirrus"))
		if diff := cmp.Diff(printed(t, first), printed(t, rendered(t, in))); diff != "" {
			t.Errorf("%s: (-first boot +second):\n%s", arch, diff)
		}
		// What the guest did not have comes from the profile.
		bare := with(t, "amd64", "bare", "spec: {domain: {devices: {autoattachMemBalloon: false}}}")
		frozen = abi.Freeze(rendered(t, bare), "2")
		more := with(t, "amd64", "bare", withTablet)
		more.Frozen, more.Defaults = &frozen, in.Defaults
		dom := rendered(t, more)
		if text := printed(t, dom); !strings.Contains(text, `model="nec-xhci"`) || !strings.Contains(text, `autodeflate="on"`) {
			t.Errorf("new devices are not those of the profile:\n%s", text)
		}
	}
}

// TestForgedModels: a record or defaults with a model that QEMU has not, or has not on this machine, is an error at a field.
func TestForgedModels(t *testing.T) {
	t.Parallel()
	in := with(t, "amd64", "forged", withTablet)
	frozen := abi.Freeze(rendered(t, in), "v1")
	frozen.USB = "piix3-uhci"
	in.Frozen = &frozen
	if _, errs := frontend.Render(in); len(errs) != 1 || errs[0].Field != "guesthardwares[forged].spec.hardware.usb" {
		t.Errorf("%v", errs)
	}
	in.Frozen, in.Defaults.USBModel = nil, "ehci"
	if _, errs := frontend.Render(in); len(errs) != 1 || errs[0].Field != "spec.domain.devices" {
		t.Errorf("%v", errs)
	}
	frozen.USB = `"/><script>`
	if err := record.Check(&frozen); err == nil || !strings.Contains(err.Error(), "usb") {
		t.Errorf("the record is accepted: %v", err)
	}
}
