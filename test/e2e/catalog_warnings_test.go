package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestWarningsOfAdmissionArePrinted: what admission warns of an object is printed once by 'install' and 'repin', as by 'kubectl apply'.
func TestWarningsOfAdmissionArePrinted(t *testing.T) {
	c := newCatalog(t)
	preference := fmt.Sprintf("apiVersion: instancetype.kubevirt.io/v1beta1\nkind: VirtualMachineClusterPreference\n"+
		"metadata: {name: %s, labels: {test: %s}}\nspec: {firmware: {preferredUseEfi: true}}\n", c.of("old"), c.name)
	const efi, migrate = "Warning: spec.firmware.preferredUseEfi is deprecated", "Warning: evictionStrategy 'LiveMigrate': live migration is not served"
	for _, flags := range [][]string{{"--dry-run"}, nil} {
		if got := c.must(c.install(c.file("1.0.0", preference), flags...)); strings.Count(got.stderr, efi) != 1 {
			t.Errorf("install %v: want '%s' once:\n%s", flags, efi, got.stderr)
		}
	}
	c.create(vm("web", "domain:", "evictionStrategy: LiveMigrate\n      domain:"))
	var got answer
	c.eventually("the VM is repinned", func() bool { // the controller writes its status meanwhile
		got = c.kiln("repin", "vm/web")
		return got.err == nil
	})
	if strings.Count(got.stderr, migrate) != 1 {
		t.Errorf("repin: want '%s' once:\n%s", migrate, got.stderr)
	}
}
