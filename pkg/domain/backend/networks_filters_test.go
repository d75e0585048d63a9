package backend_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/backends"
)

// TestWhoseFilter: an interface has one filter, which is ours where host or profile want it, with the administrator's in it.
func TestFilterOwner(t *testing.T) {
	t.Parallel()
	const own, others = "own", "clean-traffic"
	for _, c := range []struct {
		why, kind string
		guarded   bool
		profile   string
		used      string   // by the interface
		refers    []string // our filter to others
	}{
		{"nobody wants one", "bridge", false, "{}", "", nil},
		{"the host wants it", "bridge", true, "{}", own, nil},
		{"the profile wants it", "tap", false, "{security: {nwFilter: AntiSpoofing}}", own, nil},
		{"the profile does not want it", "bridge", true, "{security: {nwFilter: None}}", "", nil},
		{"no frame leaves QEMU", "user", false, "{security: {nwFilter: AntiSpoofing}}", "", nil},
		{"one that the host has", "bridge", false, "{net: {filterRef: clean-traffic}}", others, nil},
		{"one that the host has, beside ours", "bridge", true, "{net: {filterRef: clean-traffic}}", own, []string{others}},
		{"one that the host has, instead of ours", "bridge", true, "{net: {filterRef: clean-traffic}, security: {nwFilter: None}}", others, nil},
	} {
		m := backends.Machine(t,
			"{architecture: amd64, domain: {cpu: {cores: 1}, memory: {guest: 1Gi}, devices: {interfaces: [{name: default, bridge: {}}]}}, "+
				"networks: [{name: default, pod: {}}]}")
		m.Bindings.NICs["default"] = backend.NIC{Kind: c.kind, Device: "br0", Guarded: c.guarded}
		m.Policy = backends.PolicyOf(t, m, backends.HostProfile(t, "p", c.profile))
		out, errs := render.Domain(m)
		if len(errs) > 0 {
			t.Errorf("%s: %v", c.why, errs.ToAggregate())
			continue
		}
		used, refers := "", []string(nil)
		if ref := out.Documents.Domain.Devices.Interfaces[0].FilterRef; ref != nil {
			used = ref.Filter
		}
		for _, filter := range out.Documents.Filters {
			if filter.Name == used {
				used = own
			}
			for _, entry := range filter.Entries {
				if entry.Ref != nil {
					refers = append(refers, entry.Ref.Filter)
				}
			}
		}
		if used != c.used || !cmp.Equal(refers, c.refers) || (c.used == own) != (len(out.Documents.Filters) == 1) {
			t.Errorf("%s: the interface uses '%s', want '%s'; it refers to %q, want %q; %d filters", c.why, used, c.used, refers, c.refers, len(out.Documents.Filters))
		}
	}
}
