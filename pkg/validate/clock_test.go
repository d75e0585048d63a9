package validate_test

var clockCases = []testCase{
	{
		why:   "a clock is in UTC or in a time zone",
		rule:  "clock/offsets",
		given: spec("domain: {clock: {utc: {}, timezone: Europe/Vienna}}"),
		want:  forbidden("spec.domain.clock.timezone"),
	},
	{
		why:   "UTC with an offset",
		rule:  "clock/offsets",
		given: spec("domain: {clock: {utc: {offsetSeconds: 3600}}}"),
	},
	{
		why:   "no planet has this zone",
		rule:  "clock/timezone",
		given: spec("domain: {clock: {timezone: Mars/Olympus}}"),
		want:  invalid("spec.domain.clock.timezone"),
	},
	{
		why:   "a zone without a name, which libvirt refuses",
		rule:  "clock/timezone",
		given: spec("domain: {clock: {timezone: ''}}"),
		want:  required("spec.domain.clock.timezone"),
	},
	{
		why:   "POSIX' form, of which libvirt refuses the comma",
		rule:  "clock/timezone",
		given: spec("domain: {clock: {timezone: 'EST5EDT,M3.2.0,M11.1.0'}}"),
		want:  invalid("spec.domain.clock.timezone"),
	},
	{
		why:   "a file of the host",
		rule:  "clock/timezone",
		given: spec("domain: {clock: {timezone: ../../etc/passwd}}"),
		want:  invalid("spec.domain.clock.timezone"),
	},
	{
		why:   "a region alone",
		rule:  "clock/timezone",
		given: spec("domain: {clock: {timezone: Europe/}}"),
		want:  invalid("spec.domain.clock.timezone"),
	},
	{
		why:   "the zone of whatever machine it is",
		rule:  "clock/timezone",
		given: spec("domain: {clock: {timezone: Local}}"),
		want:  invalid("spec.domain.clock.timezone"),
	},
	{
		why:   "a zone of three parts",
		rule:  "clock/timezone",
		given: spec("domain: {clock: {timezone: America/Argentina/Buenos_Aires}}"),
	},
	{
		why:   "a zone without a region",
		rule:  "clock/timezone",
		given: spec("domain: {clock: {timezone: EST5EDT}}"),
	},
	{
		why:   "RTC knows two policies for missed ticks, and not the policies of the PIT",
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
