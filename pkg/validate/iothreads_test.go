package validate_test

var iothreadsCases = []testCase{
	{
		why:   "an unknown policy",
		rule:  "iothreads/policy",
		given: spec("domain: {ioThreadsPolicy: dedicated}"),
		want:  notSupported("spec.domain.ioThreadsPolicy"),
	},
	{
		why:   "threads that disks share",
		rule:  "iothreads/policy",
		given: spec("domain: {ioThreadsPolicy: shared}"),
	},
	{
		why:   "a thread for each disk",
		rule:  "iothreads/policy",
		given: spec("domain: {ioThreadsPolicy: auto}"),
	},
	{
		why:   "no policy",
		rule:  "iothreads/policy",
		given: spec("domain: {ioThreads: {supplementalPoolThreadCount: 0}}"),
	},
	{
		why:   "a pool that says nothing",
		rule:  "iothreads/pool-given",
		given: spec("domain: {ioThreadsPolicy: supplementalPool}"),
		want:  required("spec.domain.ioThreads"),
	},
	{
		why:   "a pool without a number",
		rule:  "iothreads/pool-given",
		given: spec("domain: {ioThreadsPolicy: supplementalPool, ioThreads: {}}"),
		want:  required("spec.domain.ioThreads.supplementalPoolThreadCount"),
	},
	{
		why:   "a pool with a number",
		rule:  "iothreads/pool-given",
		given: spec("domain: {ioThreadsPolicy: supplementalPool, ioThreads: {supplementalPoolThreadCount: 2}}"),
	},
	{
		why:   "a number that another policy does not need",
		rule:  "iothreads/pool-given",
		given: spec("domain: {ioThreadsPolicy: auto, ioThreads: {}}"),
	},
	{
		why:   "a pool of none",
		rule:  "iothreads/pool",
		given: spec("domain: {ioThreadsPolicy: supplementalPool, ioThreads: {supplementalPoolThreadCount: 0}}"),
		want:  invalid("spec.domain.ioThreads.supplementalPoolThreadCount"),
	},
	{
		why:   "a pool of one",
		rule:  "iothreads/pool",
		given: spec("domain: {ioThreadsPolicy: supplementalPool, ioThreads: {supplementalPoolThreadCount: 1}}"),
	},
	{
		why:   "one thread more than QEMU has vCPUs",
		rule:  "iothreads/pool-most",
		given: spec("domain: {ioThreadsPolicy: supplementalPool, ioThreads: {supplementalPoolThreadCount: 4097}}"),
		want:  invalid("spec.domain.ioThreads.supplementalPoolThreadCount"),
	},
	{
		why:   "as many threads as QEMU has vCPUs",
		rule:  "iothreads/pool-most",
		given: spec("domain: {ioThreadsPolicy: supplementalPool, ioThreads: {supplementalPoolThreadCount: 4096}}"),
	},
}
