package validate_test

var dnsCases = []testCase{
	{
		why:   "an unknown word",
		rule:  "placement/dns-policy",
		given: spec("dnsPolicy: Cluster"),
		want:  notSupported("spec.dnsPolicy"),
	},
	{
		why:   "a policy",
		rule:  "placement/dns-policy",
		given: spec("dnsPolicy: ClusterFirst"),
	},
	{
		why:   "the policy asks for servers, and there are none",
		rule:  "placement/dns-config",
		given: spec("dnsPolicy: None"),
		want:  required("spec.dnsConfig"),
	},
	{
		why:   "the policy asks for servers, and the list is empty",
		rule:  "placement/dns-config",
		given: spec("{dnsPolicy: None, dnsConfig: {searches: [a.example]}}"),
		want:  required("spec.dnsConfig.nameservers"),
	},
	{
		why:   "one server",
		rule:  "placement/dns-config",
		given: spec("{dnsPolicy: None, dnsConfig: {nameservers: [192.0.2.1]}}"),
	},
	{
		why:   "another policy asks for none",
		rule:  "placement/dns-config",
		given: spec("{dnsPolicy: Default, dnsConfig: {searches: [a.example]}}"),
	},
	{
		why:   "four servers",
		rule:  "placement/dns-nameservers",
		given: spec("dnsConfig: {nameservers: [192.0.2.1, 192.0.2.2, 192.0.2.3, 192.0.2.4]}"),
		want:  tooMany("spec.dnsConfig.nameservers"),
	},
	{
		why:   "three servers",
		rule:  "placement/dns-nameservers",
		given: spec("dnsConfig: {nameservers: [192.0.2.1, 192.0.2.2, 192.0.2.3]}"),
	},
	{
		why:   "a name",
		rule:  "placement/dns-nameserver",
		given: spec("dnsConfig: {nameservers: [192.0.2.1, dns.example]}"),
		want:  invalid("spec.dnsConfig.nameservers[1]"),
	},
	{
		why:   "an IPv6 address",
		rule:  "placement/dns-nameserver",
		given: spec(`dnsConfig: {nameservers: ["2001:db8::1"]}`),
	},
	{
		why:   "seven domains",
		rule:  "placement/dns-searches",
		given: spec("dnsConfig: {searches: [a, b, c, d, e, f, g]}"),
		want:  tooMany("spec.dnsConfig.searches"),
	},
	{
		why:   "six domains",
		rule:  "placement/dns-searches",
		given: spec("dnsConfig: {searches: [a, b, c, d, e, f]}"),
	},
	{
		why:   "257 characters with the spaces between",
		rule:  "placement/dns-searches-length",
		given: searches(85, 85, 85),
		want:  tooLong("spec.dnsConfig.searches"),
	},
	{
		why:   "256 characters with the spaces between",
		rule:  "placement/dns-searches-length",
		given: searches(84, 85, 85),
	},
	{
		why:   "an underscore",
		rule:  "placement/dns-search",
		given: spec("dnsConfig: {searches: [a.example, my_domain.example]}"),
		want:  invalid("spec.dnsConfig.searches[1]"),
	},
	{
		why:   "two labels",
		rule:  "placement/dns-search",
		given: spec("dnsConfig: {searches: [a.example]}"),
	},
	{
		why:   "an option without a name",
		rule:  "placement/dns-option",
		given: spec(`dnsConfig: {options: [{name: ndots, value: "2"}, {value: "1"}]}`),
		want:  required("spec.dnsConfig.options[1].name"),
	},
	{
		why:   "an option without a value",
		rule:  "placement/dns-option",
		given: spec("dnsConfig: {options: [{name: rotate}]}"),
	},
}
