package mutate

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// An annotation that the user wrote stays; validate refuses a path that is not the cluster's.
func TestQuoteSocketOfTheUserStays(t *testing.T) {
	t.Parallel()
	vmi := &v1.VirtualMachineInstance{}
	vmi.Annotations = map[string]string{v1.QGSSocketPathAnnotation: "/run/mine.socket"}
	vmi.Spec.Domain.LaunchSecurity = &v1.LaunchSecurity{TDX: &v1.TDX{}}
	Apply(vmi, config.Default().Defaults)
	if got := vmi.Annotations[v1.QGSSocketPathAnnotation]; got != "/run/mine.socket" {
		t.Errorf("the annotation is '%s'", got)
	}
}

// defaulted is a guest and what it has by default: 'PATH VALUE', with '-' for an absent value.
type defaulted struct {
	name, spec string
	// cluster is the configuration that differs from KubeVirt's defaults.
	cluster string
	want    []string
}

var everyDefault = []defaulted{
	{name: "architecture of the cluster", spec: `{}`, cluster: `architectureConfiguration: {defaultArchitecture: arm64}`,
		want: []string{`spec.architecture "arm64"`, `spec.domain.machine.type "virt"`}},
	{name: "machine of s390x", spec: `{architecture: s390x}`, want: []string{`spec.domain.machine.type "s390-ccw-virtio"`, `metadata.annotations -`}},
	{name: "machine of the cluster", spec: `{}`, cluster: `architectureConfiguration: {amd64: {machineType: pc-q35-7.2}}`,
		want: []string{`spec.domain.machine.type "pc-q35-7.2"`}},
	{name: "limit is the request", spec: `{domain: {resources: {limits: {cpu: 1500m}}}}`,
		want: []string{`spec.domain.resources.requests.cpu "1500m"`, `spec.domain.cpu.sockets 2`}},
	{name: "request of the cluster", spec: `{}`, cluster: `cpuRequest: 200m`,
		want: []string{`spec.domain.resources.requests.cpu "200m"`, `spec.domain.cpu.sockets 1`}},
	{name: "its default request", spec: `{}`, cluster: `cpuRequest: 100m`, want: []string{`spec.domain.resources.requests -`}},
	{name: "no request of the cluster for dedicated CPUs", spec: `{domain: {cpu: {dedicatedCpuPlacement: true}}}`, cluster: `cpuRequest: 200m`,
		want: []string{`spec.domain.resources.requests -`}},
	{name: "memory from the request", spec: `{domain: {resources: {requests: {memory: 1Gi}, limits: {memory: 2Gi}}}}`,
		want: []string{`spec.domain.memory.guest "1Gi"`}},
	{name: "memory from the limit", spec: `{domain: {resources: {limits: {memory: 2Gi}}}}`, want: []string{`spec.domain.memory.guest "2Gi"`}},
	{name: "memory from a huge page", spec: `{domain: {memory: {hugepages: {pageSize: 1Gi}}}}`, want: []string{`spec.domain.memory.guest "1Gi"`}},
	{name: "huge page that is no quantity", spec: `{domain: {memory: {hugepages: {pageSize: big}}}}`, want: []string{`spec.domain.memory.guest -`}},
	{name: "sockets from the request", spec: `{domain: {resources: {requests: {cpu: 2500m}}}}`,
		want: []string{`spec.domain.cpu.sockets 3`, `spec.domain.cpu.cores 1`, `spec.domain.cpu.threads 1`}},
	{name: "sockets from a request that no number of 64 bits holds", spec: `{domain: {resources: {requests: {cpu: 1e400}}}}`,
		want: []string{`spec.domain.cpu.sockets 2147483647`}},
	{name: "sockets from a request that no number of 32 bits holds", spec: `{domain: {resources: {requests: {cpu: 4294967297}}}}`,
		want: []string{`spec.domain.cpu.sockets 2147483647`}},
	{name: "sockets from the limit first", spec: `{domain: {resources: {requests: {cpu: 1}, limits: {cpu: 4}}}}`, want: []string{`spec.domain.cpu.sockets 4`}},
	{name: "latest image",
		spec: `{volumes: [{name: a, containerDisk: {image: "os:latest"}}, {name: b, containerDisk: {image: os}},
			{name: c, containerDisk: {image: "os:1"}}, {name: d, containerDisk: {image: "os@sha256:0"}}]}`,
		want: []string{`spec.volumes[0].containerDisk.imagePullPolicy "Always"`, `spec.volumes[1].containerDisk.imagePullPolicy "Always"`,
			`spec.volumes[2].containerDisk.imagePullPolicy "IfNotPresent"`, `spec.volumes[3].containerDisk.imagePullPolicy "IfNotPresent"`}},
	{name: "image of a registry with a port",
		spec: `{volumes: [{name: a, containerDisk: {image: "registry:5000/os"}}, {name: b, containerDisk: {image: "registry:5000/os:latest"}},
			{name: c, containerDisk: {image: "registry:5000/os:1"}}, {name: d, containerDisk: {image: "registry:5000/os:latest@sha256:0"}}]}`,
		want: []string{`spec.volumes[0].containerDisk.imagePullPolicy "Always"`, `spec.volumes[1].containerDisk.imagePullPolicy "Always"`,
			`spec.volumes[2].containerDisk.imagePullPolicy "IfNotPresent"`, `spec.volumes[3].containerDisk.imagePullPolicy "IfNotPresent"`}},
	{name: "eviction", spec: `{}`, cluster: `evictionStrategy: LiveMigrate`, want: []string{`spec.evictionStrategy "LiveMigrate"`}},
	{name: "default network", spec: `{}`, want: []string{`spec.domain.devices.interfaces[0].bridge {}`, `spec.networks[0].pod {}`,
		`spec.networks[0].name "default"`}},
	{name: "masquerade", spec: `{}`, cluster: `network: {defaultNetworkInterface: masquerade}`, want: []string{`spec.domain.devices.interfaces[0].masquerade {}`}},
	{name: "networks without interfaces", spec: `{networks: [{name: a, pod: {}}]}`, want: []string{`spec.domain.devices.interfaces -`}},
	{name: "file system, no disk",
		spec: `{domain: {devices: {filesystems: [{name: a, virtiofs: {}}]}}, 
			volumes: [{name: a, emptyDisk: {capacity: 1Gi}}, {name: b, emptyDisk: {capacity: 1Gi}}]}`,
		want: []string{`spec.domain.devices.disks[0].name "b"`, `spec.domain.devices.disks[1] -`}},
	{name: "ACPI", spec: `{}`, want: []string{`spec.domain.features.acpi.enabled true`}},
	{name: "no ACPI on s390x", spec: `{architecture: s390x}`, want: []string{`spec.domain.features.acpi.enabled false`}},
	{name: "firmware", spec: `{}`, want: []string{`spec.domain.firmware {}`}},
	{name: "inputs", spec: `{domain: {devices: {inputs: [{name: a, type: "", bus: ""}]}}}`,
		want: []string{`spec.domain.devices.inputs[0].bus "usb"`, `spec.domain.devices.inputs[0].type "tablet"`}},
	{name: "probes", spec: `{readinessProbe: {periodSeconds: 5}, livenessProbe: {failureThreshold: -1}}`,
		want: []string{`spec.readinessProbe.timeoutSeconds 1`, `spec.readinessProbe.periodSeconds 5`, `spec.readinessProbe.successThreshold 1`,
			`spec.readinessProbe.failureThreshold 3`, `spec.livenessProbe.periodSeconds 10`, `spec.livenessProbe.failureThreshold 3`}},
	{name: "timers", spec: `{domain: {clock: {timer: {hpet: {}, kvm: {}, pit: {present: false}, rtc: {}, hyperv: {}}}}}`,
		want: []string{`spec.domain.clock.timer.hpet.present true`, `spec.domain.clock.timer.kvm.present true`,
			`spec.domain.clock.timer.pit.present false`, `spec.domain.clock.timer.rtc.present true`, `spec.domain.clock.timer.hyperv.present true`}},
	{name: "features", spec: `{domain: {features: {apic: {}, smm: {}, pvspinlock: {}, kvm: {}, hypervPassthrough: {}}}}`,
		want: []string{`spec.domain.features.apic.enabled true`, `spec.domain.features.smm.enabled true`,
			`spec.domain.features.pvspinlock.enabled true`, `spec.domain.features.kvm {}`, `spec.domain.features.hypervPassthrough {}`}},
	{name: "HyperV",
		spec: `{domain: {features: {hyperv: {relaxed: {}, spinlocks: {}, vendorid: {}, synictimer: {direct: {}}, tlbflush: {direct: {}, extended: {}},
			reset: {}, runtime: {}, frequencies: {}, reenlightenment: {}}}}}`,
		want: []string{`spec.domain.features.hyperv.relaxed.enabled true`, `spec.domain.features.hyperv.spinlocks.spinlocks 4096`,
			`spec.domain.features.hyperv.vendorid.enabled true`, `spec.domain.features.hyperv.synictimer.direct.enabled true`,
			`spec.domain.features.hyperv.tlbflush.direct.enabled true`, `spec.domain.features.hyperv.tlbflush.extended.enabled true`,
			`spec.domain.features.hyperv.synic.enabled true`, `spec.domain.features.hyperv.vpindex.enabled true`}},
	{name: "spinlocks that are off", spec: `{domain: {features: {hyperv: {spinlocks: {enabled: false}}}}}`,
		want: []string{`spec.domain.features.hyperv.spinlocks.spinlocks -`}},
	{name: "IPI", spec: `{domain: {features: {hyperv: {ipi: {}}}}}`,
		want: []string{`spec.domain.features.hyperv.vpindex.enabled true`, `spec.domain.features.hyperv.synic -`}},
	{name: "evmcs", spec: `{domain: {features: {hyperv: {evmcs: {}}}}}`,
		want: []string{`spec.domain.features.hyperv.vapic.enabled true`, `spec.domain.cpu.features[0].name "vmx"`, `spec.domain.cpu.features[0].policy "require"`}},
	{name: "CD-ROM", spec: `{domain: {devices: {disks: [{name: a, cdrom: {}}]}}}`,
		want: []string{`spec.domain.devices.disks[0].cdrom.readonly true`, `spec.domain.devices.disks[0].cdrom.tray "closed"`,
			`spec.domain.devices.disks[0].cdrom.bus "sata"`}},
	{name: "buses of arm64", spec: `{architecture: arm64, domain: {devices: {disks: [{name: a}, {name: b, lun: {}}]}}}`,
		want: []string{`spec.domain.devices.disks[0].disk.bus "virtio"`, `spec.domain.devices.disks[1].lun.bus "scsi"`}},
	{name: "buses of s390x", spec: `{architecture: s390x, domain: {devices: {disks: [{name: a}, {name: b, cdrom: {}}]}}}`,
		want: []string{`spec.domain.devices.disks[0].disk.bus "virtio"`, `spec.domain.devices.disks[1].cdrom.bus "scsi"`}},
	{name: "boot display of a GPU", spec: `{domain: {devices: {gpus: [{name: g, deviceName: d, virtualGPUOptions: {display: {ramFB: {}}}}]}}}`,
		want: []string{`spec.domain.devices.gpus[0].virtualGPUOptions.display.ramFB.enabled true`}},
	{name: "blocks of the volume", spec: `{domain: {devices: {disks: [{name: a, blockSize: {matchVolume: {}}}]}}}`,
		want: []string{`spec.domain.devices.disks[0].blockSize.matchVolume.enabled true`}},
	{name: "watchdog", spec: `{domain: {devices: {watchdog: {name: w}}}}`, want: []string{`spec.domain.devices.watchdog.i6300esb.action "reset"`}},
	{name: "watchdog of s390x", spec: `{architecture: s390x, domain: {devices: {watchdog: {name: w}}}}`,
		want: []string{`spec.domain.devices.watchdog.diag288.action "reset"`}},
	{name: "arm64", spec: `{architecture: arm64}`, want: []string{`spec.domain.cpu.model "host-passthrough"`,
		`spec.domain.firmware.bootloader.efi.secureBoot false`, `spec.domain.cpu.maxSockets -`, `spec.domain.memory -`}},
	{name: "arm64 with EFI", spec: `{architecture: arm64, domain: {firmware: {bootloader: {efi: {secureBoot: true}}}}}`,
		want: []string{`spec.domain.firmware.bootloader.efi.secureBoot true`}},
	{name: "CPU model of the cluster", spec: `{}`, cluster: `cpuModel: Haswell`, want: []string{`spec.domain.cpu.model "Haswell"`}},
	{name: "ceiling of sockets", spec: `{domain: {cpu: {sockets: 3}}}`, want: []string{`spec.domain.cpu.maxSockets 12`}},
	{name: "ceiling of the cluster", spec: `{domain: {cpu: {sockets: 3}}}`, cluster: `liveUpdateConfiguration: {maxCpuSockets: 2}`,
		want: []string{`spec.domain.cpu.maxSockets 3`}},
	{name: "another ratio", spec: `{domain: {cpu: {sockets: 3}, memory: {guest: 1Gi}}}`, cluster: `liveUpdateConfiguration: {maxHotplugRatio: 2}`,
		want: []string{`spec.domain.cpu.maxSockets 6`, `spec.domain.memory.maxGuest "2Gi"`}},
	{name: "staged rollout", spec: `{domain: {memory: {guest: 1Gi}}}`, cluster: `vmRolloutStrategy: Stage`,
		want: []string{`spec.domain.cpu.maxSockets -`, `spec.domain.memory.maxGuest -`}},
	{name: "ceiling of memory", spec: `{domain: {memory: {guest: 1Gi}}}`, want: []string{`spec.domain.memory.maxGuest "4Gi"`}},
	{name: "ceiling of memory of the cluster", spec: `{domain: {memory: {guest: 1Gi}}}`, cluster: `liveUpdateConfiguration: {maxGuest: 8Gi}`,
		want: []string{`spec.domain.memory.maxGuest "8Gi"`}},
	{name: "ceiling below the guest", spec: `{domain: {memory: {guest: 16Gi}}}`, cluster: `liveUpdateConfiguration: {maxGuest: 8Gi}`,
		want: []string{`spec.domain.memory.maxGuest -`}},
	{name: "ceiling that a processor addresses", spec: `{domain: {memory: {guest: 1Pi}}}`, want: []string{`spec.domain.memory.maxGuest "4Pi"`}},
	{name: "ceiling that no processor addresses", spec: `{domain: {memory: {guest: 2Pi}}}`, want: []string{`spec.domain.memory.maxGuest -`}},
	{name: "memory that is not whole blocks", spec: `{domain: {memory: {guest: 1025Mi}}}`, want: []string{`spec.domain.memory.maxGuest -`}},
	{name: "memory of large pages", spec: `{domain: {memory: {guest: 1538Mi, hugepages: {pageSize: 1Gi}}}}`, want: []string{`spec.domain.memory.maxGuest -`}},
	{name: "memory of a realtime guest", spec: `{domain: {cpu: {realtime: {}}, memory: {guest: 1Gi}}}`, want: []string{`spec.domain.memory.maxGuest -`}},
	{name: "memory of mirrored NUMA nodes", spec: `{domain: {cpu: {numa: {guestMappingPassthrough: {}}}, memory: {guest: 1Gi}}}`,
		want: []string{`spec.domain.memory.maxGuest -`}},
	{name: "memory of an encrypted guest", spec: `{domain: {launchSecurity: {snp: {}}, memory: {guest: 1Gi}}}`, want: []string{`spec.domain.memory.maxGuest -`}},
	{name: "PCI topology", spec: `{domain: {machine: {type: q35}}}`, want: []string{`metadata.annotations.kubevirt~io/pci-topology-version "v3"`}},
	{name: "another machine", spec: `{domain: {machine: {type: pc-i440fx-7.2}}}`, want: []string{`metadata.annotations -`}},
	{name: "quote socket", spec: `{domain: {launchSecurity: {tdx: {}}}}`,
		want: []string{`metadata.annotations.kubevirt~io/qgs-socket-path "/var/run/tdx-qgs/qgs.socket"`}},
}

func TestEveryDefault(t *testing.T) {
	t.Parallel()
	for _, test := range everyDefault {
		t.Run(test.name, func(t *testing.T) {
			var configuration v1.KubeVirtConfiguration
			vmi := &v1.VirtualMachineInstance{}
			if err := yaml.UnmarshalStrict([]byte(test.cluster), &configuration); err != nil {
				t.Fatal(err)
			}
			if err := yaml.UnmarshalStrict([]byte(test.spec), &vmi.Spec); err != nil {
				t.Fatal(err)
			}
			cluster, errs := config.FromKubeVirt(configuration)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			Apply(vmi, cluster.Defaults)
			for _, want := range test.want {
				path, value, _ := strings.Cut(want, " ")
				if got := at(t, vmi, path); got != value {
					t.Errorf("%s is %s, want %s", path, got, value)
				}
			}
		})
	}
}

// at returns the JSON at a path, '-' if the path does not exist. '~' stands for a dot within a name.
func at(t *testing.T, vmi *v1.VirtualMachineInstance, path string) string {
	t.Helper()
	raw, err := json.Marshal(vmi)
	if err != nil {
		t.Fatal(err)
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Split(strings.ReplaceAll(path, "[", ".["), ".") {
		if index, isIndex := strings.CutPrefix(name, "["); isIndex {
			list, _ := value.([]any)
			if i, err := strconv.Atoi(strings.TrimSuffix(index, "]")); err != nil || i >= len(list) {
				return "-"
			} else {
				value = list[i]
			}
			continue
		}
		object, _ := value.(map[string]any)
		found := false
		if value, found = object[strings.ReplaceAll(name, "~", ".")]; !found {
			return "-"
		}
	}
	raw, err = json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
