package backends_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/backends"
	"github.com/kilnvm/kiln/test/libvirt"
	"libvirt.org/go/libvirtxml"
)

// TestProfilesAreDefined: the schema of a real libvirt and its QEMU driver accept each field of a profile as it is rendered, and libvirt changes nothing that
// the guest sees.
func TestProfilesAreDefined(t *testing.T) {
	t.Parallel()
	daemon := libvirt.Start(t)
	version := versionOf(t, daemon)
	defined, newer, kvm := 0, []string{}, []string{}
	for _, c := range backends.ProfileFields {
		m := backends.Tuned(t)
		m.Host.VirtTypes, m.Host.LibvirtVersion = []string{"qemu"}, version
		m.Policy = backends.PolicyOf(t, m, backends.HostProfile(t, "p", c.Spec()))
		out, errs := render.Domain(m)
		switch {
		case strings.HasPrefix(c.Want, "refused"):
			continue
		case len(errs) > 0 && strings.Contains(errs[0].Detail, "needs libvirt"):
			newer = append(newer, c.Field)
			continue
		case len(errs) > 0 && strings.Contains(errs[0].Detail, "hardware virtualization"):
			kvm = append(kvm, c.Field)
			continue
		case len(errs) > 0:
			t.Errorf("%s: %v", c.Field, errs.ToAggregate())
			continue
		}
		if text, err := define(daemon, out.Documents.Domain); err != nil {
			t.Errorf("%s: %v\n%s", c.Field, err, text)
			continue
		}
		defined++
	}
	t.Logf("%d fields of host profiles: %d defined by libvirt, which is too old for %v and needs KVM for %v", len(backends.ProfileFields), defined, newer, kvm)
}

// versionOf returns the version of a libvirt.
func versionOf(t *testing.T, daemon *libvirt.Daemon) string {
	t.Helper()
	client, err := daemon.Connect()
	if err != nil {
		t.Fatal(err)
	}
	version, err := client.ConnectGetLibVersion()
	if err := errors.Join(err, client.Disconnect()); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d.%d.%d", version/1000000, version/1000%1000, version%1000)
}

// define defines a domain, and removes it again. It returns an error, and the XML that it is about, if libvirt refuses the domain or changes what the guest
// sees.
func define(daemon *libvirt.Daemon, domain *libvirtxml.Domain) (string, error) {
	text, err := domain.Marshal()
	if err == nil {
		err = libvirt.Validate(text)
	}
	if err != nil {
		return text, err
	}
	stored, err := daemon.Define(text)
	if err != nil {
		return text, err
	}
	var back libvirtxml.Domain
	if err := back.Unmarshal(stored); err != nil {
		return stored, err
	}
	back.OS.Type.Machine = domain.OS.Type.Machine // the version that an alias stands for
	if changes := abi.Changes(domain, &back); len(changes) > 0 {
		return stored, fmt.Errorf("libvirt changed %q", changes)
	}
	return "", daemon.Undefine(domain.Name)
}
