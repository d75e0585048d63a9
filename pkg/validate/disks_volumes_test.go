package validate_test

const (
	twoMaps     = "{name: a, configMap: {name: a}}, {name: b, configMap: {name: b}}"
	bootedTwice = `
domain:
  devices:
    disks: [{name: a, disk: {}, bootOrder: 1}]
    interfaces: [{name: a, masquerade: {}, bootOrder: 1}]
networks: [{name: a, pod: {}}]
volumes: [{name: a, configMap: {name: a}}]
`
)

var disksVolumesCases = []testCase{
	{
		why:    "a CD-ROM without a volume and the feature gate",
		rule:   "disks/cdrom-volume",
		given:  attached("disks: [{name: a, cdrom: {}}]", ""),
		limits: gates("-DeclarativeHotplugVolumes"),
		want:   invalid("spec.domain.devices.disks[0].name"),
	},
	{
		why:    "an empty CD-ROM",
		rule:   "disks/cdrom-volume",
		given:  attached("disks: [{name: a, cdrom: {}}]", ""),
		limits: gates("DeclarativeHotplugVolumes"),
	},
	{
		why:    "a CD-ROM with a volume",
		rule:   "disks/cdrom-volume",
		given:  disk("cdrom: {}"),
		limits: gates("-DeclarativeHotplugVolumes"),
	},
	{
		why:    "a disk without a volume",
		rule:   "disks/disk-volume",
		given:  attached("disks: [{name: a, disk: {}}]", ""),
		limits: gates("DeclarativeHotplugVolumes"),
		want:   invalid("spec.domain.devices.disks[0].name"),
	},
	{
		why:   "a disk with a volume",
		rule:  "disks/disk-volume",
		given: disk("disk: {}"),
	},
	{
		why:   "a memory dump as a disk",
		rule:  "disks/memory-dump",
		given: attached("disks: [{name: a, disk: {}}]", "{name: a, memoryDump: {claimName: a}}"),
		want:  invalid("spec.domain.devices.disks[0].name"),
	},
	{
		why:   "a memory dump",
		rule:  "disks/memory-dump",
		given: attached("disks: []", "{name: a, memoryDump: {claimName: a}}"),
	},
	{
		why:   "a LUN of a ConfigMap",
		rule:  "disks/lun-volume",
		given: attached("disks: [{name: a, lun: {}}]", "{name: a, configMap: {name: a}}"),
		want:  invalid("spec.domain.devices.disks[0].lun"),
	},
	{
		why:   "a LUN of a claim",
		rule:  "disks/lun-volume",
		given: disk("lun: {}"),
	},
	{
		why:   "a LUN of a volume of CDI",
		rule:  "disks/lun-volume",
		given: attached("disks: [{name: a, lun: {}}]", "{name: a, dataVolume: {name: a}}"),
	},
	{
		why:   "a disk of a ConfigMap",
		rule:  "disks/lun-volume",
		given: attached("disks: [{name: a, disk: {}}]", "{name: a, configMap: {name: a}}"),
	},
	{
		why:    "a CD-ROM of metrics",
		rule:   "disks/metrics-disk",
		given:  attached("disks: [{name: a, cdrom: {}}]", "{name: a, downwardMetrics: {}}"),
		limits: gates("DownwardMetrics"),
		want:   required("spec.domain.devices.disks[0].disk"),
	},
	{
		why:    "a disk of metrics",
		rule:   "disks/metrics-disk",
		given:  attached("disks: [{name: a, disk: {}}]", "{name: a, downwardMetrics: {}}"),
		limits: gates("DownwardMetrics"),
	},
	{
		why:   "a CD-ROM of something else",
		rule:  "disks/metrics-disk",
		given: disk("cdrom: {}"),
	},
	{
		why:    "metrics on SATA",
		rule:   "disks/metrics-bus",
		given:  attached("disks: [{name: a, disk: {bus: sata}}]", "{name: a, downwardMetrics: {}}"),
		limits: gates("DownwardMetrics"),
		want:   notSupported("spec.domain.devices.disks[0].disk.bus"),
	},
	{
		why:    "metrics on virtio",
		rule:   "disks/metrics-bus",
		given:  attached("disks: [{name: a, disk: {bus: virtio}}]", "{name: a, downwardMetrics: {}}"),
		limits: gates("DownwardMetrics"),
	},
	{
		why:    "metrics on no bus",
		rule:   "disks/metrics-bus",
		given:  attached("disks: [{name: a, disk: {}}]", "{name: a, downwardMetrics: {}}"),
		limits: gates("DownwardMetrics"),
	},
	{
		why:   "a shared image",
		rule:  "disks/shared-volume",
		given: attached("disks: [{name: a, disk: {}, shareable: true}]", "{name: a, containerDisk: {image: i}}"),
		want:  invalid("spec.domain.devices.disks[0].shareable"),
	},
	{
		why:   "a shared copy of a claim",
		rule:  "disks/shared-volume",
		given: attached("disks: [{name: a, disk: {}, shareable: true}]", "{name: a, ephemeral: {persistentVolumeClaim: {claimName: a}}}"),
		want:  invalid("spec.domain.devices.disks[0].shareable"),
	},
	{
		why:   "a shared disk that begins empty",
		rule:  "disks/shared-volume",
		given: attached("disks: [{name: a, disk: {}, shareable: true}]", "{name: a, emptyDisk: {capacity: 1Gi}}"),
		want:  invalid("spec.domain.devices.disks[0].shareable"),
	},
	{
		why:   "a shared claim",
		rule:  "disks/shared-volume",
		given: disk("disk: {}, shareable: true"),
	},
	{
		why:   "an image that is not shared",
		rule:  "disks/shared-volume",
		given: attached("disks: [{name: a, disk: {}, shareable: false}]", "{name: a, containerDisk: {image: i}}"),
	},
	{
		why:    "a shared disk without a volume is refused as such alone",
		rule:   "disks/shared-volume",
		given:  attached("disks: [{name: a, disk: {}, shareable: true}]", ""),
		others: []string{"disks/disk-volume"},
	},
	{
		why:   "no place in the boot order",
		rule:  "disks/boot-order",
		given: disk("disk: {}, bootOrder: 0"),
		want:  invalid("spec.domain.devices.disks[0].bootOrder"),
	},
	{
		why:   "an interface at no place in the boot order",
		rule:  "disks/boot-order",
		given: onPod("masquerade: {}, bootOrder: 0"),
		want:  invalid("spec.domain.devices.interfaces[0].bootOrder"),
	},
	{
		why:   "the first place in the boot order",
		rule:  "disks/boot-order",
		given: disk("disk: {}, bootOrder: 1"),
	},
	{
		why:   "a place taken by another disk",
		rule:  "disks/boot-order-twice",
		given: attached("disks: [{name: a, disk: {}, bootOrder: 1}, {name: b, disk: {}, bootOrder: 1}]", twoMaps),
		want:  invalid("spec.domain.devices.disks[1].bootOrder"),
	},
	{
		why:   "a place taken by a disk and an interface",
		rule:  "disks/boot-order-twice",
		given: spec(bootedTwice),
		want:  invalid("spec.domain.devices.interfaces[0].bootOrder"),
	},
	{
		why:   "two places",
		rule:  "disks/boot-order-twice",
		given: attached("disks: [{name: a, disk: {}, bootOrder: 1}, {name: b, disk: {}, bootOrder: 2}]", twoMaps),
	},
}
