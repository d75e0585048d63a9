package frontend_test

import (
	"testing"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/test/frontends"
)

// TestEncrypted: the host cannot reach an encrypted guest's memory. Therefore each virtio device uses the IOMMU and no card has an option ROM. The policy is
// taken from the API.
func TestEncrypted(t *testing.T) {
	t.Parallel()
	const devices = `devices: {autoattachVSOCK: true, rng: {}, disks: [{name: a, disk: {bus: virtio}, bootOrder: 1}, {name: b, disk: {bus: scsi}}],
      interfaces: [{name: default, bootOrder: 2}], inputs: [{name: keys, type: keyboard, bus: virtio}], filesystems: [{name: share, virtiofs: {}}]}`
	for _, c := range []struct {
		name, arch, security string
		iommu                string
		policy               uint
	}{
		{"sev", "amd64", "{sev: {}}", "on", 0x1},
		{"sev-es", "amd64", "{sev: {policy: {encryptedState: true}, session: c2Vzc2lvbg==, dhCert: Y2VydA==}}", "on", 0x5},
		{"sev-snp", "amd64", "{snp: {}}", "on", 0x30000},
		{"tdx", "amd64", "{tdx: {}}", "", 0},
		{"secure execution", "s390x", "{sev: {}}", "on", 0},
		{"none", "amd64", "null", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			firmware := "{}"
			if c.arch == "amd64" {
				firmware = "{bootloader: {efi: {secureBoot: false}}}"
			}
			dom := frontends.Rendered(t, frontends.With(t, c.arch, "encrypted", `spec: {domain: {launchSecurity: `+c.security+`, firmware: `+firmware+`, `+devices+`}}`))
			policy := uint(0)
			switch s := dom.LaunchSecurity; {
			case s != nil && s.SEV != nil:
				policy = *s.SEV.Policy
			case s != nil && s.SEVSNP != nil:
				policy = uint(*s.SEVSNP.Policy)
			}
			if policy != c.policy {
				t.Errorf("policy is %#x, want %#x", policy, c.policy)
			}
			l, got := dom.Devices, map[string]string{}
			note := func(what string, iommu *string) {
				got[what] = ""
				if iommu != nil {
					got[what] = *iommu
				}
			}
			for _, d := range abi.Devices(dom) {
				switch {
				case d.Disk != nil && d.Bus == "virtio":
					note(d.Key(), driver(d.Disk.Driver, func() string { return d.Disk.Driver.IOMMU }))
				case d.Interface != nil:
					note(d.Key(), driver(d.Interface.Driver, func() string { return d.Interface.Driver.IOMMU }))
					if c.iommu == "on" && c.arch == "amd64" && (d.Interface.ROM == nil || d.Interface.ROM.Enabled != "no") {
						t.Error("the card has an option ROM")
					}
				case d.Controller != nil && (d.Controller.Type == "scsi" || d.Controller.Type == "virtio-serial"):
					note(d.Key(), driver(d.Controller.Driver, func() string { return d.Controller.Driver.IOMMU }))
				}
			}
			note("balloon", driver(l.MemBalloon.Driver, func() string { return l.MemBalloon.Driver.IOMMU }))
			note("rng", driver(l.RNGs[0].Driver, func() string { return l.RNGs[0].Driver.IOMMU }))
			note("vsock", driver(l.VSock.Driver, func() string { return l.VSock.Driver.IOMMU }))
			note("keys", driver(l.Inputs[0].Driver, func() string { return l.Inputs[0].Driver.IOMMU }))
			note("share", driver(l.Filesystems[0].Driver, func() string { return l.Filesystems[0].Driver.IOMMU }))
			if len(got) != 9 {
				t.Errorf("%d virtio devices, want 9: %v", len(got), got)
			}
			for what, iommu := range got {
				if iommu != c.iommu {
					t.Errorf("%s has iommu '%s', want '%s'", what, iommu, c.iommu)
				}
			}
		})
	}
}

// driver reads of a driver that may be absent.
func driver[T any](of *T, read func() string) *string {
	if of == nil {
		return nil
	}
	text := read()
	return &text
}
