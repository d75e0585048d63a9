package backend

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"sigs.k8s.io/yaml"
)

// TestInSession: what a libvirt of an unprivileged user refuses is left out and named; the rest stays as it is.
func TestInSession(t *testing.T) {
	for _, c := range []struct{ why, policy, served, left string }{
		{"nothing", `{}`, `{}`, ""},
		{"disks are QEMU's business", `{disk: {cachePolicy: None}, diskLimits: {totalIOPS: 100}}`, `{disk: {cachePolicy: None}, diskLimits: {totalIOPS: 100}}`, ""},
		{"cgroups", `{cpu: {shares: 2, periodMicroseconds: 1000, quotaMicroseconds: 1000, emulatorQuotaMicroseconds: 1000, pinStrategy: None},
			memory: {hardLimit: 1Gi, softLimit: 1Gi, swapHardLimit: 1Gi, backing: Memfd}, blockIO: {weight: 500}}`,
			`{cpu: {pinStrategy: None}, memory: {backing: Memfd}}`,
			"blockIO.weight cpu.shares cpu.periodMicroseconds cpu.quotaMicroseconds cpu.emulatorQuotaMicroseconds memory.hardLimit memory.softLimit " +
				"memory.swapHardLimit"},
		{"rights of processes", `{cpu: {vcpuScheduler: {policy: FIFO, priority: 1}}, memory: {locked: true}, numa: {mode: Strict}}`,
			`{cpu: {}, memory: {}}`, "cpu.vcpuScheduler.policy cpu.vcpuScheduler.priority memory.locked numa.mode"},
		{"a scheduler that every process may have", `{cpu: {vcpuScheduler: {policy: Batch}}}`, `{cpu: {vcpuScheduler: {policy: Batch}}}`, ""},
		{"CPUs that kubelet has chosen", `{cpu: {emulatorCPUs: "0", reservedHostCPUs: "0"}, ioThreads: {cpus: "0", policy: Auto}}`,
			`{cpu: {}, ioThreads: {policy: Auto}}`, "ioThreads.cpus cpu.emulatorCPUs cpu.reservedHostCPUs"},
		{"the node", `{net: {vhost: true}, rng: {source: /dev/hwrng, bytesPerPeriod: 1}, serialLog: {dir: /x}, security: {nwFilter: AntiSpoofing},
			pathTemplates: {vnc: /x}}`, `{rng: {bytesPerPeriod: 1}}`, "net.vhost rng.source serialLog.dir security.nwFilter pathTemplates.vnc"},
	} {
		var given, want v1alpha1.HostPolicy
		if err := errors.Join(yaml.UnmarshalStrict([]byte(c.policy), &given), yaml.UnmarshalStrict([]byte(c.served), &want)); err != nil {
			t.Fatalf("%s: %v", c.why, err)
		}
		before := given.DeepCopy()
		served, left := InSession(given)
		if diff := cmp.Diff(asJSON(t, want), asJSON(t, served)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.why, diff)
		}
		if got := strings.Join(left, " "); got != c.left {
			t.Errorf("%s: left out are '%s', want '%s'", c.why, got, c.left)
		}
		if asJSON(t, *before) != asJSON(t, given) {
			t.Errorf("%s: the given policy was changed", c.why)
		}
	}
}

func asJSON(t *testing.T, policy v1alpha1.HostPolicy) string {
	t.Helper()
	text, err := json.Marshal(policy)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
