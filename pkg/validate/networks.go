package validate

import (
	"net/netip"
	"regexp"
	"strings"

	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: networks, domain.devices.interfaces. An interface and a network of one name belong together.

var (
	nicModels  = []string{"e1000", "e1000e", "igb", "ne2k_pci", "pcnet", "rtl8139", "virtio"}
	nicName    = regexp.MustCompile(`^[A-Za-z0-9-_]+$`)
	macForm    = regexp.MustCompile(`^([0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2}$`)
	pciAddress = regexp.MustCompile(`^[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[01][0-9a-fA-F]\.[0-7]$`)
	protocols  = []string{"TCP", "UDP"}
)

func interfaces(guest *v1.VirtualMachineInstanceSpec, limits config.Limits, spec *field.Path) (errs field.ErrorList) {
	byName := map[string]v1.Network{}
	for _, network := range guest.Networks {
		byName[network.Name] = network
	}
	seen := map[string]bool{}
	for i, nic := range guest.Domain.Devices.Interfaces {
		at := spec.Child("domain", "devices", "interfaces").Index(i)
		network, found := byName[nic.Name]
		if !found {
			errs = append(errs, field.Invalid(at.Child("name"), nic.Name, "no network has this name: add one, or correct the name"))
		}
		if seen[nic.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), nic.Name))
		}
		seen[nic.Name] = true
		if !nicName.MatchString(nic.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), nic.Name, "may have letters, digits, '-' and '_' only"))
		}
		errs = append(errs, binding(nic, network, limits, at)...)
		errs = append(errs, nicAddresses(nic, at)...)
		errs = append(errs, ports(nic, at)...)
	}
	return errs
}

func binding(nic v1.Interface, network v1.Network, limits config.Limits, at *field.Path) (errs field.ErrorList) {
	bindings := 0
	for _, set := range []bool{nic.Bridge != nil, nic.Masquerade != nil, nic.SRIOV != nil, nic.PasstBinding != nil, nic.Binding != nil} {
		if set {
			bindings++
		}
	}
	switch {
	case nic.DeprecatedSlirp != nil, nic.DeprecatedMacvtap != nil, nic.DeprecatedPasst != nil:
		errs = append(errs, field.Forbidden(at, "slirp, macvtap and the old passt are no longer offered; use masquerade, bridge or passtBinding"))
	case bindings != 1:
		errs = append(errs, field.Required(at.Child("masquerade"), "exactly one of bridge, masquerade, sriov, passtBinding and binding must be set"))
	}
	if nic.Masquerade != nil && network.Pod == nil && network.Name != "" {
		errs = append(errs, field.Forbidden(at.Child("masquerade"), "only works on the pod network"))
	}
	if nic.Bridge != nil && network.Pod != nil && !limits.BridgeOnPodNetwork {
		errs = append(errs, field.Forbidden(at.Child("bridge"), "the cluster does not permit it on the pod network; use masquerade"))
	}
	if nic.Model != "" && nic.SRIOV == nil {
		errs = append(errs, supported(nic.Model, nicModels, at.Child("model"))...)
	}
	return errs
}

func nicAddresses(nic v1.Interface, at *field.Path) (errs field.ErrorList) {
	if nic.MacAddress != "" && !macForm.MatchString(nic.MacAddress) {
		errs = append(errs, field.Invalid(at.Child("macAddress"), nic.MacAddress, "must be six bytes such as '02:00:00:12:34:56'"))
	}
	if nic.PciAddress != "" && !pciAddress.MatchString(nic.PciAddress) {
		errs = append(errs, field.Invalid(at.Child("pciAddress"), nic.PciAddress, "must be a PCI address such as '0000:01:00.0'"))
	}
	if nic.DHCPOptions != nil {
		for i, server := range nic.DHCPOptions.NTPServers {
			if address, err := netip.ParseAddr(server); err != nil || !address.Is4() {
				errs = append(errs, field.Invalid(at.Child("dhcpOptions", "ntpServers").Index(i), server, "must be an IPv4 address"))
			}
		}
	}
	return errs
}

func ports(nic v1.Interface, at *field.Path) (errs field.ErrorList) {
	seen := map[string]bool{}
	for i, port := range nic.Ports {
		at := at.Child("ports").Index(i)
		if port.Port < 1 || port.Port > 65535 {
			errs = append(errs, field.Invalid(at.Child("port"), port.Port, "must be between 1 and 65535"))
		}
		if port.Protocol != "" {
			errs = append(errs, supported(strings.ToUpper(port.Protocol), protocols, at.Child("protocol"))...)
		}
		if port.Name != "" && seen[port.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), port.Name))
		}
		seen[port.Name] = true
	}
	return errs
}

func networks(guest *v1.VirtualMachineInstanceSpec, _ config.Limits, spec *field.Path) (errs field.ErrorList) {
	used := map[string]bool{}
	for _, nic := range guest.Domain.Devices.Interfaces {
		used[nic.Name] = true
	}
	seen, first := map[string]bool{}, ""
	for i, network := range guest.Networks {
		at := spec.Child("networks").Index(i)
		if seen[network.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), network.Name))
		}
		seen[network.Name] = true
		if !used[network.Name] {
			errs = append(errs, field.Invalid(at.Child("name"), network.Name, "no interface has this name: add one, or remove the network"))
		}
		switch {
		case network.Pod == nil && network.Multus == nil && network.ResourceClaim == nil:
			errs = append(errs, field.Required(at.Child("pod"), "one of pod, multus and resourceClaim must be set"))
		case network.Pod != nil && network.Multus != nil:
			errs = append(errs, field.Forbidden(at.Child("multus"), "may not be set together with `pod`"))
		case network.Multus != nil && network.Multus.NetworkName == "":
			errs = append(errs, field.Required(at.Child("multus", "networkName"), ""))
		}
		if network.Pod == nil && (network.Multus == nil || !network.Multus.Default) {
			continue
		}
		if first != "" {
			errs = append(errs, field.Invalid(at, network.Name, "a guest has one default network, and '"+first+"' is it already"))
		}
		first = network.Name
	}
	return errs
}
