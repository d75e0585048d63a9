package frontends_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/test/frontends"
	"github.com/kilnvm/kiln/test/libvirt"
	"libvirt.org/go/libvirtxml"
)

// TestLibvirtAddsNothing defines rendered guests with a real libvirt and compares what it stored with what was rendered:
// nothing that a guest sees may be added, moved or changed. The backend's part is filled with trivial sources.
func TestLibvirtAddsNothing(t *testing.T) {
	t.Parallel()
	daemon := libvirt.Start(t)
	for name, in := range frontends.All(t) {
		t.Run(name, func(t *testing.T) {
			dom := frontends.Rendered(t, in)
			frontends.AddSources(dom)
			text, err := dom.Marshal()
			if err != nil {
				t.Fatal(err)
			}
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
			want, got := projected(t, dom), projected(t, &back)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("libvirt changed the guest (-rendered +stored):\n%s", diff)
			}
			// In words, as people would be told.
			if changes := abi.Changes(dom, &back); len(changes) > 0 {
				t.Errorf("changes %q", changes)
			}
		})
	}
}

func projected(t *testing.T, dom *libvirtxml.Domain) string {
	t.Helper()
	text, err := abi.Project(dom).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return text
}
