package catalog

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/config"
)

const (
	realtime = `
metadata:
  name: realtime
  labels: {instancetype.kubevirt.io/cpu: "4", instancetype.kubevirt.io/memory: 4Gi, instancetype.kubevirt.io/dedicatedCPUPlacement: "true",
    instancetype.kubevirt.io/realtime: "true", instancetype.kubevirt.io/numa: "true", instancetype.kubevirt.io/hugepages: 2Mi}
spec: {cpu: {guest: 4, dedicatedCPUPlacement: true, numa: {guestMappingPassthrough: {}}, realtime: {}}, memory: {guest: 4Gi, hugepages: {pageSize: 2Mi}}}`
	oneCPU = `
metadata: {name: one, labels: {instancetype.kubevirt.io/cpu: "1", instancetype.kubevirt.io/memory: 4Gi}}
spec: {cpu: {guest: 1}, memory: {guest: 4Gi}}`
	queues = `
kind: p
metadata: {name: queues}
spec: {devices: {preferredInterfaceModel: virtio, preferredNetworkInterfaceMultiQueue: true}}`
	// stateful needs a StorageClass for its state, which is a matter of the cluster.
	stateful = `
kind: p
metadata: {name: stateful}
spec: {devices: {preferredTPM: {persistent: true}}}`
	// sealed needs EFI, which preference efi sets.
	sealed = `
metadata: {name: sealed, labels: {instancetype.kubevirt.io/cpu: "2", instancetype.kubevirt.io/memory: 4Gi}}
spec: {cpu: {guest: 2}, memory: {guest: 4Gi}, launchSecurity: {tdx: {}}}`
)

var runtimeCases = []lintCase{
	{"an instancetype", "runtime/refused", []string{small, realtime, linux}, []string{small, dedicated, linux}, "spec",
		[]string{"runtime 'pod' refuses", "spec.domain.cpu.realtime: needs the capability SYS_NICE"}},
	{"an instancetype that needs EFI", "runtime/refused", []string{small, sealed, linux, efi}, []string{small, changed(sealed, "tdx", "snp"), linux, efi}, "spec",
		[]string{"spec.domain.launchSecurity.tdx: "}},
	{"a preference with all that it requires", "runtime/refused", []string{small, changed(needing("2", "1Gi"), "spec: {",
		"spec: {devices: {preferredInterfaceModel: virtio, preferredNetworkInterfaceMultiQueue: true}, "), linux},
		[]string{small, stateful}, "spec", []string{"networkInterfaceMultiqueue"}},
	{"a preference with some instancetypes", "runtime/refused-pair", []string{small, oneCPU, queues}, []string{oneCPU, queues}, "spec",
		[]string{"1 of the 2 instancetypes that fit, such as 'small': ", "networkInterfaceMultiqueue"}},
}

// TestRefusedByRuntime: the reasons for lists and pages are the reasons of lint, and a runtime that does not judge has none.
func TestRefusedByRuntime(t *testing.T) {
	all := objects(t, small, realtime, linux, queues, stateful, oneCPU)
	settings := noon
	if got := RefusedByRuntime(all, settings); len(got) != 0 {
		t.Errorf("without a runtime: %v", got)
	}
	settings.Cluster.Limits.Runtime = config.RuntimePod
	got, want := RefusedByRuntime(all, settings), map[Key]string{}
	for _, f := range Lint(all, settings) {
		if f.Rule == "runtime/refused" {
			want[all[f.Object].Key()] = strings.TrimPrefix(f.Message, "runtime 'pod' refuses VMs with it: ")
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || len(got) != 1 {
		t.Errorf("lists differ from lint (-lint +lists):\n%s", diff)
	}
	settings.Cluster.Limits.KubeVirtGuests = true
	if got := RefusedByRuntime(all, settings); len(got) != 0 {
		t.Errorf("KubeVirt's guests: %v", got)
	}
}

// TestOtherRuntimes: what pods refuse is no finding for a bare machine, KubeVirt, or a runtime that is not known.
func TestOtherRuntimes(t *testing.T) {
	bad := objects(t, small, realtime, linux)
	for name, change := range map[string]func(*config.Limits){
		"not known": func(*config.Limits) {}, "bare machine": func(l *config.Limits) { l.Runtime = config.RuntimeNode },
		"KubeVirt": func(l *config.Limits) { l.Runtime, l.KubeVirtGuests = config.RuntimePod, true },
	} {
		settings := noon
		change(&settings.Cluster.Limits)
		for _, f := range Lint(bad, settings) {
			if f.Rule != "label/description" {
				t.Errorf("%s: %+v", name, f)
			}
		}
	}
}
