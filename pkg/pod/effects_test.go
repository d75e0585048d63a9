package pod

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/test/golden"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// effectCases has an example of each effect, and its nearest neighbours, which are served.
var effectCases = []struct {
	why, spec string
	with      func(*Input)
	// want are the fields that are refused, with '!', or warned of.
	want []string
}{
	{why: "nothing to say", spec: onPodNetwork(", masquerade: {}")},
	{why: "mirrored NUMA nodes", spec: "domain: {cpu: {numa: {guestMappingPassthrough: {}}}}"},
	{why: "real time", spec: "domain: {cpu: {realtime: {}}}", want: []string{"!domain.cpu.realtime"}},
	{why: "locked memory", spec: "domain: {memory: {reservedOverhead: {memLock: Required}}}", want: []string{"!domain.memory.reservedOverhead.memLock"}},
	{why: "memory that need not be locked", spec: "domain: {memory: {reservedOverhead: {memLock: NotRequired}}}"},
	{why: "nodes that lock", spec: "domain: {memory: {reservedOverhead: {memLock: Required}}}", with: locking},
	{why: "variables", spec: efi("persistent: true"), want: []string{"!domain.firmware.bootloader.efi.persistent"}},
	{why: "variables of one start", spec: efi("persistent: false")},
	{why: "a class for variables", spec: efi("persistent: true"), with: func(in *Input) { in.StateClass = "fast" }},
	{why: "TPM", spec: "domain: {devices: {tpm: {persistent: true}}}", want: []string{"!domain.devices.tpm.persistent"}},
	{why: "TPM that is off", spec: "domain: {devices: {tpm: {enabled: false, persistent: true}}}"},
	{why: "TPM of one start", spec: "domain: {devices: {tpm: {}}}"},
	{why: "a shared folder", spec: "domain: {devices: {filesystems: [{name: a, virtiofs: {}}]}}", want: []string{"!domain.devices.filesystems[0].virtiofs"}},
	{why: "reservations", spec: "domain: {devices: {disks: [{name: a, lun: {reservation: true}}]}}",
		want: []string{"!domain.devices.disks[0].lun.reservation"}},
	{why: "words of disks", spec: "domain: {devices: {disks: [{name: a, lun: {}}, {name: b, tag: x, changedBlockTracking: true}]}}",
		want: []string{"domain.devices.disks[1].changedBlockTracking", "domain.devices.disks[1].tag"}},
	{why: "paths of the node", spec: "volumes: [{name: a, emptyDisk: {capacity: 1Gi}}, {name: b, hostDisk: {path: /a, type: Disk}}]",
		want: []string{"!volumes[1].hostDisk"}},
	{why: "paths of the container", spec: "volumes: [{name: b, containerPath: {path: /a}}]", want: []string{"!volumes[0].containerPath"}},
	{why: "metrics of the node", spec: "volumes: [{name: b, downwardMetrics: {}}]", want: []string{"!volumes[0].downwardMetrics"}},
	{why: "a dump", spec: "volumes: [{name: b, memoryDump: {claimName: c}}]", want: []string{"volumes[0].memoryDump"}},
	{why: "volumes of tools", spec: "utilityVolumes: [{name: a, claimName: c}]", want: []string{"utilityVolumes[0]"}},
	{why: "a claim that may only be read", spec: disk("disk: {}", "persistentVolumeClaim: {claimName: c}"), with: claims(Claim{ReadOnly: true}),
		want: []string{"!volumes[0].persistentVolumeClaim.claimName"}},
	{why: "a claim that the VMI only reads", spec: disk("lun: {}", "persistentVolumeClaim: {claimName: c, readOnly: true}"), with: claims(Claim{}),
		want: []string{"!volumes[0].persistentVolumeClaim.claimName"}},
	{why: "a DataVolume that may only be read", spec: disk("disk: {}", "dataVolume: {name: c}"), with: claims(Claim{ReadOnly: true}),
		want: []string{"!volumes[0].dataVolume.name"}},
	{why: "a disk that only reads", spec: disk("disk: {readonly: true}", "persistentVolumeClaim: {claimName: c}"), with: claims(Claim{ReadOnly: true})},
	{why: "a CD", spec: disk("cdrom: {}", "dataVolume: {name: c}"), with: claims(Claim{ReadOnly: true})},
	{why: "an overlay", spec: disk("disk: {}", "ephemeral: {persistentVolumeClaim: {claimName: c}}"), with: claims(Claim{ReadOnly: true})},
	{why: "a virtual function", spec: nic("sriov: {}"), with: resources("x.y/vf"), want: []string{"!domain.devices.interfaces[0].sriov"}},
	{why: "a virtual function on nodes that lock", spec: nic("sriov: {}"), with: both(locking, resources("x.y/vf"))},
	{why: "a virtual function of no resource", spec: nic("sriov: {}"), with: locking, want: []string{"!domain.devices.interfaces[0].sriov"}},
	{why: "a virtual function that is gone", spec: nic("sriov: {}, state: absent")},
	{why: "a virtual function on the pod network", spec: onPodNetwork(", sriov: {}"), with: locking, want: []string{"!domain.devices.interfaces[0].sriov"}},
	{why: "a virtual function of a claim", with: locking,
		spec: "domain: {devices: {interfaces: [{name: a, sriov: {}}]}}, networks: [{name: a, resourceClaim: {claimName: b, requestName: c}}]"},
	{why: "a virtual function and a host device of one resource", with: both(locking, resources("x.y/vf")),
		spec: "domain: {devices: {interfaces: [{name: a, sriov: {}}], hostDevices: [{name: b, deviceName: x.y/vf}]}}, " +
			"networks: [{name: a, multus: {networkName: net}}]",
		want: []string{"!domain.devices.interfaces[0].sriov"}},
	{why: "a virtual function of a resource that the VMI requests, too", with: both(locking, resources("x.y/vf")),
		spec: "domain: {resources: {limits: {x.y/vf: 1}}, devices: {interfaces: [{name: a, sriov: {}}]}}, networks: [{name: a, multus: {networkName: net}}]",
		want: []string{"!domain.devices.interfaces[0].sriov"}},
	{why: "networks of no device", spec: nic("bridge: {}"), with: both(taps, resources("cpu")), want: []string{"!networks[0].multus.networkName"}},
	{why: "networks of Kubernetes' devices", spec: nic("bridge: {}"), with: both(taps, resources("x.kubernetes.io/y")),
		want: []string{"!networks[0].multus.networkName"}},
	{why: "a bridge that some nodes have", spec: nic("bridge: {}"), with: both(taps, resources("bridge.x.y/br1"))},
	{why: "a plugin", spec: nic("binding: {name: tool}"), want: []string{"!domain.devices.interfaces[0].binding"}},
	{why: "a bridge", spec: nic("bridge: {}"), want: []string{"!domain.devices.interfaces[0].bridge"}},
	{why: "an interface that is gone", spec: nic("bridge: {}, state: absent")},
	{why: "taps", spec: nic("bridge: {}"), with: taps},
	{why: "a default network of Multus", spec: strings.Replace(nic("bridge: {}"), "networkName: net", "networkName: net, default: true", 1)},
	{why: "queues", spec: queues("true", "virtio"), want: []string{"!domain.devices.networkInterfaceMultiqueue"}},
	{why: "no queues", spec: queues("false", "virtio")},
	{why: "a card without queues", spec: queues("true", "e1000e")},
	{why: "one CPU has one queue", spec: queues("true", "virtio"), with: func(in *Input) { in.VMI.Spec.Domain.CPU.Sockets = 1 }},
	{why: "the port of the launcher", spec: onPodNetwork(", masquerade: {}, ports: [{port: 80}, {port: 48186}]"),
		want: []string{"!domain.devices.interfaces[0].ports"}},
	{why: "the port of the launcher, of UDP", spec: onPodNetwork(", masquerade: {}, ports: [{port: 48186, protocol: UDP}]")},
	{why: "a range over the port of the launcher", spec: onPodNetwork(", masquerade: {}, portRanges: [{protocol: TCP, start: 48000, end: 49000}]"),
		want: []string{"domain.devices.interfaces[0].portRanges"}},
	{why: "a range beside the port of the launcher", spec: onPodNetwork(", masquerade: {}, portRanges: [{protocol: TCP, start: 48187, end: 49000}]")},
	{why: "ports of NAT", spec: onPodNetwork(", masquerade: {}, ports: [{port: 80}]"), with: slirp, want: []string{"domain.devices.interfaces[0].ports"}},
	{why: "ranges of NAT", spec: onPodNetwork(", masquerade: {}, portRanges: [{startPort: 1, endPort: 2}]"), with: slirp,
		want: []string{"domain.devices.interfaces[0].portRanges"}},
	{why: "options of DHCP, and a word", spec: onPodNetwork(", masquerade: {}, tag: x, dhcpOptions: {bootFileName: a}"),
		want: []string{"domain.devices.interfaces[0].dhcpOptions", "domain.devices.interfaces[0].tag"}},
	{why: "addresses", spec: "networks: [{name: default, pod: {vmNetworkCIDR: 10.1.1.0/24, vmIPv6NetworkCIDR: 'fd00::/120'}}]",
		want: []string{"networks[0].pod.vmNetworkCIDR", "networks[0].pod.vmIPv6NetworkCIDR"}},
	{why: "a network of a claim", spec: "networks: [{name: default, resourceClaim: {claimName: a, requestName: b}}]",
		want: []string{"!networks[0].resourceClaim"}},
	{why: "devices that lock", spec: "domain: {devices: {gpus: [{name: a, deviceName: x.y/gpu, tag: b}], hostDevices: [{name: c, claimName: d, tag: e}]}}",
		want: []string{"!domain.devices.gpus[0]", "!domain.devices.hostDevices[0]", "domain.devices.gpus[0].tag", "domain.devices.hostDevices[0].tag"}},
	{why: "devices that are not permitted", with: func(in *Input) { locking(in); in.PermittedHostDevices = &v1.PermittedHostDevices{} },
		spec: "domain: {devices: {gpus: [{name: a, deviceName: x.y/gpu}], hostDevices: [{name: c, deviceName: x.y/nic}, {name: d, claimName: e}]}}",
		want: []string{"!domain.devices.gpus[0].deviceName", "!domain.devices.hostDevices[0].deviceName"}},
	{why: "devices that are permitted", with: func(in *Input) { locking(in); permitting(in) },
		spec: "domain: {devices: {gpus: [{name: a, deviceName: x.y/gpu}], hostDevices: [{name: c, deviceName: x.y/nic}]}}"},
	{why: "USB locks nothing", spec: "domain: {devices: {hostDevices: [{name: c, deviceName: x.y/usb}]}}", with: permitting},
	{why: "devices of other tools", spec: "domain: {devices: {downwardMetrics: {}, clientPassthrough: {}}}",
		want: []string{"domain.devices.downwardMetrics", "domain.devices.clientPassthrough"}},
	{why: "SEV", spec: "domain: {launchSecurity: {sev: {}}}", want: []string{"!domain.launchSecurity.sev"}},
	{why: "SNP", spec: "domain: {launchSecurity: {snp: {}}}", want: []string{"!domain.launchSecurity.snp"}},
	{why: "SEV on nodes that lock", spec: "domain: {launchSecurity: {sev: {}}}", with: locking},
	{why: "SEV that is attested", spec: "domain: {launchSecurity: {sev: {attestation: {}}}}", with: locking,
		want: []string{"domain.launchSecurity.sev.attestation"}},
	{why: "TDX", spec: "domain: {launchSecurity: {tdx: {}}}", with: locking, want: []string{"!domain.launchSecurity.tdx"}},
	{why: "migration", spec: "evictionStrategy: LiveMigrate", want: []string{"evictionStrategy"}},
	{why: "no migration", spec: "evictionStrategy: None"},
	{why: "another host, by HTTP", spec: probed("httpGet: {port: 80, host: a}"), want: []string{"!readinessProbe.httpGet.host", "!livenessProbe.httpGet.host"}},
	{why: "another host, by TCP", spec: probed("tcpSocket: {port: 80, host: a}"),
		want: []string{"!readinessProbe.tcpSocket.host", "!livenessProbe.tcpSocket.host"}},
	{why: "probes of NAT", spec: probed("tcpSocket: {port: 80}"), with: slirp, want: []string{"!readinessProbe", "!livenessProbe"}},
	{why: "probes that do not need the network", spec: probed("guestAgentPing: {}"), with: slirp},
}

// resources is a NetworkAttachmentDefinition that names a resource.
func resources(name string) func(*Input) {
	return func(in *Input) { in.NetworkResources["net"] = name }
}

func both(first, second func(*Input)) func(*Input) { return func(in *Input) { first(in); second(in) } }

func locking(in *Input) { in.LockedMemory = true }

func slirp(in *Input) { in.Network = Slirp }

func permitting(in *Input) {
	in.PermittedHostDevices = &v1.PermittedHostDevices{
		PciHostDevices:  []v1.PciHostDevice{{ResourceName: "x.y/nic"}},
		MediatedDevices: []v1.MediatedHostDevice{{ResourceName: "x.y/gpu"}},
		USB:             []v1.USBHostDevice{{ResourceName: "x.y/usb"}},
	}
}

func claims(c Claim) func(*Input) { return func(in *Input) { in.Claims = map[string]Claim{"c": c} } }

func efi(fields string) string { return "domain: {firmware: {bootloader: {efi: {" + fields + "}}}}" }

func disk(target, volume string) string {
	return "domain: {devices: {disks: [{name: a, " + target + "}]}}, volumes: [{name: a, " + volume + "}]"
}

func nic(fields string) string {
	return "domain: {devices: {interfaces: [{name: a, " + fields + "}]}}, networks: [{name: a, multus: {networkName: net}}]"
}

func queues(on, model string) string {
	return "domain: {devices: {networkInterfaceMultiqueue: " + on + ", interfaces: [{name: default, masquerade: {}, model: " + model +
		"}]}}, networks: [{name: default, pod: {}}]"
}

func probed(handler string) string {
	return fmt.Sprintf("readinessProbe: {%s}, livenessProbe: {%[1]s}", handler)
}

var index = regexp.MustCompile(`\[\d+\]`)

func TestEffects(t *testing.T) {
	seen := map[string]bool{}
	for _, test := range effectCases {
		t.Run(test.why, func(t *testing.T) {
			in := input(t, test.spec)
			if test.with != nil {
				test.with(&in)
			}
			result, errs := New(in)
			var got []string
			for _, err := range errs {
				if err.Type != field.ErrorTypeForbidden {
					t.Errorf("%v", err)
				}
				got = append(got, "!"+strings.TrimPrefix(err.Field, "spec."))
			}
			for _, warning := range result.Warnings {
				at, _, _ := strings.Cut(strings.TrimPrefix(warning, "spec."), " ")
				got = append(got, at)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s: %s", test.spec, diff)
			}
			if (result.Pod == nil) != (len(errs) > 0) {
				t.Error("a pod and errors")
			}
			for _, at := range got {
				seen[index.ReplaceAllString(at, "[]")] = true
			}
		})
	}
	for _, e := range Effects() {
		name := e.Field
		if e.Verdict == Refused {
			name = "!" + name
		}
		if !seen[name] {
			t.Errorf("no case has %s, or it is at another path", name)
		}
	}
}

// TestWarningsAreShort: Kubernetes recommends at most 120 characters, because longer ones may be cut.
func TestWarningsAreShort(t *testing.T) {
	for _, e := range Effects() {
		if text := "spec." + strings.ReplaceAll(e.Field, "[]", "[255]") + " " + e.Reason; e.Verdict == Warned && len(text) > 120 {
			t.Errorf("a warning of %d characters: %s", len(text), text)
		}
	}
}

const effectsHead = `# Pods: overhead and fields

'make golden' writes this file from 'pkg/pod'. [pods.md](../explanation/pods.md) says how to read it.

## Memory overhead

In addition to the memory of the guest, a pod requests the sum of these rows, multiplied by 'additionalGuestMemoryOverheadRatio'.

| what needs it | when | how much |
|---|---|---|
`

const effectsFields = `
## Fields that pods do not serve

Paths start at 'spec' of a VirtualMachineInstance. All other fields act as in [fields.md](fields.md). Admission refuses a VM
with a field that is *refused*: the field would change the guest's machine, or the guest could not start. A field that is *warned of* has no effect.

| field | verdict | reason |
|---|---|---|
`

// TestPage writes the page from the tables.
func TestPage(t *testing.T) {
	var text strings.Builder
	text.WriteString(strings.ReplaceAll(effectsHead, "'", "`"))
	for _, part := range Overhead() {
		fmt.Fprintf(&text, "| %s | %s | %s |\n", part.What, part.When, part.Much)
	}
	text.WriteString(strings.ReplaceAll(effectsFields, "'", "`"))
	for _, e := range Effects() {
		fmt.Fprintf(&text, "| `%s` | %s | %s |\n", e.Field, e.Verdict, e.Reason)
	}
	golden.Compare(t, "../../docs/reference/pods.md", text.String())
}
