package manifests_test

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// policies are the values of each rule about a HostProfile's policy: some that the API server takes, and some that it refuses at the field.
var policies = []struct{ field, taken, refused string }{
	{"cpu.emulatorCPUs", "'0'; '0-3,8'; '7-7,9999'", "many; 3-1; 0,; '0, 1'; 10000; -1"},
	{"cpu.reservedHostCPUs", "0-1", "all; 5-4"},
	{"ioThreads.cpus", "'2,6'", "'2;6'; 1-0"},
	{"pathTemplates.vnc", "'/run/{{.Namespace}}/{{.Name}}-{{ .UID }}/vnc'; /run/..a/b",
		"run/vnc; /run/../vnc; /run//vnc; /run/./vnc; /run/; '/{{.Owner}}'; '/{{.Channel}}'; '/{{.Name'; '/a}b'; \"/a\\nb\"; '/{{printf \"%d\" 1}}'"},
	{"pathTemplates.serial", "'/run/{{.UID}}'", "serial"},
	{"pathTemplates.nvram", "'/v/{{.UID}}.fd'", "'{{.UID}}.fd'"},
	{"pathTemplates.swtpm", "'/tpm/{{.UID}}'", "'/tpm/{{.uid}}'"},
	{"pathTemplates.channel", "'/run/{{.UID}}/{{.Channel}}'", "'/run/{{.Channels}}'"},
	{"serialLog.dir", "/var/log/guests; /var/log/", "logs; /var/../log"},
	{"security.resourcePartition", "/machine/production", "machine; /../a"},
	{"graphics.listen", "Socket; 127.0.0.1; '::1'", "socket; everywhere; 127.0.0.1:5900; 'fe80::1%eth0'"},
	{"memory.hugePageSizes", "[1Ki, 2Mi, 1048576]; [1073741824]",
		"[1023]; [0]; [2Mi, -1]; [1500m]; [8Ei]; [1e1.5]; [huge]; [1Ki, 1Ki, 1Ki, 1Ki, 1Ki, 1Ki, 1Ki, 1Ki, 1Ki]"},
	{"memory.hardLimit", "1; 4Gi; 4G; 1e9", "0; -1; 1.5; 100m; 16Ei; 1GiB; '00000000000000000000000000000000001'"},
	{"memory.softLimit", "4Gi", "0"},
	{"memory.swapHardLimit", "4Gi", "0"},
	{"cache.l3Sizes", "[0, 2Mi]", "[-1]; [500m]"},
	{"cache.memoryBandwidthPercents", "[0, 100]", "[101]; [-1]"},
	{"rng.bytesPerPeriod", "1; 2147483647", "0; 2Gi"},
	{"disk.metadataCacheSize", "1Mi", "0"},
	{"net.inbound.averageBytesPerSecond", "1M", "-1M"},
	{"net.outbound.burstSize", "1Ki", "0"},
	{"diskLimits.totalBytesPerSecond", "100Mi", "0"},
	{"diskLimits.operationSize", "4Ki", "0"},
	{"diskLimits.burstTotalIOPS", "1", "0"},
	{"priority", "1000000000; -1000000000", "1000000001; -1000000001"},
}

// beside are values that are refused for what stands beside them, at the field, and neighbours that are taken.
var beside = []struct{ field, taken, refused string }{
	{"cpu.vcpuScheduler.priority",
		"{cpu: {vcpuScheduler: {policy: FIFO, priority: 1}}}; {cpu: {vcpuScheduler: {policy: RoundRobin, priority: 99}}}; {cpu: {vcpuScheduler: {priority: 1}}}",
		"{cpu: {vcpuScheduler: {policy: Batch, priority: 1}}}"},
	{"memory.swapHardLimit", "{memory: {hardLimit: 1Gi, swapHardLimit: 1024Mi}}", "{memory: {hardLimit: 1Gi, swapHardLimit: 1023Mi}}"},
	{"disk.detectZeroes", "{disk: {detectZeroes: Unmap, discard: Unmap}}; {disk: {detectZeroes: Unmap}}; {disk: {detectZeroes: Enabled, discard: Ignore}}",
		"{disk: {detectZeroes: Unmap, discard: Ignore}}"},
	{"diskLimits.totalBytesPerSecond", "{diskLimits: {readBytesPerSecond: 1, writeBytesPerSecond: 1, totalIOPS: 1}}",
		"{diskLimits: {totalBytesPerSecond: 1, readBytesPerSecond: 1}}; {diskLimits: {totalBytesPerSecond: 1, writeBytesPerSecond: 1}}"},
	{"diskLimits.totalIOPS", "{diskLimits: {readIOPS: 1, writeIOPS: 1}}", "{diskLimits: {totalIOPS: 1, readIOPS: 1}}; {diskLimits: {totalIOPS: 1, writeIOPS: 1}}"},
	{"diskLimits.burstTotalBytesPerSecond", "{diskLimits: {burstTotalBytesPerSecond: 1, totalBytesPerSecond: 1}}",
		"{diskLimits: {burstTotalBytesPerSecond: 1, burstReadBytesPerSecond: 1}}; {diskLimits: {burstTotalBytesPerSecond: 1, burstWriteBytesPerSecond: 1}}"},
	{"diskLimits.burstTotalIOPS", "{diskLimits: {burstTotalIOPS: 1, totalIOPS: 1}}",
		"{diskLimits: {burstTotalIOPS: 1, burstReadIOPS: 1}}; {diskLimits: {burstTotalIOPS: 1, burstWriteIOPS: 1}}"},
	{"ioThreads.poolMin", "{ioThreads: {poolMin: 4, poolMax: 4}}; {ioThreads: {poolMin: 4}}", "{ioThreads: {poolMin: 5, poolMax: 4}}"},
	{"security.secLabel.label", "{security: {secLabel: {type: Static, label: a}}}; {security: {secLabel: {label: a}}}",
		"{security: {secLabel: {type: Dynamic, label: a}}}; {security: {secLabel: {type: None, label: a}}}"},
}

// hostPolicies: the API server refuses what is wrong with a policy at the field, and what it takes a launcher reads.
func hostPolicies(t *testing.T, p plane) {
	for _, c := range policies {
		for i, values := range []string{c.taken, c.refused} {
			for value := range strings.SplitSeq(values, "; ") {
				names := strings.Split(c.field, ".")
				hostPolicy(t, p, c.field, strings.Join(names, ": {")+": "+value+strings.Repeat("}", len(names)-1), i == 0)
			}
		}
	}
	for _, c := range beside {
		for i, values := range []string{c.taken, c.refused} {
			for value := range strings.SplitSeq(values, "; ") {
				hostPolicy(t, p, c.field, strings.TrimSuffix(strings.TrimPrefix(value, "{"), "}"), i == 0)
			}
		}
	}
}

func hostPolicy(t *testing.T, p plane, field, spec string, taken bool) {
	t.Helper()
	object := "{apiVersion: kilnvm.io/v1alpha1, kind: HostProfile, metadata: {name: a}, spec: {" + spec + "}}"
	refusal := p.refusal(t, object)
	if (refusal == "") != taken || !taken && !strings.Contains(refusal, "spec."+field) {
		t.Errorf("%s: want it taken: %t, or refused at %s: %s", spec, taken, field, refusal)
	}
	if !taken {
		return
	}
	var profile v1alpha1.HostProfile
	if err := yaml.UnmarshalStrict([]byte(object), &profile); err != nil {
		t.Errorf("%s: %v", object, err)
	}
	if mistakes := backend.InvalidFields(&profile.Spec, nil); len(mistakes) > 0 {
		t.Errorf("%s: the API server takes it, and a launcher leaves it out: %v", spec, mistakes)
	}
}

// hostProfiles: the API server refuses the selectors that a launcher could not read, and no others.
func hostProfiles(t *testing.T, p plane) {
	name253, name63 := strings.Repeat("a.", 126)+"a", strings.Repeat("a", 63)
	for _, c := range []struct{ why, selector, field string }{
		{"selects all", "{}", ""},
		{"each operator",
			"{matchExpressions: [{key: a, operator: In, values: [b, '']}, {key: a, operator: NotIn, values: [b]}, " +
				"{key: a, operator: Exists}, {key: a, operator: DoesNotExist}]}", ""},
		{"empty values where none belong", "{matchExpressions: [{key: a, operator: Exists, values: []}]}", ""},
		{"the longest names",
			"{matchLabels: {" + name253 + "/" + name63 + ": " + name63 + "}, " +
				"matchExpressions: [{key: " + name253 + "/" + name63 + ", operator: In, values: [" + name63 + "]}]}", ""},
		{"an operator that there is not", "{matchExpressions: [{key: a, operator: Like}]}", "matchExpressions[0].operator"},
		{"an operator in lower case", "{matchExpressions: [{key: a, operator: in, values: [b]}]}", "matchExpressions[0].operator"},
		{"In without values", "{matchExpressions: [{key: a, operator: Exists}, {key: a, operator: In}]}", "matchExpressions[1].values"},
		{"NotIn with an empty list", "{matchExpressions: [{key: a, operator: NotIn, values: []}]}", "matchExpressions[0].values"},
		{"Exists with values", "{matchExpressions: [{key: a, operator: Exists, values: [b]}]}", "matchExpressions[0].values"},
		{"DoesNotExist with values", "{matchExpressions: [{key: a, operator: DoesNotExist, values: [b]}]}", "matchExpressions[0].values"},
		{"a key with a blank", "{matchExpressions: [{key: a b, operator: Exists}]}", "matchExpressions[0].key"},
		{"no key", "{matchExpressions: [{key: '', operator: Exists}]}", "matchExpressions[0].key"},
		{"a prefix in capitals", "{matchExpressions: [{key: Example.com/a, operator: Exists}]}", "matchExpressions[0].key"},
		{"two prefixes", "{matchExpressions: [{key: a/b/c, operator: Exists}]}", "matchExpressions[0].key"},
		{"a name that is too long", "{matchExpressions: [{key: " + name63 + "a, operator: Exists}]}", "matchExpressions[0].key"},
		{"a prefix that is too long", "{matchExpressions: [{key: " + name253 + "a/b, operator: Exists}]}", "matchExpressions[0].key"},
		{"a value with a blank", "{matchExpressions: [{key: a, operator: In, values: [b, c d]}]}", "matchExpressions[0].values"},
		{"a value that is too long", "{matchExpressions: [{key: a, operator: In, values: [" + name63 + "a]}]}", "matchExpressions[0].values"},
		{"a label's key with a blank", "{matchLabels: {a b: c}}", "matchLabels"},
		{"a label's value that ends wrongly", "{matchLabels: {a: b-}}", "matchLabels"},
		{"a label's value that is too long", "{matchLabels: {a: " + name63 + "a}}", "matchLabels"},
	} {
		for _, selector := range []string{"vmiSelector", "nodeSelector"} {
			object := "{apiVersion: kilnvm.io/v1alpha1, kind: HostProfile, metadata: {name: a}, spec: {" + selector + ": " + c.selector + "}}"
			var profile v1alpha1.HostProfile
			if err := yaml.UnmarshalStrict([]byte(object), &profile); err != nil {
				t.Fatal(err)
			}
			mistakes := backend.InvalidSelectors(&profile.Spec, field.NewPath("spec"))
			refusal := p.refusal(t, object)
			if (refusal != "") != (c.field != "") || (len(mistakes) > 0) != (c.field != "") {
				t.Errorf("%s, %s: the API server: %s; a launcher: %v; want it refused: %t", c.why, selector, refusal, mistakes, c.field != "")
			}
			if c.field != "" && !strings.Contains(refusal, "spec."+selector+"."+c.field) {
				t.Errorf("%s, %s: the API server does not name %s: %s", c.why, selector, c.field, refusal)
			}
		}
	}
}
