package abi

import (
	"strconv"
	"strings"

	"libvirt.org/go/libvirtxml"
)

// Owns the names of devices in a domain. Kiln finds a device by its alias.

// AliasPrefix begins each alias that a user chooses. When a domain starts, libvirt replaces aliases that do not begin with it.
const AliasPrefix = "ua-"

// Alias returns the libvirt alias of a device: 'ua-' and its name.
func Alias(name string) *libvirtxml.DomainAlias {
	return &libvirtxml.DomainAlias{Name: AliasPrefix + name}
}

// BoundAlias returns the alias of a device of a kind whose binding the backend finds by the name. The alias of an interface named 'interface_a' is qualified,
// because Name would return 'a' otherwise. Inputs, watchdogs and sound devices need no binding: Name shortens their names, and the records of older guests
// have their addresses under the short names.
func BoundAlias(kind, name string) *libvirtxml.DomainAlias {
	if _, qualified := cutKind(kind, name); qualified {
		return QualifiedAlias(kind, name)
	}
	return Alias(name)
}

// QualifiedAlias returns the alias of a device if a device of another kind has the same name: libvirt requires unique aliases.
func QualifiedAlias(kind, name string) *libvirtxml.DomainAlias {
	return &libvirtxml.DomainAlias{Name: AliasPrefix + kind + "_" + name}
}

// cutKind removes the kind that a qualified alias has before the name.
func cutKind(kind, name string) (string, bool) {
	rest, found := strings.CutPrefix(name, kind)
	if found && strings.HasPrefix(rest, "_") {
		return rest[1:], true
	}
	return name, false
}

// BundledName returns the name of the nth USB device, from 1 on, of a host device that consists of several. The first has the name of the host device.
func BundledName(name string, n int) string {
	if n == 1 {
		return name
	}
	return name + "_" + strconv.Itoa(n)
}

// CutBundled splits a name that BundledName has made into the name of the first device and a number. It returns false for a name without a number, as the first
// device has. Trap: a host device may have such a name by chance.
func CutBundled(name string) (first string, n int, bundled bool) {
	at := strings.LastIndexByte(name, '_')
	if at < 0 {
		return name, 1, false
	}
	n, err := strconv.Atoi(name[at+1:])
	if err != nil || n < 2 || BundledName(name[:at], n) != name {
		return name, 1, false
	}
	return name[:at], n, true
}

// Name returns the name in the spec of the device with an alias. kind is the name of its XML element, such as disk, interface, filesystem or hostdev.
func Name(kind string, alias *libvirtxml.DomainAlias) string {
	if alias == nil {
		return ""
	}
	name, _ := cutKind(kind, strings.TrimPrefix(alias.Name, AliasPrefix))
	return name
}
