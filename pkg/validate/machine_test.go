package validate_test

var machineCases = []testCase{
	{
		why:   "an architecture that QEMU has no machine for here",
		rule:  "machine/architecture",
		given: spec("architecture: ppc64le"),
		want:  notSupported("spec.architecture"),
	},
	{
		why:   "no architecture",
		rule:  "machine/architecture",
		given: spec(`architecture: ""`),
		want:  notSupported("spec.architecture"),
	},
	{
		why:   "the mainframe",
		rule:  "machine/architecture",
		given: spec("architecture: s390x"),
	},
	{
		why:   "arm64",
		rule:  "machine/architecture",
		given: spec("architecture: arm64"),
	},
	{
		why:   "a machine that the administrator does not allow",
		rule:  "machine/type",
		given: spec("domain: {machine: {type: isapc}}"),
		want:  notSupported("spec.domain.machine.type"),
	},
	{
		why:   "an alias that is allowed",
		rule:  "machine/type",
		given: spec("domain: {machine: {type: q35}}"),
	},
	{
		why:   "no type is no mistake",
		rule:  "machine/type",
		given: spec(`domain: {machine: {type: ""}}`),
	},
	{
		why:   "a machine of another architecture",
		rule:  "machine/type",
		given: spec("{architecture: arm64, domain: {machine: {type: q35}}}"),
		want:  notSupported("spec.domain.machine.type"),
	},
	{
		why:    "an architecture that nobody configured has the machines of amd64",
		rule:   "machine/type",
		given:  spec("{architecture: ppc64le, domain: {machine: {type: q35}}}"),
		others: []string{"machine/architecture"},
	},
	{
		why:    "a pattern that is broken allows nothing",
		rule:   "machine/type",
		given:  spec("domain: {machine: {type: q35}}"),
		limits: machines("q35["),
		want:   notSupported("spec.domain.machine.type"),
	},
	{
		why:    "a machine that is allowed, whose buses Kiln does not know",
		rule:   "machine/board",
		given:  spec("domain: {machine: {type: microvm}}"),
		limits: machines("*"),
		want:   notSupported("spec.domain.machine.type"),
	},
	{
		why:    "a version of the board",
		rule:   "machine/board",
		given:  spec("domain: {machine: {type: pc-q35-9.2}}"),
		limits: machines("*"),
	},
	{
		why:    "no type",
		rule:   "machine/board",
		given:  spec(`domain: {machine: {type: ""}}`),
		limits: machines("*"),
	},
	{
		why:    "an unknown architecture has no board, and is refused as such alone",
		rule:   "machine/board",
		given:  spec("{architecture: ppc64le, domain: {machine: {type: pseries}}}"),
		limits: machines("*"),
		others: []string{"machine/architecture"},
	},
	{
		why:    "a machine that is not allowed is refused as such alone",
		rule:   "machine/board",
		given:  spec("domain: {machine: {type: q35}}"),
		limits: machines("pc-q35-*"),
		others: []string{"machine/type"},
	},
	{
		why:    "the gate is off",
		rule:   "machine/reboot-policy-gate",
		given:  spec("domain: {rebootPolicy: Reboot}"),
		limits: gates("-RebootPolicy"),
		want:   forbidden("spec.domain.rebootPolicy"),
	},
	{
		why:   "the gate is on",
		rule:  "machine/reboot-policy-gate",
		given: spec("domain: {rebootPolicy: Reboot}"),
	},
	{
		why:   "an unknown word",
		rule:  "machine/reboot-policy",
		given: spec("domain: {rebootPolicy: Restart}"),
		want:  notSupported("spec.domain.rebootPolicy"),
	},
	{
		why:   "terminate",
		rule:  "machine/reboot-policy",
		given: spec("domain: {rebootPolicy: Terminate}"),
	},
}
