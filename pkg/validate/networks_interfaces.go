package validate

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/hardware"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.devices.interfaces, except ports and DHCP options.
// An interface has a name that is legal in a device alias, a model that QEMU has, and one binding, which its network supports.
// KubeVirt has the fields in netiface.go, bindings in binding.go and passt.go, and states in admit.go of pkg/network/admitter.

var interfaceRules = []guestRule{
	{interfaces, []Rule{
		{Name: "networks/interface-name"},
		{Name: "networks/model", KubeVirt: KubeVirtRefusesSome},
		{Name: "networks/mac"},
		{Name: "networks/mac-multicast", KubeVirt: KubeVirtAdmits},
		{Name: "networks/mac-zero", KubeVirt: KubeVirtRefusesSome},
		{Name: "networks/acpi-index", KubeVirt: KubeVirtAdmits},
		{Name: "networks/pci-address"},
	}},
	{interfaceBindings, []Rule{
		{Name: "networks/binding", MendedBy: byCompletion | byPreference, Since: 9},
		{Name: "networks/bindings", MendedBy: byPreference, Since: 9},
		{Name: "networks/binding-plugin", MendedBy: byPreference},
		{Name: "networks/binding-retired", MendedBy: byPreference},
		{Name: "networks/masquerade-pod", MendedBy: byPreference},
		{Name: "networks/masquerade-mac", KubeVirt: KubeVirtAdmits, MendedBy: byPreference},
		{Name: "networks/bridge-pod", MendedBy: byPreference},
		{Name: "networks/passt-gate"},
		{Name: "networks/passt-pod"},
	}},
	{interfaceStates, []Rule{
		{Name: "networks/state-sriov"},
		{Name: "networks/absent-bridge", MendedBy: byCompletion | byPreference},
		{Name: "networks/absent-default"},
		{Name: "networks/state"},
	}},
}

// reservedMAC is the address of the bridge in a pod with masquerade: a guest with the same address cannot reach its gateway.
const reservedMAC = "02:00:00:00:00:00"

// macForm allows the two usual separators. KubeVirt refuses longer addresses too, such as addresses of InfiniBand.
var macForm = regexp.MustCompile(`^[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){5}$`)

// maxACPIIndex is QEMU's limit.
const maxACPIIndex = 16*1024 - 1

// interfaces is validateInterfaceNameFormat, validateInterfaceModel, validateMacAddress and validatePciAddress. KubeVirt accepts the
// models of PCs on s390x, where the guest cannot start, multicast MAC addresses, which libvirt refuses, the address of zeros, and any acpiIndex.
func interfaces(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	for i := range spec.Domain.Devices.Interfaces {
		nic := &spec.Domain.Devices.Interfaces[i]
		at := func(name string) *field.Path { return nicPath(path, i, name) }
		if !vm.IsDeviceName(nic.Name) {
			errs = append(errs, field.Invalid(at("name"), nic.Name, "must consist of letters, digits, '-' and '_'").WithOrigin("networks/interface-name"))
		}
		if !hardware.Model(nic.Model).On(spec.Architecture) {
			errs = append(errs, field.NotSupported(at("model"), nic.Model, hardware.ModelsFor(spec.Architecture)).WithOrigin("networks/model"))
		}
		switch {
		case nic.MacAddress == "":
		case !macForm.MatchString(nic.MacAddress):
			errs = append(errs, field.Invalid(at("macAddress"), nic.MacAddress, "must be six bytes such as '02:1a:4b:00:00:01'").WithOrigin("networks/mac"))
		case strings.Trim(nic.MacAddress, "0:-") == "":
			errs = append(errs, field.Invalid(at("macAddress"), nic.MacAddress,
				"is no address: QEMU would give the card one of its own, the same in each guest; remove the field to have one derived").WithOrigin("networks/mac-zero"))
		case strings.ContainsRune("13579bdfBDF", rune(nic.MacAddress[1])):
			errs = append(errs, field.Invalid(at("macAddress"), nic.MacAddress,
				"is a multicast address: the first byte must be even").WithOrigin("networks/mac-multicast"))
		}
		if nic.ACPIIndex < 0 || nic.ACPIIndex > maxACPIIndex {
			errs = append(errs, field.Invalid(at("acpiIndex"), nic.ACPIIndex, fmt.Sprintf("must be between 1 and %d", maxACPIIndex)).WithOrigin("networks/acpi-index"))
		}
		if nic.PciAddress != "" && !pciPattern.MatchString(nic.PciAddress) {
			errs = append(errs, field.Invalid(at("pciAddress"), nic.PciAddress, "must be a PCI address such as '0000:81:01.0'").WithOrigin("networks/pci-address"))
		}
	}
	return errs
}

// nicPath returns the path of an interface, or of a field of it.
func nicPath(spec *field.Path, i int, names ...string) *field.Path {
	return below(spec.Child("domain", "devices", "interfaces"), i, names...)
}

// bindings returns the field names of the first two bindings that are set.
func bindings(nic *v1.Interface) (first, second string) {
	return firstTwo(
		kind{"bridge", nic.Bridge != nil},
		kind{"masquerade", nic.Masquerade != nil},
		kind{"sriov", nic.SRIOV != nil},
		kind{"passtBinding", nic.PasstBinding != nil},
		kind{"binding", nic.Binding != nil},
		kind{"slirp", nic.DeprecatedSlirp != nil},
		kind{"passt", nic.DeprecatedPasst != nil},
		kind{"macvtap", nic.DeprecatedMacvtap != nil},
	)
}

// retired lists bindings that are no longer supported, with their replacements.
var retired = []struct {
	name, why string
	set       func(*v1.Interface) bool
}{
	{"slirp", "is no longer supported: use masquerade", func(i *v1.Interface) bool { return i.DeprecatedSlirp != nil }},
	{"passt", "is no longer supported: use passtBinding", func(i *v1.Interface) bool { return i.DeprecatedPasst != nil }},
	{"macvtap", "is no longer supported: use a binding plugin", func(i *v1.Interface) bool { return i.DeprecatedMacvtap != nil }},
}

// networkIndex finds networks by name. Of two with one name, which rule networks/name-twice refuses, the later counts.
func networkIndex(spec *v1.VirtualMachineInstanceSpec) map[string]*v1.Network {
	index := make(map[string]*v1.Network, len(spec.Networks))
	for i := range spec.Networks {
		index[spec.Networks[i].Name] = &spec.Networks[i]
	}
	return index
}

// defaultNetwork returns the pod network, or the Multus network in its place, or nil.
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

// interfaceBindings is validateInterfaceBinding and validateDiscontinuedBindings. Until v1.8 KubeVirt only refuses a plugin beside a binding. Retired bindings
// are still fields of the API, so that old manifests get this error and not one about an unknown field.
func interfaceBindings(spec *v1.VirtualMachineInstanceSpec, limits config.Limits, path *field.Path) (errs field.ErrorList) {
	index := networkIndex(spec)
	for i := range spec.Domain.Devices.Interfaces {
		nic := &spec.Domain.Devices.Interfaces[i]
		at := func(names ...string) *field.Path { return nicPath(path, i, names...) }
		first, second := bindings(nic)
		switch {
		case first == "":
			errs = append(errs, field.Required(at(), "give the interface a binding, such as masquerade").WithOrigin("networks/binding"))
			continue
		case second == "binding" || first == "binding" && second != "":
			errs = append(errs, field.Forbidden(at(second), "cannot be combined with "+first+": an interface has one binding").WithOrigin("networks/binding-plugin"))
		case second != "":
			errs = append(errs, field.Forbidden(at(second), "cannot be combined with "+first+": an interface has one binding").WithOrigin("networks/bindings"))
		}
		for _, old := range retired {
			if old.set(nic) {
				errs = append(errs, field.Forbidden(at(old.name), old.why).WithOrigin("networks/binding-retired"))
			}
		}
		errs = append(errs, bindingNetwork(nic, index[nic.Name], limits, at)...)
	}
	return errs
}

// bindingNetwork judges a binding on its network, which may be missing. at returns the path of a field of the interface.
// In KubeVirt it is validateMasqueradeBinding, validateBridgeBinding and validatePasstBinding. Bridge takes the pod's address away from the pod,
// which is why a cluster may forbid it there.
func bindingNetwork(nic *v1.Interface, network *v1.Network, limits config.Limits, at func(...string) *field.Path) (errs field.ErrorList) {
	onPod := network != nil && network.Pod != nil
	if nic.Masquerade != nil && !onPod {
		errs = append(errs, field.Invalid(at("name"), nic.Name, "masquerade needs the pod network").WithOrigin("networks/masquerade-pod"))
	}
	if nic.Masquerade != nil && strings.ReplaceAll(nic.MacAddress, "-", ":") == reservedMAC {
		errs = append(errs, field.Forbidden(at("macAddress"),
			"'"+reservedMAC+"' is the address of the bridge in the pod: choose another").WithOrigin("networks/masquerade-mac"))
	}
	if nic.Bridge != nil && onPod && !limits.BridgeOnPodNetwork {
		errs = append(errs, field.Forbidden(at("name"),
			"binding bridge is not permitted on the pod network in this cluster: use masquerade").WithOrigin("networks/bridge-pod"))
	}
	if nic.PasstBinding != nil {
		errs = append(errs, gated(limits, "PasstBinding", at("name")).WithOrigin("networks/passt-gate")...)
		if !onPod {
			errs = append(errs, field.Invalid(at("name"), nic.Name, "passtBinding needs the pod network").WithOrigin("networks/passt-pod"))
		}
	}
	return errs
}

// interfaceStates refuses to set the link of an SR-IOV interface, which bypasses the host, and to unplug interfaces that have no bridge
// or are on the default network.
// In KubeVirt it is validateInterfaceStateValue.
func interfaceStates(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	for i := range spec.Domain.Devices.Interfaces {
		nic := &spec.Domain.Devices.Interfaces[i]
		if nic.State == "" {
			continue
		}
		at := nicPath(path, i, "state")
		switch nic.State {
		case v1.InterfaceStateLinkUp, v1.InterfaceStateLinkDown:
			if nic.SRIOV != nil {
				errs = append(errs, field.Invalid(at, nic.State, "the link state of an SR-IOV interface cannot be set: remove state").WithOrigin("networks/state-sriov"))
			}
		case v1.InterfaceStateAbsent:
			if nic.Bridge == nil {
				errs = append(errs, field.Invalid(at, nic.State, "only interfaces with binding bridge can be unplugged").WithOrigin("networks/absent-bridge"))
			}
			if n := defaultNetwork(spec); n != nil && n.Name == nic.Name {
				errs = append(errs, field.Invalid(at, nic.State, "the default network cannot be unplugged").WithOrigin("networks/absent-default"))
			}
		default:
			errs = append(errs, field.NotSupported(at, nic.State,
				[]v1.InterfaceState{v1.InterfaceStateAbsent, v1.InterfaceStateLinkDown, v1.InterfaceStateLinkUp}).WithOrigin("networks/state"))
		}
	}
	return errs
}
