package validate_test

// requests is a VM with these requests.
func requests(list string) given { return vm("status: {volumeRequests: [" + list + "]}") }

// hasVolumes is a VM with these volumes that is to get a claim as volume a.
func hasVolumes(list string) given {
	return vm("{spec: {template: {spec: {volumes: [" + list + "]}}}, status: {volumeRequests: [" + adds("a", "disk: {bus: scsi}") + "]}}")
}

// adds is a request for a volume with this disk.
func adds(name, disk string) string {
	return "{addVolumeOptions: {name: " + name + ", disk: {name: " + name + ", " + disk + "}, " +
		"volumeSource: {persistentVolumeClaim: {claimName: a}}}}"
}

const withoutSource = `
spec:
  template:
    spec:
      volumes: [{name: a, persistentVolumeClaim: {claimName: a}}]
status:
  volumeRequests: [{addVolumeOptions: {name: a, disk: {name: a, disk: {bus: scsi}}}}]
`

var disksRequestsCases = []testCase{
	{
		why:   "a request that adds and removes",
		rule:  "disks/request-both",
		given: requests("{addVolumeOptions: {name: a}, removeVolumeOptions: {name: a}}"),
		want:  forbidden("status.volumeRequests[0].removeVolumeOptions"),
	},
	{
		why:   "a request to add",
		rule:  "disks/request-both",
		given: requests(adds("a", "disk: {bus: scsi}")),
	},
	{
		why:   "a request for nothing",
		rule:  "disks/request-empty",
		given: requests("{}"),
		want:  required("status.volumeRequests[0]"),
	},
	{
		why:   "a request to remove",
		rule:  "disks/request-empty",
		given: requests("{removeVolumeOptions: {name: a}}"),
	},
	{
		why:   "a volume added twice",
		rule:  "disks/request-twice",
		given: requests(adds("a", "disk: {bus: scsi}") + ", " + adds("a", "disk: {bus: scsi}")),
		want:  duplicate("status.volumeRequests[1].addVolumeOptions.name"),
	},
	{
		why:   "a volume removed twice",
		rule:  "disks/request-twice",
		given: requests("{removeVolumeOptions: {name: a}}, {removeVolumeOptions: {name: a}}"),
		want:  duplicate("status.volumeRequests[1].removeVolumeOptions.name"),
	},
	{
		why:   "a volume added and removed",
		rule:  "disks/request-twice",
		given: requests(adds("a", "disk: {bus: scsi}") + ", {removeVolumeOptions: {name: a}}"),
	},
	{
		why:   "a name that a volume of another kind has",
		rule:  "disks/request-conflict",
		given: hasVolumes("{name: a, configMap: {name: a}}"),
		want:  invalid("status.volumeRequests[0].addVolumeOptions.name"),
	},
	{
		why:   "a name that another claim has",
		rule:  "disks/request-conflict",
		given: hasVolumes("{name: a, persistentVolumeClaim: {claimName: b}}"),
		want:  invalid("status.volumeRequests[0].addVolumeOptions.name"),
	},
	{
		why:   "a name that another volume of CDI has",
		rule:  "disks/request-conflict",
		given: hasVolumes("{name: a, persistentVolumeClaim: {claimName: a}, dataVolume: {name: a}}"),
		want:  invalid("status.volumeRequests[0].addVolumeOptions.name"),
	},
	{
		why:   "a volume that says nothing of its source",
		rule:  "disks/request-conflict",
		given: vm(withoutSource),
		want:  invalid("status.volumeRequests[0].addVolumeOptions.name"),
	},
	{
		why:   "the same claim",
		rule:  "disks/request-conflict",
		given: hasVolumes("{name: b, persistentVolumeClaim: {claimName: b}}, {name: a, persistentVolumeClaim: {claimName: a}}"),
	},
	{
		why:   "another name",
		rule:  "disks/request-conflict",
		given: hasVolumes("{name: b, persistentVolumeClaim: {claimName: b}}"),
	},
	{
		why:    "a VM without a template",
		rule:   "disks/request-conflict",
		given:  vm("{spec: {template: null}, status: {volumeRequests: [" + adds("a", "disk: {bus: scsi}") + "]}}"),
		others: []string{"vm/template"},
	},
	{
		why:   "no disk",
		rule:  "disks/request-disk",
		given: requests("{addVolumeOptions: {name: a}}"),
		want:  required("status.volumeRequests[0].addVolumeOptions.disk"),
	},
	{
		why:   "a disk",
		rule:  "disks/request-disk",
		given: requests(adds("a", "disk: {bus: scsi}")),
	},
	{
		why:   "a disk on SATA",
		rule:  "disks/request-bus",
		given: requests(adds("a", "disk: {bus: sata}")),
		want:  notSupported("status.volumeRequests[0].addVolumeOptions.disk.disk.bus"),
	},
	{
		why:   "disks on virtio and SCSI",
		rule:  "disks/request-bus",
		given: requests(adds("a", "disk: {bus: virtio}") + ", " + adds("b", "disk: {bus: scsi}")),
	},
	{
		why:   "a LUN on virtio",
		rule:  "disks/request-lun-bus",
		given: requests(adds("a", "lun: {bus: virtio}")),
		want:  notSupported("status.volumeRequests[0].addVolumeOptions.disk.lun.bus"),
	},
	{
		why:   "a LUN on SCSI",
		rule:  "disks/request-lun-bus",
		given: requests(adds("a", "lun: {bus: scsi}")),
	},
	{
		why:   "a CD-ROM",
		rule:  "disks/request-target",
		given: requests(adds("a", "cdrom: {bus: scsi}")),
		want:  invalid("status.volumeRequests[0].addVolumeOptions.disk"),
	},
	{
		why:   "a disk without a target",
		rule:  "disks/request-target",
		given: requests(adds("a", "serial: s")),
		want:  invalid("status.volumeRequests[0].addVolumeOptions.disk"),
	},
	{
		why:   "a disk",
		rule:  "disks/request-target",
		given: requests(adds("a", "disk: {bus: scsi}")),
	},
	{
		why:   "0 is not a place in the boot order",
		rule:  "disks/request-boot-order",
		given: requests(adds("a", "disk: {bus: scsi}, bootOrder: 0")),
		want:  invalid("status.volumeRequests[0].addVolumeOptions.disk.bootOrder"),
	},
	{
		why:   "the first place in the boot order",
		rule:  "disks/request-boot-order",
		given: requests(adds("a", "disk: {bus: scsi}, bootOrder: 1")),
	},
	{
		why:    "what is wrong with any disk is wrong with this",
		rule:   "disks/request-boot-order",
		given:  requests(adds("a", "disk: {bus: scsi}, serial: 'a b', io: sync, "+custom("logical: 1, physical: 512"))),
		others: []string{"disks/block-size-small", "disks/io", "disks/serial"},
	},
}
