package frontends_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/test/frontends"
	"github.com/kilnvm/kiln/test/libvirt"
	"libvirt.org/go/libvirtxml"
)

// TestProfilesAreLegal: whatever a FrontendProfile may hold is a domain that libvirt takes as it is, on each architecture.
func TestProfilesAreLegal(t *testing.T) {
	t.Parallel()
	daemon := libvirt.Start(t)
	for name, in := range frontends.AllProfiled(t) {
		t.Run(name, func(t *testing.T) {
			dom := frontends.Rendered(t, in)
			frontends.AddSources(dom)
			text := frontends.Printed(t, dom)
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
	all := frontends.AllProfiled(t)
	for name, cpu := range map[string]string{"amd64-128-nec-xhci-cirrus": "qemu64", "arm64-128-nec-xhci-ramfb": "cortex-a57", "s390x": "qemu"} {
		t.Run(name, func(t *testing.T) {
			in := all[name]
			in.VMI.Spec.Domain.CPU.Model = cpu // without KVM
			dom := frontends.Rendered(t, in)
			frontends.AddSources(dom)
			frontends.AddFiles(t, dom)
			text := frontends.Printed(t, dom)
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
