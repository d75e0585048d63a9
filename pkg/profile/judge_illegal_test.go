package profile

import (
	"slices"
	"testing"

	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// illegal are templates that no VM can make legal, with the rule and the field below spec.template. Each has a neighbour that is legal beside a VM.
var illegal = []struct{ why, template, rule, at, legal string }{
	{"more sockets than maxSockets", "{spec: {domain: {cpu: {sockets: 4, maxSockets: 2}}}}", "cpu/sockets", "spec.domain.cpu.sockets",
		"{spec: {domain: {cpu: {sockets: 4, maxSockets: 4}}}}"},
	{"a feature policy that does not exist", "{spec: {domain: {cpu: {features: [{name: pcid, policy: maybe}]}}}}", "cpu/feature-policy",
		"spec.domain.cpu.features[0].policy", "{spec: {domain: {cpu: {features: [{name: pcid, policy: require}]}}}}"},
	{"dedicated CPUs with four threads a core", "{spec: {domain: {cpu: {dedicatedCpuPlacement: true, cores: 2, threads: 4}}}}", "cpu/dedicated-threads",
		"spec.domain.cpu.dedicatedCpuPlacement", "{spec: {domain: {cpu: {dedicatedCpuPlacement: true, cores: 2, threads: 2}}}}"},
	{"one vCPU more than a VMI can have", "{spec: {domain: {cpu: {sockets: 4097}}}}", "cpu/most", "spec.domain.cpu.sockets",
		"{spec: {domain: {cpu: {isolateEmulatorThread: true}}}}"},
	{"a mask that does not exist", "{spec: {domain: {cpu: {realtime: {mask: a-b}}}}}", "cpu/realtime-mask", "spec.domain.cpu.realtime.mask",
		"{spec: {domain: {cpu: {realtime: {mask: 0-1}}}}}"},
	{"memory without its unit", "{spec: {domain: {resources: {requests: {memory: '4'}}}}}", "resources/memory-unit",
		"spec.domain.resources.requests.memory", "{spec: {domain: {resources: {requests: {memory: 4Gi}}}}}"},
	{"memory over maxGuest", "{spec: {domain: {memory: {guest: 4Gi, maxGuest: 2Gi}}}}", "memory/guest-max", "spec.domain.memory.guest",
		"{spec: {domain: {memory: {maxGuest: 8Gi}}}}"},
	{"negative memory", "{spec: {domain: {memory: {guest: '-1'}}}}", "memory/guest", "spec.domain.memory.guest", "{spec: {domain: {memory: {guest: 1Gi}}}}"},
	{"memory that is no whole pages",
		"{spec: {domain: {memory: {guest: 1025Mi, hugepages: {pageSize: 2Mi}}, resources: {requests: {memory: 1025Mi}}}}}", "resources/page-multiple",
		"spec.domain.resources.requests.memory", "{spec: {domain: {memory: {hugepages: {pageSize: 2Mi}}}}}"},
	{"a page size that does not exist", "{spec: {domain: {memory: {hugepages: {pageSize: big}}}}}", "memory/page-size", "spec.domain.memory.hugepages.pageSize",
		"{spec: {domain: {memory: {hugepages: {pageSize: 1Gi}}}}}"},
	{"a request over its limit", "{spec: {domain: {resources: {requests: {cpu: 4}, limits: {cpu: 2}}}}}", "resources/request-over-limit",
		"spec.domain.resources.requests.cpu", "{spec: {domain: {resources: {limits: {cpu: 2}}}}}"},
	{"a bus that does not exist", "{spec: {domain: {devices: {disks: [{name: root, disk: {bus: nvme}}]}}}}", "disks/bus",
		"spec.domain.devices.disks[0].disk.bus", "{spec: {domain: {devices: {disks: [{name: root, disk: {bus: virtio}}]}}}}"},
	{"two targets", "{spec: {domain: {devices: {disks: [{name: root, disk: {}, lun: {}}]}}}}", "profile/choice", "spec.domain.devices.disks[0]",
		"{spec: {domain: {devices: {disks: [{name: root, lun: {}}]}}}}"},
	{"an IO thread on SATA", "{spec: {domain: {devices: {disks: [{name: root, dedicatedIOThread: true, disk: {bus: sata}}]}}}}", "disks/dedicated-iothread",
		"spec.domain.devices.disks[0].dedicatedIOThread", "{spec: {domain: {devices: {disks: [{name: root, dedicatedIOThread: true}]}}}}"},
	{"native IO through a cache", "{spec: {domain: {devices: {disks: [{name: root, io: native, cache: writeback}]}}}}", "disks/io-cache",
		"spec.domain.devices.disks[0].io", "{spec: {domain: {devices: {disks: [{name: root, io: native}]}}}}"},
	{"a block size that is no power of 2", "{spec: {domain: {devices: {disks: [{name: root, blockSize: {custom: {logical: 1000, physical: 1000}}}]}}}}",
		"disks/block-size-power", "spec.domain.devices.disks[0].blockSize.custom.physical",
		"{spec: {domain: {devices: {disks: [{name: root, blockSize: {custom: {logical: 4096}}}]}}}}"},
	{"two disks of which virtio shows one serial",
		"{spec: {domain: {devices: {disks: [{name: a, serial: volume-0123456789abcde1, disk: {bus: virtio}}, " +
			"{name: b, serial: volume-0123456789abcde2, disk: {bus: virtio}}]}}}}", "disks/serial-shown", "spec.domain.devices.disks[1].serial",
		"{spec: {domain: {devices: {disks: [{name: a, serial: volume-0123456789abcde1, disk: {bus: virtio}}, {name: b, serial: volume-0123456789abcde2}]}}}}"},
	{"a granularity of a block size that the VM may choose", "", "", "",
		"{spec: {domain: {devices: {disks: [{name: root, blockSize: {custom: {physical: 4096, discardGranularity: 1024}}}]}}}}"},
	{"two sources", "{spec: {volumes: [{name: a, emptyDisk: {capacity: 1Gi}, containerDisk: {image: a}}]}}", "profile/choice",
		"spec.volumes[0]", "{spec: {volumes: [{name: a}]}}"},
	{"user data that is no base64", "{spec: {volumes: [{name: a, cloudInitNoCloud: {userDataBase64: '!'}}]}}", "disks/cloudinit-base64",
		"spec.volumes[0].cloudInitNoCloud.userDataBase64", "{spec: {volumes: [{name: a, cloudInitNoCloud: {userData: '#'}}]}}"},
	{"a model that does not exist", "{spec: {domain: {devices: {interfaces: [{name: default, model: fast}]}}}}", "networks/model",
		"spec.domain.devices.interfaces[0].model", "{spec: {domain: {devices: {interfaces: [{name: default, model: virtio}]}}}}"},
	{"a MAC of five bytes", "{spec: {domain: {devices: {interfaces: [{name: default, macAddress: '02:00:00:00:01'}]}}}}", "networks/mac",
		"spec.domain.devices.interfaces[0].macAddress", "{spec: {domain: {devices: {interfaces: [{name: default, macAddress: '02:00:00:00:01:01'}]}}}}"},
	{"masquerade away from the pod's network",
		"{spec: {networks: [{name: a, multus: {networkName: a}}], domain: {devices: {interfaces: [{name: a, masquerade: {}}]}}}}", "networks/masquerade-pod",
		"spec.domain.devices.interfaces[0].name", "{spec: {networks: [{name: a, multus: {networkName: a}}], domain: {devices: {interfaces: [{name: a}]}}}}"},
	{"masquerade beside an interface that a VM may attach elsewhere", "", "", "",
		"{spec: {networks: [{name: c, multus: {networkName: c}}], domain: {devices: {interfaces: [{name: a}, {name: b, masquerade: {}}]}}}}"},
	{"two pod networks", "{spec: {networks: [{name: a, pod: {}}, {name: b, pod: {}}]}}", "networks/pod-twice", "spec.networks[1].pod",
		"{spec: {networks: [{name: a, pod: {}}, {name: b}]}}"},
	{"a port that does not exist", "{spec: {domain: {devices: {interfaces: [{name: a, masquerade: {}, ports: [{port: 70000}]}]}}}}", "networks/port",
		"spec.domain.devices.interfaces[0].ports[0].port", "{spec: {domain: {devices: {interfaces: [{name: a, masquerade: {}, ports: [{port: 80}]}]}}}}"},
	{"too few spinlocks", "{spec: {domain: {features: {hyperv: {spinlocks: {spinlocks: 1}}}}}}", "features/hyperv-spinlocks",
		"spec.domain.features.hyperv.spinlocks.spinlocks", "{spec: {domain: {features: {hyperv: {synictimer: {}}}}}}"},
	{"timers for want of what is off", "{spec: {domain: {features: {hyperv: {ipi: {enabled: true}, vpindex: {enabled: false}}}}}}", "features/hyperv-needs",
		"spec.domain.features.hyperv.ipi", "{spec: {domain: {features: {hyperv: {ipi: {enabled: true}}}}}}"},
	{"a track that does not exist", "{spec: {domain: {clock: {timer: {rtc: {track: moon}}}}}}", "clock/word", "spec.domain.clock.timer.rtc.track",
		"{spec: {domain: {clock: {timer: {rtc: {track: wall}}}}}}"},
	{"Secure Boot without SMM", "{spec: {domain: {features: {smm: {enabled: false}}, firmware: {bootloader: {efi: {secureBoot: true}}}}}}",
		"firmware/secure-boot-smm", "spec.domain.firmware.bootloader.efi.secureBoot", "{spec: {domain: {firmware: {bootloader: {efi: {secureBoot: true}}}}}}"},
	{"no ACPI where each firmware needs it", "{spec: {architecture: arm64, domain: {features: {acpi: {enabled: false}}}}}", "firmware/efi-acpi",
		"spec.domain.features.acpi.enabled", "{spec: {domain: {features: {acpi: {enabled: false}}}}}"},
	{"two bootloaders", "{spec: {domain: {firmware: {bootloader: {bios: {}, efi: {}}}}}}", "profile/choice", "spec.domain.firmware.bootloader",
		"{spec: {domain: {firmware: {bootloader: {bios: {useSerial: true}}}}}}"},
	{"a UUID that does not exist", "{spec: {domain: {firmware: {uuid: one}}}}", "firmware/uuid", "spec.domain.firmware.uuid",
		"{spec: {domain: {firmware: {kernelBoot: {kernelArgs: quiet}}}}}"},
	{"a watchdog action that does not exist", "{spec: {domain: {devices: {watchdog: {name: w, i6300esb: {action: bark}}}}}}", "devices/watchdog-action",
		"spec.domain.devices.watchdog.i6300esb.action", "{spec: {domain: {devices: {watchdog: {i6300esb: {action: reset}}}}}}"},
	{"video without a display", "{spec: {domain: {devices: {autoattachGraphicsDevice: false, video: {type: virtio}}}}}", "devices/video-graphics",
		"spec.domain.devices.video", "{spec: {domain: {devices: {video: {type: virtio}}}}}"},
	{"a sound card that does not exist", "{spec: {domain: {devices: {sound: {name: s, model: drum}}}}}", "devices/sound-model", "spec.domain.devices.sound.model",
		"{spec: {domain: {devices: {sound: {model: ich9}}}}}"},
	{"a gate that is off", "{spec: {domain: {devices: {hostDevices: [{name: a, deviceName: v/a}]}}}}", "hostdevices/gate", "spec.domain.devices.hostDevices",
		"{spec: {domain: {devices: {gpus: [{name: a, deviceName: v/a}]}}}}"},
	{"an IO policy that does not exist", "{spec: {domain: {ioThreadsPolicy: many}}}", "iothreads/policy", "spec.domain.ioThreadsPolicy",
		"{spec: {domain: {ioThreadsPolicy: supplementalPool}}}"},
	{"a pool without threads", "{spec: {domain: {ioThreadsPolicy: supplementalPool, ioThreads: {supplementalPoolThreadCount: 0}}}}", "iothreads/pool",
		"spec.domain.ioThreads.supplementalPoolThreadCount", "{spec: {domain: {ioThreads: {supplementalPoolThreadCount: 2}}}}"},
	{"two kinds of encryption", "{spec: {architecture: amd64, domain: {launchSecurity: {sev: {}, snp: {}}}}}", "profile/choice",
		"spec.domain.launchSecurity", ""},
	{"a hook sidecar", "{metadata: {annotations: {hooks.kubevirt.io/hookSidecars: '[]'}}}", "security/annotation-gate",
		"metadata.annotations[hooks.kubevirt.io/hookSidecars]", "{metadata: {annotations: {example.com/owner: team}}}"},
	{"keys for no user", "{spec: {accessCredentials: [{sshPublicKey: {source: {secret: {secretName: s}}, propagationMethod: {qemuGuestAgent: {users: []}}}}]}}",
		"security/key-users", "spec.accessCredentials[0].sshPublicKey.propagationMethod.qemuGuestAgent.users",
		"{spec: {accessCredentials: [{sshPublicKey: {source: {secret: {secretName: s}}, propagationMethod: {noCloud: {}}}}]}}"},
	{"a machine type of no architecture", "{spec: {domain: {machine: {type: pdp11}}}}", "machine/type", "spec.domain.machine.type",
		"{spec: {domain: {machine: {type: s390-ccw-virtio}}}}"},
	{"an architecture that does not exist", "{spec: {architecture: riscv64}}", "machine/architecture", "spec.architecture", "{spec: {architecture: arm64}}"},
	{"a machine type of another architecture", "{spec: {architecture: arm64, domain: {machine: {type: q35}}}}", "machine/type", "spec.domain.machine.type",
		"{spec: {architecture: arm64, domain: {machine: {type: virt}}}}"},
	{"what no architecture has all of", "{spec: {domain: {machine: {type: q35}, devices: {watchdog: {name: w, diag288: {action: reset}}}}}}",
		"devices/watchdog-model", "spec.domain.devices.watchdog.diag288", "{spec: {domain: {devices: {watchdog: {name: w, diag288: {action: reset}}}}}}"},
	{"a toleration that does not exist", "{spec: {tolerations: [{key: a, operator: Like}]}}", "placement/toleration-operator", "spec.tolerations[0].operator",
		"{spec: {tolerations: [{key: a, operator: Exists}]}}"},
	{"an eviction strategy that does not exist", "{spec: {evictionStrategy: Maybe}}", "placement/eviction-strategy", "spec.evictionStrategy",
		"{spec: {evictionStrategy: None}}"},
	{"a probe with two handlers", "{spec: {readinessProbe: {httpGet: {port: 80}, tcpSocket: {port: 80}}}}", "profile/choice",
		"spec.readinessProbe", "{spec: {readinessProbe: {periodSeconds: 5}}}"},
}

// TestIllegalValuesAreRefused: a profile that could fill an illegal value is refused with the rule, at the field of its template; its neighbour is not.
func TestIllegalValuesAreRefused(t *testing.T) {
	for _, test := range illegal {
		if test.rule != "" {
			errs := judging(t, test.template)
			at := "spec.template." + test.at
			if !slices.ContainsFunc(errs, func(err *field.Error) bool { return err.Origin == test.rule && err.Field == at }) {
				t.Errorf("%s: %v %v, want %s at %s", test.why, origins(errs), errs, test.rule, at)
			}
		}
		if test.legal != "" {
			if errs := judging(t, test.legal); len(errs) > 0 {
				t.Errorf("%s: the legal neighbour: %v %v", test.why, origins(errs), errs)
			}
		}
	}
}

// judging returns all errors of a profile with a template.
func judging(t *testing.T, template string) field.ErrorList {
	t.Helper()
	p, errs := Check("", []byte(`{"apiVersion": "kilnvm.io/v1alpha1", "kind": "GuestProfile", "metadata": {"namespace": "team", "name": "p"},
		"spec": {"template": `+toJSON(t, template)+`}}`))
	if len(errs) > 0 {
		return errs
	}
	return Judge(p, nil, config.Default()).Errors
}

func origins(errs field.ErrorList) (names []string) {
	for _, err := range errs {
		names = append(names, err.Origin)
	}
	return names
}
