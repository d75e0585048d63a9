package validate_test

var disksVolumeUseCases = []testCase{
	{
		why:   "a directory as a disk",
		rule:  "disks/directory-as-disk",
		given: attached("disks: [{name: a, disk: {}}]", "{name: a, containerPath: {path: /a}}"),
		want:  invalid("spec.volumes[0].name"),
	},
	{
		why:   "a directory as a file system",
		rule:  "disks/directory-as-disk",
		given: directory("/a"),
	},
	{
		why:   "a directory that nothing uses",
		rule:  "disks/directory-unused",
		given: attached("disks: []", "{name: a, containerPath: {path: /a}}"),
		want:  invalid("spec.volumes[0].name"),
	},
	{
		why:   "a directory that a file system uses",
		rule:  "disks/directory-unused",
		given: directory("/a"),
	},
	{
		why:   "a volume that nothing uses",
		rule:  "disks/volume-unused",
		given: attached("disks: []", "{name: a, configMap: {name: a}}"),
		want:  invalid("spec.volumes[0].name"),
	},
	{
		why:   "a volume that a disk uses",
		rule:  "disks/volume-unused",
		given: disk("disk: {}"),
	},
	{
		why:   "a volume that a file system uses",
		rule:  "disks/volume-unused",
		given: attached("filesystems: [{name: a, virtiofs: {}}]", "{name: a, configMap: {name: a}}"),
	},
	{
		why:   "a memory dump is not used by the guest",
		rule:  "disks/volume-unused",
		given: attached("disks: []", "{name: a, memoryDump: {claimName: a}}"),
	},
	{
		why:   "no kind of file system",
		rule:  "disks/filesystem-kind",
		given: attached("filesystems: [{name: a}]", "{name: a, configMap: {name: a}}"),
		want:  required("spec.domain.devices.filesystems[0].virtiofs"),
	},
	{
		why:   "virtiofs",
		rule:  "disks/filesystem-kind",
		given: attached("filesystems: [{name: a, virtiofs: {}}]", "{name: a, configMap: {name: a}}"),
	},
	{
		why:    "a claim without the feature gate",
		rule:   "disks/filesystem-gate",
		given:  attached("filesystems: [{name: a, virtiofs: {}}]", "{name: a, persistentVolumeClaim: {claimName: a}}"),
		limits: gates("-EnableVirtioFsStorageVolumes"),
		want:   forbidden("spec.domain.devices.filesystems[0]"),
	},
	{
		why:    "a claim with the feature gate",
		rule:   "disks/filesystem-gate",
		given:  attached("filesystems: [{name: a, virtiofs: {}}]", "{name: a, persistentVolumeClaim: {claimName: a}}"),
		limits: gates("EnableVirtioFsStorageVolumes"),
	},
	{
		why:    "v1.7 has a gate for a ConfigMap",
		rule:   "disks/filesystem-config-gate",
		given:  attached("filesystems: [{name: a, virtiofs: {}}]", "{name: a, configMap: {name: a}}"),
		limits: beside(7),
		want:   forbidden("spec.domain.devices.filesystems[0]"),
	},
	{
		why:    "its gate is on",
		rule:   "disks/filesystem-config-gate",
		given:  attached("filesystems: [{name: a, virtiofs: {}}]", "{name: a, configMap: {name: a}}"),
		limits: beside(7, "EnableVirtioFsConfigVolumes"),
	},
	{
		why:    "its old gate is on",
		rule:   "disks/filesystem-config-gate",
		given:  attached("filesystems: [{name: a, virtiofs: {}}]", "{name: a, configMap: {name: a}}"),
		limits: beside(7, "ExperimentalVirtiofsSupport"),
	},
	{
		why:    "a container disk has no gate",
		rule:   "disks/filesystem-config-gate",
		given:  attached("filesystems: [{name: a, virtiofs: {}}]", "{name: a, emptyDisk: {capacity: 1Gi}}"),
		limits: beside(7),
	},
	{
		why:    "a ConfigMap needs no feature gate",
		rule:   "disks/filesystem-gate",
		given:  attached("filesystems: [{name: a, virtiofs: {}}]", "{name: a, configMap: {name: a}}"),
		limits: gates("-EnableVirtioFsStorageVolumes"),
	},
	{
		why:    "no volume",
		rule:   "disks/filesystem-gate",
		given:  attached("filesystems: [{name: a, virtiofs: {}}]", ""),
		limits: gates("-EnableVirtioFsStorageVolumes"),
	},
}
