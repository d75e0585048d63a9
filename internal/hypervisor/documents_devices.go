package hypervisor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"
)

// Node devices that are made for a guest: mediated devices, found again by their UUID, and virtual Fibre Channel adapters, found by the
// name of their port in the fabric. libvirt gives them names of its own.

// makeDevice makes a device that is not there yet. The LUNs behind a new adapter take the kernel a moment to find: a guest that is started before is
// started again. What is made is added to made.
func makeDevice(rpc *libvirt.Libvirt, device libvirtxml.NodeDevice, made *notes) error {
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
		return fmt.Errorf("libvirt cannot make %s '%s' of '%s': %w", kind, key, device.Parent, err)
	}
	*list = append(*list, key)
	return nil
}

// unshared leaves out the devices that another domain has noted too: one adapter may be in front of the claims of several guests.
func unshared(rpc *libvirt.Libvirt, domain libvirt.Domain, made notes) (notes, error) {
	if len(made.Mediated)+len(made.Adapters) == 0 {
		return made, nil
	}
	domains, _, err := rpc.ConnectListAllDomains(1, 0)
	for i := 0; err == nil && i < len(domains); i++ {
		if domains[i].UUID == domain.UUID {
			continue
		}
		var others notes
		others, err = readNotes(rpc, domains[i])
		made.Mediated = without(made.Mediated, others.Mediated)
		made.Adapters = without(made.Adapters, others.Adapters)
	}
	return made, err
}

func without(keys, others []string) []string {
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return slices.Contains(others, key) })
}

// removeDevices removes those that were made for a domain.
func removeDevices(rpc *libvirt.Libvirt, made notes) error {
	for _, kind := range []struct {
		find func(*libvirt.Libvirt, string) (string, error)
		keys []string
	}{{adapterName, made.Adapters}, {mediatedName, made.Mediated}} {
		for _, key := range kind.keys {
			name, err := kind.find(rpc, key)
			if err == nil && name != "" {
				err = tolerate(rpc.NodeDeviceDestroy(name), libvirt.ErrNoNodeDevice)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// mediatedName is libvirt's name of a mediated device, which contains its UUID and that of its parent; empty if there is none.
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

// adapterName is libvirt's name of the adapter with a port of this name; empty if there is none.
func adapterName(rpc *libvirt.Libvirt, wwpn string) (string, error) {
	devices, _, err := rpc.ConnectListAllNodeDevices(1, uint32(libvirt.ConnectListNodeDevicesCapFcHost))
	if err != nil {
		return "", err
	}
	for _, d := range devices {
		text, err := rpc.NodeDeviceGetXMLDesc(d.Name, 0)
		if err != nil {
			if tolerate(err, libvirt.ErrNoNodeDevice) == nil {
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

// portName is the WWPN of an adapter, empty for other devices.
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
