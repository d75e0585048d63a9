package validate_test

const account = "serviceAccount: {serviceAccountName: a}"

// directory is a VMI with a file system that is a directory of its pod.
func directory(path string) given {
	return attached("filesystems: [{name: a, virtiofs: {}}]", "{name: a, containerPath: {path: "+path+"}}")
}

var disksSourcesCases = []testCase{
	{
		why:   "a volume of CDI without a name",
		rule:  "disks/volume-reference",
		given: volume("dataVolume: {name: ''}"),
		want:  required("spec.volumes[0].dataVolume.name"),
	},
	{
		why:   "a ConfigMap without a name",
		rule:  "disks/volume-reference",
		given: volume("configMap: {}"),
		want:  required("spec.volumes[0].configMap.name"),
	},
	{
		why:   "a Secret without a name",
		rule:  "disks/volume-reference",
		given: volume("secret: {}"),
		want:  required("spec.volumes[0].secret.secretName"),
	},
	{
		why:   "a service account without a name",
		rule:  "disks/volume-reference",
		given: volume("serviceAccount: {}"),
		want:  required("spec.volumes[0].serviceAccount.serviceAccountName"),
	},
	{
		why:   "a volume of CDI",
		rule:  "disks/volume-reference",
		given: volume("dataVolume: {name: a}"),
	},
	{
		why:   "a ConfigMap",
		rule:  "disks/volume-reference",
		given: volume("configMap: {name: a}"),
	},
	{
		why:   "a Secret",
		rule:  "disks/volume-reference",
		given: volume("secret: {secretName: a}"),
	},
	{
		why:   "a service account",
		rule:  "disks/volume-reference",
		given: volume(account),
	},
	{
		why:    "metrics without the feature gate",
		rule:   "disks/downward-metrics-gate",
		given:  attached("disks: [{name: a, disk: {}}]", "{name: a, downwardMetrics: {}}"),
		limits: gates("-DownwardMetrics"),
		want:   forbidden("spec.volumes[0].downwardMetrics"),
	},
	{
		why:    "metrics with the feature gate",
		rule:   "disks/downward-metrics-gate",
		given:  attached("disks: [{name: a, disk: {}}]", "{name: a, downwardMetrics: {}}"),
		limits: gates("DownwardMetrics"),
	},
	{
		why:   "an unknown word",
		rule:  "disks/pull-policy",
		given: volume("containerDisk: {image: i, imagePullPolicy: Sometimes}"),
		want:  notSupported("spec.volumes[0].containerDisk.imagePullPolicy"),
	},
	{
		why:   "a policy",
		rule:  "disks/pull-policy",
		given: volume("containerDisk: {image: i, imagePullPolicy: Always}"),
	},
	{
		why:   "a path that climbs",
		rule:  "disks/container-disk-path",
		given: volume("containerDisk: {image: i, path: /disk/../a}"),
		want:  invalid("spec.volumes[0].containerDisk.path"),
	},
	{
		why:   "a path",
		rule:  "disks/container-disk-path",
		given: volume("containerDisk: {image: i, path: /disk/a.img}"),
	},
	{
		why:   "no path",
		rule:  "disks/container-disk-path",
		given: volume("containerDisk: {image: i}"),
	},
	{
		why:   "no byte",
		rule:  "disks/empty-disk-capacity",
		given: volume("emptyDisk: {capacity: '0'}"),
		want:  invalid("spec.volumes[0].emptyDisk.capacity"),
	},
	{
		why:   "no capacity",
		rule:  "disks/empty-disk-capacity",
		given: volume("emptyDisk: {}"),
		want:  required("spec.volumes[0].emptyDisk.capacity"),
	},
	{
		why:   "more bytes than 64 bits count",
		rule:  "disks/empty-disk-capacity",
		given: volume("emptyDisk: {capacity: 1e400}"),
		want:  invalid("spec.volumes[0].emptyDisk.capacity"),
	},
	{
		why:   "8Ei, which apimachinery reads as a byte less",
		rule:  "disks/empty-disk-capacity",
		given: volume("emptyDisk: {capacity: 8Ei}"),
		want:  invalid("spec.volumes[0].emptyDisk.capacity"),
	},
	{
		why:   "almost 8Ei",
		rule:  "disks/empty-disk-capacity",
		given: volume("emptyDisk: {capacity: '9223372036854775806'}"),
	},
	{
		why:   "one byte",
		rule:  "disks/empty-disk-capacity",
		given: volume("emptyDisk: {capacity: '1'}"),
	},
	{
		why:   "the directory of libvirt",
		rule:  "disks/container-path-reserved",
		given: directory("/var/run/libvirt"),
		want:  forbidden("spec.volumes[0].containerPath.path"),
	},
	{
		why:   "below the directory of KubeVirt",
		rule:  "disks/container-path-reserved",
		given: directory("/var/run/kubevirt/a"),
		want:  forbidden("spec.volumes[0].containerPath.path"),
	},
	{
		why:   "a directory whose name begins alike",
		rule:  "disks/container-path-reserved",
		given: directory("/var/run/kubevirt-a"),
	},
	{
		why:    "a directory on the host without the feature gate",
		rule:   "disks/host-disk-gate",
		given:  volume("hostDisk: {path: /a, type: Disk}"),
		limits: gates("-HostDisk"),
		want:   forbidden("spec.volumes[0].hostDisk"),
	},
	{
		why:    "a directory on the host with the feature gate",
		rule:   "disks/host-disk-gate",
		given:  volume("hostDisk: {path: /a, type: Disk}"),
		limits: gates("HostDisk"),
	},
	{
		why:    "no path",
		rule:   "disks/host-disk-path",
		given:  volume("hostDisk: {path: '', type: Disk}"),
		limits: gates("HostDisk"),
		want:   required("spec.volumes[0].hostDisk.path"),
	},
	{
		why:    "a path",
		rule:   "disks/host-disk-path",
		given:  volume("hostDisk: {path: /a, type: Disk}"),
		limits: gates("HostDisk"),
	},
	{
		why:    "no type",
		rule:   "disks/host-disk-type",
		given:  volume("hostDisk: {path: /a, type: ''}"),
		limits: gates("HostDisk"),
		want:   notSupported("spec.volumes[0].hostDisk.type"),
	},
	{
		why:    "a disk that is made",
		rule:   "disks/host-disk-type",
		given:  volume("hostDisk: {path: /a, type: DiskOrCreate}"),
		limits: gates("HostDisk"),
	},
	{
		why:    "a size for a disk that exists",
		rule:   "disks/host-disk-capacity",
		given:  volume("hostDisk: {path: /a, type: Disk, capacity: 1Gi}"),
		limits: gates("HostDisk"),
		want:   invalid("spec.volumes[0].hostDisk.capacity"),
	},
	{
		why:    "a size for a disk that is made",
		rule:   "disks/host-disk-capacity",
		given:  volume("hostDisk: {path: /a, type: DiskOrCreate, capacity: 1Gi}"),
		limits: gates("HostDisk"),
	},
	{
		why:    "no size for a disk that exists",
		rule:   "disks/host-disk-capacity",
		given:  volume("hostDisk: {path: /a, type: Disk}"),
		limits: gates("HostDisk"),
	},
	{
		why:   "a volume for tools",
		rule:  "disks/utility-volumes",
		given: spec("utilityVolumes: [{name: a, claimName: a}]"),
		want:  forbidden("spec.utilityVolumes"),
	},
	{
		why:   "no volume for tools",
		rule:  "disks/utility-volumes",
		given: volume("configMap: {name: a}"),
	},
}
