package validate_test

var disksVolumeNamesCases = []testCase{
	{
		why:   "a volume named again",
		rule:  "disks/volume-name-twice",
		given: attached("disks: [{name: a}]", "{name: a, configMap: {name: a}}, {name: a, configMap: {name: b}}"),
		want:  duplicate("spec.volumes[1].name"),
	},
	{
		why:   "two volumes",
		rule:  "disks/volume-name-twice",
		given: attached("disks: [{name: a}, {name: b}]", "{name: a, configMap: {name: a}}, {name: b, configMap: {name: b}}"),
	},
	{
		why:   "no source",
		rule:  "disks/volume-source",
		given: attached("disks: [{name: a}]", "{name: a}"),
		want:  required("spec.volumes[0]"),
	},
	{
		why:   "a source",
		rule:  "disks/volume-source",
		given: volume("configMap: {name: a}"),
	},
	{
		why:   "two sources",
		rule:  "disks/volume-sources",
		given: volume("configMap: {name: a}, secret: {secretName: a}"),
		want:  forbidden("spec.volumes[0].secret"),
	},
	{
		why:   "one of several sources",
		rule:  "disks/volume-sources",
		given: volume("secret: {secretName: a}"),
	},
	{
		why:   "two service accounts",
		rule:  "disks/volume-single",
		given: attached("disks: [{name: a}, {name: b}]", "{name: a, "+account+"}, {name: b, "+account+"}"),
		want:  invalid("spec.volumes[1].serviceAccount"),
	},
	{
		why:   "two memory dumps",
		rule:  "disks/volume-single",
		given: attached("disks: []", "{name: a, memoryDump: {claimName: a}}, {name: b, memoryDump: {claimName: b}}"),
		want:  invalid("spec.volumes[1].memoryDump"),
	},
	{
		why:    "two volumes of metrics",
		rule:   "disks/volume-single",
		given:  attached("disks: [{name: a, disk: {}}, {name: b, disk: {}}]", "{name: a, downwardMetrics: {}}, {name: b, downwardMetrics: {}}"),
		limits: gates("DownwardMetrics"),
		want:   invalid("spec.volumes[1].downwardMetrics"),
	},
	{
		why:    "one of each",
		rule:   "disks/volume-single",
		given:  attached("disks: [{name: a}, {name: b, disk: {}}]", "{name: a, "+account+"}, {name: b, downwardMetrics: {}}, {name: c, memoryDump: {claimName: c}}"),
		limits: gates("DownwardMetrics"),
	},
	{
		why:   "two Secrets",
		rule:  "disks/volume-single",
		given: attached("disks: [{name: a}, {name: b}]", "{name: a, secret: {secretName: a}}, {name: b, secret: {secretName: b}}"),
	},
}
