package validate

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.devices.interfaces, but for their ports.
// An interface has a name that a device alias can hold, a model that QEMU has, and one binding, which its network allows.

// reservedMAC is the address of the bridge inside a pod with masquerade: a guest that has it too cannot reach its gateway.
const reservedMAC = "02:00:00:00:00:00"

var (
	nicName   = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	macForm   = regexp.MustCompile(`^[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2})*$`)
	nicModels = []string{"e1000", "e1000e", "igb", "ne2k_pci", "pcnet", "rtl8139", v1.VirtIO}
)

// maxACPIIndex is QEMU's.
const maxACPIIndex = 16*1024 - 1

// macParts is the number of bytes of an Ethernet address.
const macParts = 6

func interfaces(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	for i := range spec.Domain.Devices.Interfaces {
		nic, at := &spec.Domain.Devices.Interfaces[i], path.Child("domain", "devices", "interfaces").Index(i)
		if !nicName.MatchString(nic.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), nic.Name, "must consist of letters, digits, '-' and '_'").WithOrigin("networks/interface-name"))
		}
		if nic.Model != "" {
			errs = append(errs, supported(at.Child("model"), nic.Model, nicModels...).WithOrigin("networks/model")...)
		}
		if nic.MacAddress != "" {
			errs = append(errs, mac(at.Child("macAddress"), nic.MacAddress)...)
		}
		if nic.ACPIIndex < 0 || nic.ACPIIndex > maxACPIIndex {
			errs = append(errs, field.Invalid(at.Child("acpiIndex"), nic.ACPIIndex, fmt.Sprintf("must be between 1 and %d", maxACPIIndex)).WithOrigin("networks/acpi-index"))
		}
		if nic.PciAddress != "" && !pciPattern.MatchString(nic.PciAddress) {
			errs = append(errs, field.Invalid(at.Child("pciAddress"), nic.PciAddress, "must be a PCI address such as '0000:81:01.0'").WithOrigin("networks/pci-address"))
		}
	}
	return errs
}

func mac(at *field.Path, given string) field.ErrorList {
	parts := strings.FieldsFunc(given, func(r rune) bool { return r == ':' || r == '-' })
	if !macForm.MatchString(given) || len(parts) != macParts {
		return field.ErrorList{field.Invalid(at, given, "must be six bytes such as '02:1a:4b:00:00:01'").WithOrigin("networks/mac")}
	}
	if strings.ContainsRune("13579bdfBDF", rune(parts[0][1])) {
		return field.ErrorList{field.Invalid(at, given, "is a multicast address: the first byte must be even").WithOrigin("networks/mac-multicast")}
	}
	return nil
}

// bindings that are set, by field name.
func bindings(nic *v1.Interface) (set []string) {
	for _, binding := range []struct {
		name string
		set  bool
	}{
		{"bridge", nic.Bridge != nil},
		{"masquerade", nic.Masquerade != nil},
		{"sriov", nic.SRIOV != nil},
		{"passtBinding", nic.PasstBinding != nil},
		{"binding", nic.Binding != nil},
		{"slirp", nic.DeprecatedSlirp != nil},
		{"passt", nic.DeprecatedPasst != nil},
		{"macvtap", nic.DeprecatedMacvtap != nil},
	} {
		if binding.set {
			set = append(set, binding.name)
		}
	}
	return set
}

// retired bindings, with what took their place.
var retired = map[string]string{
	"slirp":   "is no longer offered: use masquerade",
	"passt":   "is no longer offered: use passtBinding",
	"macvtap": "is no longer offered: use a binding plugin",
}

// networkOf an interface: of two with one name, which is an error of its own, the later.
func networkOf(spec *v1.VirtualMachineInstanceSpec, name string) *v1.Network {
	for i := range slices.Backward(spec.Networks) {
		if spec.Networks[i].Name == name {
			return &spec.Networks[i]
		}
	}
	return nil
}

// defaultNetwork is the pod's, or a Multus one that takes its place; nil without either.
func defaultNetwork(spec *v1.VirtualMachineInstanceSpec) *v1.Network {
	var multus *v1.Network
	for i := range spec.Networks {
		n := &spec.Networks[i]
		if n.Pod != nil {
			return n
		}
		if multus == nil && n.Multus != nil && n.Multus.Default {
			multus = n
		}
	}
	return multus
}

func interfaceBindings(spec *v1.VirtualMachineInstanceSpec, limits config.Limits, path *field.Path) (errs field.ErrorList) {
	for i := range spec.Domain.Devices.Interfaces {
		nic, at := &spec.Domain.Devices.Interfaces[i], path.Child("domain", "devices", "interfaces").Index(i)
		set := bindings(nic)
		switch {
		case len(set) == 0:
			errs = append(errs, field.Required(at, "give the interface a binding, such as masquerade").WithOrigin("networks/binding"))
			continue
		case len(set) > 1:
			errs = append(errs, field.Forbidden(at.Child(set[1]), "cannot be together with "+set[0]+": an interface has one binding").WithOrigin("networks/bindings"))
		}
		for _, name := range set {
			if why := retired[name]; why != "" {
				errs = append(errs, field.Forbidden(at.Child(name), why).WithOrigin("networks/binding-retired"))
			}
		}
		errs = append(errs, bindingNetwork(nic, networkOf(spec, nic.Name), limits, at)...)
	}
	return errs
}

// bindingNetwork judges a binding on its network, which may be missing.
func bindingNetwork(nic *v1.Interface, network *v1.Network, limits config.Limits, at *field.Path) (errs field.ErrorList) {
	onPod := network != nil && network.Pod != nil
	name := at.Child("name")
	if nic.Masquerade != nil && !onPod {
		errs = append(errs, field.Invalid(name, nic.Name, "masquerade needs the pod network").WithOrigin("networks/masquerade-pod"))
	}
	if nic.Masquerade != nil && strings.EqualFold(strings.ReplaceAll(nic.MacAddress, "-", ":"), reservedMAC) {
		errs = append(errs, field.Forbidden(at.Child("macAddress"), "'"+reservedMAC+"' is the address of the pod's own bridge: choose another").WithOrigin("networks/masquerade-mac"))
	}
	if nic.Bridge != nil && onPod && !limits.BridgeOnPodNetwork {
		errs = append(errs, field.Forbidden(name, "this cluster allows no bridge on the pod network: use masquerade").WithOrigin("networks/bridge-pod"))
	}
	if nic.PasstBinding != nil {
		errs = append(errs, gated(limits, "PasstBinding", name).WithOrigin("networks/passt-gate")...)
		if !onPod {
			errs = append(errs, field.Invalid(name, nic.Name, "passtBinding needs the pod network").WithOrigin("networks/passt-pod"))
		}
	}
	return errs
}

// interfaceStates: a link can be taken down but where the device bypasses the host; an interface can be unplugged where it
// is a bridge, and never from the default network.
func interfaceStates(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	for i := range spec.Domain.Devices.Interfaces {
		nic := &spec.Domain.Devices.Interfaces[i]
		at := path.Child("domain", "devices", "interfaces").Index(i).Child("state")
		switch nic.State {
		case "":
		case v1.InterfaceStateLinkUp, v1.InterfaceStateLinkDown:
			if nic.SRIOV != nil {
				errs = append(errs, field.Invalid(at, nic.State, "the link of an SR-IOV device cannot be switched").WithOrigin("networks/state-sriov"))
			}
		case v1.InterfaceStateAbsent:
			if nic.Bridge == nil {
				errs = append(errs, field.Invalid(at, nic.State, "only interfaces with binding bridge can be unplugged").WithOrigin("networks/absent-bridge"))
			}
			if n := defaultNetwork(spec); n != nil && n.Name == nic.Name {
				errs = append(errs, field.Invalid(at, nic.State, "the default network cannot be unplugged").WithOrigin("networks/absent-default"))
			}
		default:
			errs = append(errs, field.NotSupported(at, nic.State, []v1.InterfaceState{v1.InterfaceStateAbsent, v1.InterfaceStateLinkDown, v1.InterfaceStateLinkUp}).WithOrigin("networks/state"))
		}
	}
	return errs
}

// Private DHCP options are those that RFC 2132 leaves to a site.
const (
	firstPrivateOption = 224
	lastPrivateOption  = 254
)

func dhcp(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	for i, nic := range spec.Domain.Devices.Interfaces {
		if nic.DHCPOptions == nil {
			continue
		}
		at := path.Child("domain", "devices", "interfaces").Index(i).Child("dhcpOptions")
		seen := map[int]bool{}
		for j, private := range nic.DHCPOptions.PrivateOptions {
			at := at.Child("privateOptions").Index(j).Child("option")
			switch {
			case seen[private.Option]:
				errs = append(errs, field.Duplicate(at, private.Option).WithOrigin("networks/dhcp-option-twice"))
			case private.Option < firstPrivateOption || private.Option > lastPrivateOption:
				errs = append(errs, field.Invalid(at, private.Option, "must be between 224 and 254").WithOrigin("networks/dhcp-option"))
			}
			seen[private.Option] = true
		}
		for j, server := range nic.DHCPOptions.NTPServers {
			if address, err := netip.ParseAddr(server); err != nil || !address.Is4() {
				errs = append(errs, field.Invalid(at.Child("ntpServers").Index(j), server, "must be an IPv4 address").WithOrigin("networks/ntp-server"))
			}
		}
	}
	return errs
}
