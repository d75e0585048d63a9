package virtlauncher

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/nightly"
)

// efiMachine is a VM whose guest boots from its disk by EFI: shim, GRUB and kernel are signed. Verbs: the features, and what EFI is to do.
var efiMachine = fmt.Sprintf(`
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: demo}
spec:
  runStrategy: Halted
  template:
    metadata: {labels: {kubevirt.io/vm: demo}}
    spec:
      terminationGracePeriodSeconds: 30
      domain:
        memory: {guest: 512Mi}
        features: %%s
        firmware: {bootloader: {efi: %%s}}
        devices:
          rng: {}
          interfaces: [{name: default, masquerade: {}, macAddress: '02:00:00:00:00:01'}]
          disks: [{name: root, bootOrder: 1, serial: of-kubevirt, disk: {bus: virtio}}, {name: second, serial: second, disk: {bus: sata}}]
      networks: [{name: default, pod: {}}]
      volumes: [{name: root, containerDisk: {image: %s, imagePullPolicy: IfNotPresent}}, {name: second, emptyDisk: {capacity: 64Mi}}]
`, DiskImage)

// TestEFI: a guest boots by EFI, and one with Secure Boot, for which its firmware needs SMM. Each says by which firmware it has booted. After a restart it has
// the same UUID, CPU, DMI and boot devices, and all its devices are where they were. All of it is the same beside Kiln.
func TestEFI(t *testing.T) {
	require(t)
	nightly.Only(t)
	both(t, func(g space) {
		for _, boot := range []struct {
			name, features, efi string
			secure              bool
		}{{"EFI", "{acpi: {}}", "{secureBoot: false}", false}, {"Secure Boot", "{acpi: {}, smm: {}}", "{secureBoot: true}", true}} {
			g.create(fmt.Sprintf(efiMachine, boot.features, boot.efi))
			g.virtctl("start", "demo")
			first := g.runs("demo", "")
			before := g.reports(first)
			g.treated("demo", true)
			g.virtctl("restart", "demo")
			after := g.reports(g.runs("demo", string(first.UID)))
			for _, report := range []guest.Report{before, after} {
				if report.Firmware != "efi" || report.SecureBoot != boot.secure {
					g.Errorf("%s: the guest has booted by '%s', with Secure Boot: %v", boot.name, report.Firmware, report.SecureBoot)
				}
			}
			m := compare(seenBy(before), seenBy(after))
			if len(before.Disks) != 2 || len(before.NICs) != 1 || m.devices == 0 || m.devices != len(seenBy(after)) || m.moved > 0 {
				g.Errorf("%s: the guest had %v, has %v: %s", boot.name, seenBy(before), seenBy(after), strings.Join(m.list, "; "))
			}
			if was, is := before.DMI["product_uuid"], after.DMI["product_uuid"]; was != is || was == "" {
				g.Errorf("%s: the guest's UUID was '%s', is '%s'", boot.name, was, is)
			}
			g.sameMachine(before, after)
			g.Logf("%s: %s", boot.name, m)
			g.kubectl("delete", "vm", "demo", "--timeout=180s")
			g.gone("vm,vmi,pods")
		}
	})
}
