package hypervisor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"
)

// Two kinds of node devices are created for a domain: mediated devices, which are found again by their UUID, and virtual Fibre Channel adapters, which are
// found again by the name of their port in the fabric (WWPN). libvirt gives both kinds names of its own.

// makeDevice creates a device unless it exists, and adds it to made. The kernel needs a moment to find the LUNs behind a new adapter: a start before that
// fails and is repeated.
func makeDevice(rpc *libvirt.Libvirt, device libvirtxml.NodeDevice, made *inventory) error {
	find, key, kind, list := adapterName, portName(device), "adapter", &made.Adapters
	if mediated := device.Capability.MDev; mediated != nil {
		find, key, kind, list = mediatedName, mediated.UUID, "mediated device", &made.Mediated
	}
	name, err := find(rpc, key)
	if err != nil || name != "" {
		return err
	}
	text, err := device.Marshal()
	if err == nil {
		_, err = rpc.NodeDeviceCreateXML(text, 0)
	}
	if err != nil {
		return fmt.Errorf("libvirt cannot create %s '%s' on '%s': %w", kind, key, device.Parent, err)
	}
	*list = append(*list, key)
	return nil
}

// withoutShared returns an inventory without the devices in the inventory of another domain, because one adapter may reach the claims of several VMIs.
func withoutShared(rpc *libvirt.Libvirt, domain libvirt.Domain, made inventory) (inventory, error) {
	if len(made.Mediated)+len(made.Adapters) == 0 {
		return made, nil
	}
	domains, _, err := rpc.ConnectListAllDomains(1, 0)
	for i := 0; err == nil && i < len(domains); i++ {
		if domains[i].UUID == domain.UUID {
			continue
		}
		var others inventory
		others, err = readInventory(rpc, domains[i])
		made.Mediated = withoutKeys(made.Mediated, others.Mediated)
		made.Adapters = withoutKeys(made.Adapters, others.Adapters)
	}
	return made, err
}

// withoutKeys returns the keys that are not in others.
func withoutKeys(keys, others []string) []string {
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return slices.Contains(others, key) })
}

// removeDevices removes the devices of an inventory, adapters first. A device that does not exist is not an error.
func removeDevices(rpc *libvirt.Libvirt, made inventory) error {
	for _, kind := range []struct {
		find func(*libvirt.Libvirt, string) (string, error)
		keys []string
	}{{adapterName, made.Adapters}, {mediatedName, made.Mediated}} {
		for _, key := range kind.keys {
			name, err := kind.find(rpc, key)
			if err == nil && name != "" {
				err = ignoreErrors(rpc.NodeDeviceDestroy(name), libvirt.ErrNoNodeDevice)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// mediatedName returns libvirt's name of a mediated device, which begins with its UUID; empty if the device does not exist.
func mediatedName(rpc *libvirt.Libvirt, uuid string) (string, error) {
	devices, _, err := rpc.ConnectListAllNodeDevices(1, uint32(libvirt.ConnectListNodeDevicesCapMdev))
	if err != nil {
		return "", err
	}
	prefix := "mdev_" + strings.ReplaceAll(uuid, "-", "_")
	i := slices.IndexFunc(devices, func(d libvirt.NodeDevice) bool { return strings.HasPrefix(d.Name, prefix) })
	if i < 0 {
		return "", nil
	}
	return devices[i].Name, nil
}

// adapterName returns libvirt's name of the adapter with this WWPN; empty if the adapter does not exist.
func adapterName(rpc *libvirt.Libvirt, wwpn string) (string, error) {
	devices, _, err := rpc.ConnectListAllNodeDevices(1, uint32(libvirt.ConnectListNodeDevicesCapFcHost))
	if err != nil {
		return "", err
	}
	for _, d := range devices {
		text, err := rpc.NodeDeviceGetXMLDesc(d.Name, 0)
		if err != nil {
			if ignoreErrors(err, libvirt.ErrNoNodeDevice) == nil {
				continue
			}
			return "", err
		}
		var device libvirtxml.NodeDevice
		if err := device.Unmarshal(text); err != nil {
			return "", err
		}
		if strings.EqualFold(portName(device), wwpn) {
			return d.Name, nil
		}
	}
	return "", nil
}

// portName returns the WWPN of an adapter, empty for other devices. Its hexadecimal digits may have either case.
func portName(device libvirtxml.NodeDevice) string {
	if device.Capability.SCSIHost == nil {
		return ""
	}
	for _, c := range device.Capability.SCSIHost.Capability {
		if c.FCHost != nil {
			return c.FCHost.WWPN
		}
	}
	return ""
}
