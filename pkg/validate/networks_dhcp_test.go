package validate_test

var networksDHCPCases = []testCase{
	{
		why:   "an option given twice",
		rule:  "networks/dhcp-option-twice",
		given: onPod("masquerade: {}, dhcpOptions: {privateOptions: [{option: 240, value: x}, {option: 240, value: z}]}"),
		want:  duplicate("spec.domain.devices.interfaces[0].dhcpOptions.privateOptions[1].option"),
	},
	{
		why:   "two options",
		rule:  "networks/dhcp-option-twice",
		given: onPod("masquerade: {}, dhcpOptions: {privateOptions: [{option: 240, value: x}, {option: 241, value: x}]}"),
	},
	{
		why:   "the last option that is not a site's own",
		rule:  "networks/dhcp-option",
		given: onPod("masquerade: {}, dhcpOptions: {privateOptions: [{option: 223, value: x}]}"),
		want:  invalid("spec.domain.devices.interfaces[0].dhcpOptions.privateOptions[0].option"),
	},
	{
		why:   "the first option of a site",
		rule:  "networks/dhcp-option",
		given: onPod("masquerade: {}, dhcpOptions: {privateOptions: [{option: 224, value: x}]}"),
	},
	{
		why:   "the last option of a site",
		rule:  "networks/dhcp-option",
		given: onPod("masquerade: {}, dhcpOptions: {privateOptions: [{option: 254, value: x}]}"),
	},
	{
		why:   "the mark at the end of all options",
		rule:  "networks/dhcp-option",
		given: onPod("masquerade: {}, dhcpOptions: {privateOptions: [{option: 255, value: x}]}"),
		want:  invalid("spec.domain.devices.interfaces[0].dhcpOptions.privateOptions[0].option"),
	},
	{
		why:   "a name",
		rule:  "networks/ntp-server",
		given: onPod("masquerade: {}, dhcpOptions: {ntpServers: [ntp.example]}"),
		want:  invalid("spec.domain.devices.interfaces[0].dhcpOptions.ntpServers[0]"),
	},
	{
		why:   "an IPv6 address",
		rule:  "networks/ntp-server",
		given: onPod("masquerade: {}, dhcpOptions: {ntpServers: [192.0.2.1, '2001:db8::1']}"),
		want:  invalid("spec.domain.devices.interfaces[0].dhcpOptions.ntpServers[1]"),
	},
	{
		why:   "an IPv4 address",
		rule:  "networks/ntp-server",
		given: onPod("masquerade: {}, dhcpOptions: {ntpServers: [192.0.2.1]}"),
	},
}
