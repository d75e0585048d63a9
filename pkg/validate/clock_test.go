package validate_test

var clockCases = []testCase{
	{
		why:   "RTC knows two policies for ticks that were missed, and not those of the PIT",
		rule:  "clock/word",
		given: spec("domain: {clock: {timer: {rtc: {tickPolicy: discard}}}}"),
		want:  notSupported("spec.domain.clock.timer.rtc.tickPolicy"),
	},
	{
		why:   "RTC delays or catches up",
		rule:  "clock/word",
		given: spec("domain: {clock: {timer: {rtc: {tickPolicy: delay}}}}"),
	},
	{
		why:   "RTC catches up",
		rule:  "clock/word",
		given: spec("domain: {clock: {timer: {rtc: {tickPolicy: catchup}}}}"),
	},
	{
		why:   "RTC is tracked by the guest or by the wall",
		rule:  "clock/word",
		given: spec("domain: {clock: {timer: {rtc: {track: host}}}}"),
		want:  notSupported("spec.domain.clock.timer.rtc.track"),
	},
	{
		why:   "RTC is tracked by the wall",
		rule:  "clock/word",
		given: spec("domain: {clock: {timer: {rtc: {track: wall}}}}"),
	},
	{
		why:   "RTC is tracked by the guest",
		rule:  "clock/word",
		given: spec("domain: {clock: {timer: {rtc: {track: guest}}}}"),
	},
	{
		why:   "PIT does not merge ticks",
		rule:  "clock/word",
		given: spec("domain: {clock: {timer: {pit: {tickPolicy: merge}}}}"),
		want:  notSupported("spec.domain.clock.timer.pit.tickPolicy"),
	},
	{
		why:   "PIT discards ticks",
		rule:  "clock/word",
		given: spec("domain: {clock: {timer: {pit: {tickPolicy: discard}}}}"),
	},
	{
		why:   "HPET policies are words, in lower case",
		rule:  "clock/word",
		given: spec("domain: {clock: {timer: {hpet: {tickPolicy: Merge}}}}"),
		want:  notSupported("spec.domain.clock.timer.hpet.tickPolicy"),
	},
	{
		why:   "HPET merges ticks",
		rule:  "clock/word",
		given: spec("domain: {clock: {timer: {hpet: {tickPolicy: merge}}}}"),
	},
	{
		why:   "arm64 has none of the timers of PCs",
		rule:  "clock/timer",
		given: spec("{architecture: arm64, domain: {clock: {timer: {hpet: {}, kvm: {}, hyperv: {present: true}}}}}"),
		want:  forbidden("spec.domain.clock.timer.hpet", "spec.domain.clock.timer.kvm", "spec.domain.clock.timer.hyperv"),
	},
	{
		why:   "s390x has no HPET",
		rule:  "clock/timer",
		given: spec("{architecture: s390x, domain: {clock: {timer: {hpet: {}}}}}"),
		want:  forbidden("spec.domain.clock.timer.hpet"),
	},
	{
		why:   "that a timer is absent is right everywhere",
		rule:  "clock/timer",
		given: spec("{architecture: arm64, domain: {clock: {timer: {hpet: {present: false}, kvm: {present: false}, hyperv: {present: false}}}}}"),
	},
	{
		why:   "amd64 has them",
		rule:  "clock/timer",
		given: spec("domain: {clock: {timer: {hpet: {}, kvm: {}, hyperv: {}}}}"),
	},
	{
		why:   "a clock without timers",
		rule:  "clock/timer",
		given: spec("{architecture: arm64, domain: {clock: {utc: {}}}}"),
	},
}
