package libvirt_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/test/libvirt"
)

// TestAddressesWithoutBridge is why rule kubevirt/pci-address refuses a slot on a bus behind a root port: KubeVirt's converter writes the address, and no
// bridge. libvirt adds root ports up to the bus, and refuses another slot than 00 there.
func TestAddressesWithoutBridge(t *testing.T) {
	daemon := libvirt.Start(t)
	for _, c := range []struct {
		bus, slot string
		taken     bool
	}{{"0x00", "0x05", true}, {"0x01", "0x00", true}, {"0x20", "0x00", true}, {"0x81", "0x00", true}, {"0x01", "0x01", false}, {"0x81", "0x01", false}} {
		_, err := daemon.Define(fmt.Sprintf(`<domain type='qemu'><name>placed</name><memory unit='MiB'>64</memory><vcpu>1</vcpu>
			<os><type arch='x86_64' machine='q35'>hvm</type></os><devices><controller type='usb' model='none'/>
			<disk type='block' device='disk'><driver name='qemu' type='raw'/><source dev='/dev/null'/><target dev='vda' bus='virtio'/>
			<address type='pci' domain='0x0000' bus='%s' slot='%s' function='0x0'/></disk></devices></domain>`, c.bus, c.slot))
		t.Log(c.bus, c.slot, err)
		if (err == nil) != c.taken || err != nil && !strings.Contains(err.Error(), "slot") {
			t.Errorf("bus %s, slot %s: %v", c.bus, c.slot, err)
		}
		if err == nil {
			if err := daemon.Undefine("placed"); err != nil {
				t.Error(err)
			}
		}
	}
}
