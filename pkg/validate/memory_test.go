package validate_test

var memoryCases = []testCase{
	{
		why:   "nothing says how much",
		rule:  "memory/given",
		given: spec("domain: {memory: null}"),
		want:  required("spec.domain.memory"),
	},
	{
		why:   "an empty memory says nothing",
		rule:  "memory/given",
		given: spec("domain: {memory: {guest: null}}"),
		want:  required("spec.domain.memory.guest"),
	},
	{
		why:   "a request of none says nothing",
		rule:  "memory/given",
		given: spec(`domain: {memory: null, resources: {requests: {memory: "0"}}}`),
		want:  required("spec.domain.memory"),
	},
	{
		why:   "the request says it",
		rule:  "memory/given",
		given: spec("domain: {memory: null, resources: {requests: {memory: 64Mi}}}"),
	},
	{
		why:   "huge pages say that the rest follows",
		rule:  "memory/given",
		given: spec("domain: {memory: {guest: null, hugepages: {pageSize: 2Mi}}}"),
	},
	{
		why:   "guest says it",
		rule:  "memory/given",
		given: spec("domain: {memory: {guest: 64Mi}}"),
	},
	{
		why:   "huge pages of no size",
		rule:  "memory/page-size-given",
		given: spec(`domain: {memory: {hugepages: {pageSize: ""}}}`),
		want:  required("spec.domain.memory.hugepages.pageSize"),
	},
	{
		why:   "huge pages of 2Mi",
		rule:  "memory/page-size-given",
		given: spec("domain: {memory: {hugepages: {pageSize: 2Mi}}}"),
	},
	{
		why:   "a word",
		rule:  "memory/page-size",
		given: spec("domain: {memory: {hugepages: {pageSize: large}}}"),
		want:  invalid("spec.domain.memory.hugepages.pageSize"),
	},
	{
		why:   "pages of nothing",
		rule:  "memory/page-size",
		given: spec(`domain: {memory: {hugepages: {pageSize: "0"}}}`),
		want:  invalid("spec.domain.memory.hugepages.pageSize"),
	},
	{
		why:   "a negative size",
		rule:  "memory/page-size",
		given: spec("domain: {memory: {hugepages: {pageSize: -2Mi}}}"),
		want:  invalid("spec.domain.memory.hugepages.pageSize"),
	},
	{
		why:   "half a KiB",
		rule:  "memory/page-size",
		given: spec(`domain: {memory: {hugepages: {pageSize: "512"}}}`),
		want:  invalid("spec.domain.memory.hugepages.pageSize"),
	},
	{
		why:   "one KiB",
		rule:  "memory/page-size",
		given: spec("domain: {memory: {hugepages: {pageSize: 1Ki}}}"),
	},
	{
		why:   "a ceiling of nothing",
		rule:  "memory/max-guest",
		given: spec(`domain: {memory: {maxGuest: "0"}}`),
		want:  invalid("spec.domain.memory.maxGuest"),
	},
	{
		why:   "a negative ceiling",
		rule:  "memory/max-guest",
		given: spec(`domain: {memory: {maxGuest: "-1"}}`),
		want:  invalid("spec.domain.memory.maxGuest"),
	},
	{
		why:   "a ceiling where memory is",
		rule:  "memory/max-guest",
		given: spec("domain: {memory: {maxGuest: 1Gi}}"),
	},
	{
		why:   "a guest of no memory",
		rule:  "memory/guest",
		given: spec(`domain: {memory: {guest: "0"}}`),
		want:  invalid("spec.domain.memory.guest"),
	},
	{
		why:   "a guest of one byte is legal to this rule",
		rule:  "memory/guest",
		given: spec(`domain: {memory: {guest: "1"}}`),
	},
	{
		why:   "more than the ceiling",
		rule:  "memory/guest-max",
		given: spec("domain: {memory: {guest: 1025Mi, maxGuest: 1Gi}}"),
		want:  invalid("spec.domain.memory.guest"),
	},
	{
		why:   "as much as the ceiling",
		rule:  "memory/guest-max",
		given: spec("domain: {memory: {guest: 1Gi, maxGuest: 1Gi}}"),
	},
	{
		why:    "a ceiling of nothing is refused as such alone",
		rule:   "memory/guest-max",
		given:  spec(`domain: {memory: {guest: 1Gi, maxGuest: "0"}}`),
		others: []string{"memory/max-guest"},
	},
	{
		why:    "more than the pod's limit",
		rule:   "memory/guest-limit",
		given:  spec("domain: {memory: {guest: 1025Mi}, resources: {limits: {memory: 1Gi}}}"),
		limits: staged,
		want:   invalid("spec.domain.memory.guest"),
	},
	{
		why:    "as much as the pod's limit",
		rule:   "memory/guest-limit",
		given:  spec("domain: {memory: {guest: 1Gi}, resources: {limits: {memory: 1Gi}}}"),
		limits: staged,
	},
	{
		why:    "a limit of nothing is none",
		rule:   "memory/guest-limit",
		given:  spec(`domain: {memory: {guest: 1Gi}, resources: {limits: {memory: "0"}}}`),
		limits: staged,
	},
	{
		why:    "with live updates the limit follows the guest",
		rule:   "memory/guest-limit",
		given:  spec("domain: {memory: {guest: 1025Mi}, resources: {limits: {memory: 1Gi}}}"),
		limits: liveUpdate,
	},
	{
		why:   "the gate is off",
		rule:  "memory/overhead-gate",
		given: spec("domain: {memory: {reservedOverhead: {}}}"),
		want:  forbidden("spec.domain.memory.reservedOverhead"),
	},
	{
		why:    "the gate is on",
		rule:   "memory/overhead-gate",
		given:  spec("domain: {memory: {reservedOverhead: {}}}"),
		limits: gates("ReservedOverheadMemlock"),
	},
}
