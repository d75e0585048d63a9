package backends_test

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/backends"
	"github.com/kilnvm/kiln/test/libvirt"
)

// TestNICsAreDefined: libvirt accepts each kind of binding, if it is not too old for it.
func TestNICsAreDefined(t *testing.T) {
	t.Parallel()
	daemon := libvirt.Start(t)
	version := versionOf(t, daemon)
	for kind, nic := range backends.NICs {
		m := backends.WithNIC(t, "", nic)
		out, errs := render.Domain(m)
		if len(errs) > 0 {
			t.Errorf("%s: %v", kind, errs.ToAggregate())
			continue
		}
		m.Host.LibvirtVersion = version
		if _, errs := render.Domain(m); len(errs) > 0 && strings.Contains(errs[0].Detail, "needs libvirt") {
			t.Logf("%s: %v", kind, errs[0].Detail)
			continue
		}
		if text, err := define(daemon, out.Documents.Domain); err != nil {
			t.Errorf("%s: %v\n%s", kind, err, text)
		}
	}
}

// TestMTUsAreDefined: libvirt accepts the MTU of each link.
func TestMTUsAreDefined(t *testing.T) {
	t.Parallel()
	daemon := libvirt.Start(t)
	for _, c := range backends.MTUs {
		if c.Kind == "passt" {
			continue // a libvirt may be too old for it: see TestNICsAreDefined
		}
		out, errs := render.Domain(c.Guest(t))
		if len(errs) > 0 {
			t.Errorf("%s: %v", c.Why, errs.ToAggregate())
			continue
		}
		if text, err := define(daemon, out.Documents.Domain); err != nil {
			t.Errorf("%s: %v\n%s", c.Why, err, text)
		}
	}
}
