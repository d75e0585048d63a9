package validate

import (
	"net/netip"

	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.devices.interfaces[].dhcpOptions.
// Private options are in the range for sites, each given once; NTP servers are IPv4 addresses, because DHCP for IPv4 carries no others.
// KubeVirt has these rules in validateDHCPExtraOptions, which names the whole spec as the field, and
// validateDHCPNTPServersAreValidIPv4Addresses.

var dhcpRules = []guestRule{
	{dhcp, []Rule{
		{Name: "networks/dhcp-option-twice"},
		{Name: "networks/dhcp-option"},
		{Name: "networks/ntp-server"},
	}},
}

// The range of DHCP options that RFC 2132 leaves to sites.
const (
	firstPrivateOption = 224
	lastPrivateOption  = 254
)

// dhcp reports an option that is given twice as such, even where its number is out of range too.
func dhcp(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	for i := range spec.Domain.Devices.Interfaces {
		nic := &spec.Domain.Devices.Interfaces[i]
		if nic.DHCPOptions == nil {
			continue
		}
		at := nicPath(path, i, "dhcpOptions")
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
