package validate_test

const (
	claimNetwork   = "resourceClaim: {claimName: c, requestName: r}"
	claimAndMultus = "{name: a, " + claimNetwork + "}, {name: b, multus: {networkName: net}}"
)

var networkClaims = gates("NetworkDevicesWithDRA")

var networksClaimsCases = []testCase{
	{
		why:   "a claim without the feature gate",
		rule:  "networks/claim-gate",
		given: claiming("sriov: {}", claimNetwork),
		want:  forbidden("spec.networks[0].resourceClaim"),
	},
	{
		why:    "a claim with the feature gate",
		rule:   "networks/claim-gate",
		given:  claiming("sriov: {}", claimNetwork),
		limits: networkClaims,
	},
	{
		why:   "no claim",
		rule:  "networks/claim-gate",
		given: onPod("masquerade: {}"),
	},
	{
		why:    "a claim beside Multus",
		rule:   "networks/claim-and-multus",
		given:  nics("{name: a, sriov: {}}, {name: b, bridge: {}}", claimAndMultus),
		limits: networkClaims,
		want:   forbidden("spec.networks[0].resourceClaim"),
	},
	{
		why:    "a claim beside the pod's network",
		rule:   "networks/claim-and-multus",
		given:  claiming("sriov: {}}, {name: b, masquerade: {}", claimNetwork+"}, {name: b, pod: {}"),
		limits: networkClaims,
	},
	{
		why:    "no claim is named",
		rule:   "networks/claim-name",
		given:  claiming("sriov: {}", "resourceClaim: {requestName: r}"),
		limits: networkClaims,
		want:   required("spec.networks[0].resourceClaim.claimName"),
	},
	{
		why:    "a claim is named",
		rule:   "networks/claim-name",
		given:  claiming("sriov: {}", claimNetwork),
		limits: networkClaims,
	},
	{
		why:    "a claim that is not declared",
		rule:   "networks/claim-undeclared",
		given:  claiming("sriov: {}", "resourceClaim: {claimName: d, requestName: r}"),
		limits: networkClaims,
		want:   notFound("spec.networks[0].resourceClaim.claimName"),
	},
	{
		why:    "a claim that is declared",
		rule:   "networks/claim-undeclared",
		given:  claiming("sriov: {}", claimNetwork),
		limits: networkClaims,
	},
	{
		why:    "no request is named",
		rule:   "networks/claim-request",
		given:  claiming("sriov: {}", "resourceClaim: {claimName: c}"),
		limits: networkClaims,
		want:   required("spec.networks[0].resourceClaim.requestName"),
	},
	{
		why:    "a request that no claim can have",
		rule:   "networks/claim-request-form",
		given:  claiming("sriov: {}", "resourceClaim: {claimName: c, requestName: A_b}"),
		limits: networkClaims,
		want:   invalid("spec.networks[0].resourceClaim.requestName"),
	},
	{
		why:    "a request of a name",
		rule:   "networks/claim-request-form",
		given:  claiming("sriov: {}", claimNetwork),
		limits: networkClaims,
	},
	{
		why:    "a request is named",
		rule:   "networks/claim-request",
		given:  claiming("sriov: {}", claimNetwork),
		limits: networkClaims,
	},
	{
		why:    "a bridge",
		rule:   "networks/claim-binding",
		given:  claiming("bridge: {}", claimNetwork),
		limits: networkClaims,
		want:   invalid("spec.domain.devices.interfaces[0]"),
	},
	{
		why:    "bridges of two claims",
		rule:   "networks/claim-binding",
		given:  nics("{name: a, bridge: {}}, {name: b, bridge: {}}", "{name: a, "+claimNetwork+"}, {name: b, "+claimNetwork+"}"),
		limits: networkClaims,
		want:   invalid("spec.domain.devices.interfaces[0]", "spec.domain.devices.interfaces[1]"),
	},
	{
		why:    "a plugin",
		rule:   "networks/claim-binding",
		given:  claiming("binding: {name: p}", claimNetwork),
		limits: networkClaims,
	},
	{
		why:    "SR-IOV, beside the masquerade of another network",
		rule:   "networks/claim-binding",
		given:  claiming("sriov: {}}, {name: b, masquerade: {}", claimNetwork+"}, {name: b, pod: {}"),
		limits: networkClaims,
	},
}
