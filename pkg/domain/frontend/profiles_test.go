package frontend_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/frontend"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/test/frontends"
)

// TestRecordWinsOverProfile: a guest that has booted finds the same after the profile has gone, and after another one came.
func TestRecordWinsOverProfile(t *testing.T) {
	t.Parallel()
	for name, in := range frontends.AllProfiled(t) {
		first := frontends.Rendered(t, in)
		frozen := abi.Freeze(first, in.Defaults.Version)
		if err := record.Check(&frozen); err != nil {
			t.Errorf("%s: the record is refused: %v", name, err)
		}
		for why, defaults := range map[string]config.FrontendDefaults{
			"no profile":      config.Default().Frontend,
			"another profile": frontends.Profiled(t, "{freePorts: 3, smbios: {manufacturer: X}, usb: {model: qemu-xhci}, generationID: false}"),
		} {
			in.Frozen, in.Defaults = &frozen, defaults
			if diff := cmp.Diff(frontends.Printed(t, first), frontends.Printed(t, frontends.Rendered(t, in))); diff != "" {
				t.Errorf("%s, %s: (-first boot +second):\n%s", name, why, diff)
			}
		}
	}
}

// TestRecordWithoutProfile: a guest of the release before FrontendProfiles keeps its devices when the first profile comes.
func TestRecordWithoutProfile(t *testing.T) {
	t.Parallel()
	for _, arch := range []string{"amd64", "arm64"} {
		in := frontends.With(t, arch, "old", frontends.WithTablet)
		first := frontends.Rendered(t, in)
		frozen := abi.Freeze(first, "2")
		if frozen.USB != "" || frozen.DeflateOnOOM {
			t.Errorf("%s: the record has new fields: %+v", arch, frozen)
		}
		in.Frozen, in.Defaults = &frozen, frontends.Profiled(t, frontends.ProfileOf(t, 128, "nec-xhci", "amd64: cirrus"))
		if diff := cmp.Diff(frontends.Printed(t, first), frontends.Printed(t, frontends.Rendered(t, in))); diff != "" {
			t.Errorf("%s: (-first boot +second):\n%s", arch, diff)
		}
		// What the guest did not have comes from the profile.
		bare := frontends.With(t, "amd64", "bare", "spec: {domain: {devices: {autoattachMemBalloon: false}}}")
		frozen = abi.Freeze(frontends.Rendered(t, bare), "2")
		more := frontends.With(t, "amd64", "bare", frontends.WithTablet)
		more.Frozen, more.Defaults = &frozen, in.Defaults
		dom := frontends.Rendered(t, more)
		if text := frontends.Printed(t, dom); !strings.Contains(text, `model="nec-xhci"`) || !strings.Contains(text, `autodeflate="on"`) {
			t.Errorf("new devices are not as in the profile:\n%s", text)
		}
	}
}

// TestForgedModels: a record or defaults with a model that QEMU has not, or has not on this machine, is an error at a field.
func TestForgedModels(t *testing.T) {
	t.Parallel()
	in := frontends.With(t, "amd64", "forged", frontends.WithTablet)
	frozen := abi.Freeze(frontends.Rendered(t, in), "v1")
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
