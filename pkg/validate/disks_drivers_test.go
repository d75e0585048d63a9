package validate_test

var disksDriversCases = []testCase{
	{
		why:   "a cache that libvirt has and KubeVirt has not",
		rule:  "disks/cache",
		given: disk("disk: {}, cache: unsafe"),
		want:  notSupported("spec.domain.devices.disks[0].cache"),
	},
	{
		why:   "a cache",
		rule:  "disks/cache",
		given: disk("disk: {}, cache: writeback"),
	},
	{
		why:   "no cache",
		rule:  "disks/cache",
		given: disk("disk: {}"),
	},
	{
		why:   "an unknown way",
		rule:  "disks/io",
		given: disk("disk: {}, io: sync"),
		want:  notSupported("spec.domain.devices.disks[0].io"),
	},
	{
		why:   "an unknown way in a preset",
		rule:  "disks/io",
		given: preset("domain: {devices: {disks: [{name: a, io: sync}]}}"),
		want:  notSupported("spec.domain.devices.disks[0].io"),
	},
	{
		why:   "threads",
		rule:  "disks/io",
		given: disk("disk: {}, io: threads"),
	},
	{
		why:   "native beside writeback",
		rule:  "disks/io-cache",
		given: disk("disk: {}, io: native, cache: writeback"),
		want:  invalid("spec.domain.devices.disks[0].io"),
	},
	{
		why:   "native beside writethrough",
		rule:  "disks/io-cache",
		given: disk("disk: {}, io: native, cache: writethrough"),
		want:  invalid("spec.domain.devices.disks[0].io"),
	},
	{
		why:   "native beside none",
		rule:  "disks/io-cache",
		given: disk("disk: {}, io: native, cache: none"),
	},
	{
		why:   "native",
		rule:  "disks/io-cache",
		given: disk("disk: {}, io: native"),
	},
	{
		why:   "threads beside writeback",
		rule:  "disks/io-cache",
		given: disk("disk: {}, io: threads, cache: writeback"),
	},
	{
		why:   "an unknown policy",
		rule:  "disks/error-policy",
		given: disk("disk: {}, errorPolicy: retry"),
		want:  notSupported("spec.domain.devices.disks[0].errorPolicy"),
	},
	{
		why:   "a policy",
		rule:  "disks/error-policy",
		given: disk("disk: {}, errorPolicy: enospace"),
	},
	{
		why:   "a thread for a SATA disk",
		rule:  "disks/dedicated-iothread",
		given: disk("disk: {bus: sata}, dedicatedIOThread: true"),
		want:  forbidden("spec.domain.devices.disks[0].dedicatedIOThread"),
	},
	{
		why:   "a thread for a LUN",
		rule:  "disks/dedicated-iothread",
		given: disk("lun: {bus: scsi}, dedicatedIOThread: true"),
		want:  forbidden("spec.domain.devices.disks[0].dedicatedIOThread"),
	},
	{
		why:   "a thread for a CD-ROM",
		rule:  "disks/dedicated-iothread",
		given: disk("cdrom: {bus: sata}, dedicatedIOThread: true"),
		want:  forbidden("spec.domain.devices.disks[0].dedicatedIOThread"),
	},
	{
		why:   "a thread for a virtio disk",
		rule:  "disks/dedicated-iothread",
		given: disk("disk: {bus: virtio}, dedicatedIOThread: true"),
	},
	{
		why:   "a thread for a disk on no bus",
		rule:  "disks/dedicated-iothread",
		given: disk("disk: {}, dedicatedIOThread: true"),
	},
	{
		why:   "a thread for a disk without a target",
		rule:  "disks/dedicated-iothread",
		given: disk("dedicatedIOThread: true"),
	},
	{
		why:   "no thread for a SATA disk",
		rule:  "disks/dedicated-iothread",
		given: disk("disk: {bus: sata}, dedicatedIOThread: false"),
	},
}
