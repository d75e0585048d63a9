package validate_test

const claimedTwice = `
domain:
  devices:
    gpus: [{name: g, claimName: c, requestName: r}]
    interfaces: [{name: a, sriov: {}}]
networks: [{name: a, resourceClaim: {claimName: c, requestName: r}}]
resourceClaims: [{name: c, resourceClaimName: x}]
`

var hostdevicesRequestsCases = []testCase{
	{
		why:    "a request of two GPUs",
		rule:   "hostdevices/request-twice",
		given:  claimed("gpus: [{name: a, claimName: c, requestName: r}, {name: b, claimName: c, requestName: r}]"),
		limits: gpuClaims,
		want:   duplicate("spec.domain.devices.gpus[1]"),
	},
	{
		why:    "a request of a GPU and another device",
		rule:   "hostdevices/request-twice",
		given:  claimed("gpus: [{name: a, claimName: c, requestName: r}], hostDevices: [{name: b, claimName: c, requestName: r}]"),
		limits: gates("HostDevices", "GPUsWithDRA", "HostDevicesWithDRA"),
		want:   duplicate("spec.domain.devices.hostDevices[0]"),
	},
	{
		why:    "a request of a device and a network",
		rule:   "hostdevices/request-twice",
		given:  spec(claimedTwice),
		limits: gates("NetworkDevicesWithDRA", "GPUsWithDRA"),
		want:   duplicate("spec.networks[0].resourceClaim"),
	},
	{
		why:    "two requests",
		rule:   "hostdevices/request-twice",
		given:  claimed("gpus: [{name: a, claimName: c, requestName: r}, {name: b, claimName: c, requestName: s}]"),
		limits: gpuClaims,
	},
	{
		why:    "the same claim, twice without a request",
		rule:   "hostdevices/request-twice",
		given:  claimed("gpus: [{name: a, claimName: c}, {name: b, claimName: c}]"),
		limits: gpuClaims,
		others: []string{"hostdevices/request-name"},
	},
	{
		why:    "the same request, twice without a claim",
		rule:   "hostdevices/request-twice",
		given:  claimed("gpus: [{name: a, requestName: r}, {name: b, requestName: r}]"),
		limits: gpuClaims,
		others: []string{"hostdevices/request-claim"},
	},
	{
		why:    "a request of two GPUs that cannot be claimed",
		rule:   "hostdevices/request-twice",
		given:  claimed("gpus: [{name: a, claimName: c, requestName: r}, {name: b, claimName: c, requestName: r}]"),
		limits: gates("-GPUsWithDRA"),
		others: []string{"hostdevices/claim-gate"},
	},
	{
		why:    "a claim that is not declared, told once",
		rule:   "hostdevices/claim-undeclared",
		given:  claimed("gpus: [{name: a, claimName: d, requestName: r}, {name: b, claimName: d, requestName: s}]"),
		limits: gpuClaims,
		want:   required("spec.resourceClaims"),
	},
	{
		why:    "two claims that are not declared",
		rule:   "hostdevices/claim-undeclared",
		given:  claimed("gpus: [{name: a, claimName: d, requestName: r}, {name: b, claimName: e, requestName: r}]"),
		limits: gpuClaims,
		want:   required("spec.resourceClaims", "spec.resourceClaims"),
	},
	{
		why:    "a claim that is declared",
		rule:   "hostdevices/claim-undeclared",
		given:  claimed("gpus: [{name: a, claimName: c, requestName: r}]"),
		limits: gpuClaims,
	},
	{
		why:    "a plugin beside a claim",
		rule:   "hostdevices/claim-undeclared",
		given:  devices("gpus: [{name: a, deviceName: e.org/d}]"),
		limits: gpuClaims,
	},
	{
		why:    "no claim is named",
		rule:   "hostdevices/claim-undeclared",
		given:  claimed("gpus: [{name: a, requestName: r}]"),
		limits: gpuClaims,
		others: []string{"hostdevices/request-claim"},
	},
	{
		why:    "a request of no name",
		rule:   "hostdevices/claim-undeclared",
		given:  claimed("gpus: [{name: a, claimName: d}]"),
		limits: gpuClaims,
		others: []string{"hostdevices/request-name"},
	},
	{
		why:    "both sources",
		rule:   "hostdevices/claim-undeclared",
		given:  claimed("gpus: [{name: a, deviceName: e.org/d, claimName: d, requestName: r}]"),
		limits: gpuClaims,
		others: []string{"hostdevices/sources"},
	},
	{
		why:    "one request for a GPU and a host device beside KubeVirt 1.8",
		rule:   "hostdevices/request-twice",
		given:  claimed("gpus: [{name: a, claimName: c, requestName: r}], hostDevices: [{name: b, claimName: c, requestName: r}]"),
		limits: beside(8, "GPUsWithDRA", "HostDevices", "HostDevicesWithDRA"),
	},
	{
		why:    "one request for two host devices beside KubeVirt 1.8",
		rule:   "hostdevices/request-twice",
		given:  claimed("hostDevices: [{name: a, claimName: c, requestName: r}, {name: b, claimName: c, requestName: r}]"),
		limits: beside(8, "GPUsWithDRA", "HostDevices", "HostDevicesWithDRA"),
		want:   duplicate("spec.domain.devices.hostDevices[1]"),
	},
}
