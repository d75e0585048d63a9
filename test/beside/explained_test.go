package beside

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/fieldpath"
)

// explained are the guests of TestExplain besides the examples, by name: the fields of a VM's spec that follow runStrategy.
var explained = map[string]string{
	"plain":   `template: {metadata: {}, spec: {domain: {memory: {guest: 1Gi}, devices: {}}}}`,
	"sizes":   `instancetype: {kind: VirtualMachineInstancetype, name: small}, preference: {kind: VirtualMachinePreference, name: virtio}, ` + of("", ""),
	"preset":  `template: {metadata: {labels: {tier: web}}, spec: {domain: {memory: {guest: 1Gi}, devices: {}}}}`,
	"profile": `template: {metadata: {labels: {tier: profiled}}, spec: {domain: {memory: {guest: 1Gi}, devices: {}}}}`,
	"windows": `instancetype: {kind: VirtualMachineInstancetype, name: small}, preference: {kind: VirtualMachinePreference, name: windows}, ` +
		of("", "interfaces: [{name: default, masquerade: {}}]", "networks: [{name: default, pod: {}}]"),
	"efi":        of("memory: {guest: 1Gi}, firmware: {bootloader: {efi: {secureBoot: false, persistent: false}}}", ""),
	"secureboot": of("memory: {guest: 1Gi}, features: {smm: {}}, firmware: {bootloader: {efi: {}}}", "tpm: {}"),
	"bios":       of("memory: {guest: 1Gi}, firmware: {bootloader: {bios: {useSerial: true}}, serial: abc, uuid: 5d307ca9-b3ef-428c-8861-06e72d69f223}", ""),
	"dedicated":  of("cpu: {cores: 2, threads: 2, dedicatedCpuPlacement: true}, memory: {guest: 1Gi}, ioThreadsPolicy: auto", ""),
	"hugepages":  of("cpu: {sockets: 2, model: host-passthrough}, memory: {guest: 1Gi, hugepages: {pageSize: 2Mi}}", ""),
	"growing":    of("cpu: {sockets: 2, maxSockets: 8}, memory: {guest: 1Gi, maxGuest: 4Gi}", ""),
	"requests":   of("resources: {requests: {cpu: 500m, memory: 1Gi}, limits: {cpu: '2', memory: 2Gi}}", ""),
	"limits":     of("resources: {limits: {cpu: '3', memory: 2Gi}}", ""),
	"overcommit": of("memory: {guest: 2Gi}, resources: {overcommitGuestOverhead: true, requests: {memory: 1Gi}}", ""),
	"hyperv": of("memory: {guest: 1Gi}, features: {acpi: {}, hyperv: {synic: {}, synictimer: {direct: {}}, vpindex: {}, tlbflush: {}, "+
		"reenlightenment: {}}}", ""),
	"evmcs": of("memory: {guest: 1Gi}, features: {hyperv: {evmcs: {}}}", ""),
	"clock": of("memory: {guest: 1Gi}, clock: {timezone: Europe/Berlin, timer: {hpet: {}, "+
		"pit: {tickPolicy: delay}, rtc: {tickPolicy: catchup}, kvm: {}}}", ""),
	"headless": of("memory: {guest: 1Gi}", "autoattachGraphicsDevice: false, autoattachSerialConsole: false, autoattachMemBalloon: false, "+
		"autoattachPodInterface: false"),
	"inputs": of("memory: {guest: 1Gi}", "autoattachInputDevice: true, sound: {name: s}, rng: {}, clientPassthrough: {}, watchdog: {name: w, i6300esb: {}}"),
	"networks": of("memory: {guest: 1Gi}", "interfaces: [{name: a, masquerade: {}, ports: [{port: 22}]}, {name: b, bridge: {}, macAddress: '02:00:00:00:00:17'}, "+
		"{name: c, bridge: {}, model: e1000, state: down}]",
		"networks: [{name: a, pod: {}}, {name: b, multus: {networkName: lan}}, {name: c, multus: {networkName: lan}}]"),
	"multus": of("memory: {guest: 1Gi}", "interfaces: [{name: b, bridge: {}}], networkInterfaceMultiqueue: true",
		"networks: [{name: b, multus: {networkName: lan, default: true}}]"),
	"disks": `template: {metadata: {}, spec: {domain: {memory: {guest: 1Gi}, devices: {blockMultiQueue: true, disks: [{name: a}, {name: b, cdrom: {}},
 {name: c, lun: {}}, {name: d, disk: {bus: sata}, io: threads, bootOrder: 2}, {name: h, disk: {bus: scsi}, serial: x, cache: none}]}},
 volumes: [{name: a, containerDisk: {image: 'registry.example/guest:1'}}, {name: b, containerDisk: {image: 'registry.example:5000/guest'}},
 {name: c, persistentVolumeClaim: {claimName: c}}, {name: d, emptyDisk: {capacity: 1Gi}}, {name: h, persistentVolumeClaim: {claimName: h, hotpluggable: true}},
 {name: seed, cloudInitNoCloud: {userData: '#cloud-config'}}]}}`,
	"placement": of("memory: {guest: 1Gi}", "", "evictionStrategy: LiveMigrate, terminationGracePeriodSeconds: 5, nodeSelector: {example.org/disk: fast}, "+
		"tolerations: [{key: a, operator: Exists}], readinessProbe: {tcpSocket: {port: 22}}, hostname: h, dnsPolicy: None, dnsConfig: {nameservers: [192.0.2.1]}"),
	"machine":  of("machine: {type: q35}, memory: {guest: 1Gi}, cpu: {model: host-model, features: [{name: vmx, policy: require}, {name: aes}]}", ""),
	"security": of("memory: {guest: 1Gi}", "", "accessCredentials: [{sshPublicKey: {source: {secret: {secretName: s}}, propagationMethod: {noCloud: {}}}}]"),
}

// of is a template with a root disk, further fields of the domain and of its devices, and of the spec.
func of(domain, devices string, spec ...string) string {
	join := func(parts ...string) string {
		return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), ", ")
	}
	volumes := "volumes: [{name: root, containerDisk: {image: 'registry.example/guest:1'}}, {name: seed, cloudInitNoCloud: {userData: '#cloud-config'}}]"
	return "template: {metadata: {}, spec: {domain: {" + join(domain, "devices: {"+join("disks: [{name: root, disk: {}}]", devices)+"}") + "}, " +
		join(append([]string{volumes}, spec...)...) + "}}"
}

// fillers are what guests of TestExplain get values from.
var fillers = []string{small, virtio, `
{apiVersion: instancetype.kubevirt.io/v1beta1, kind: VirtualMachinePreference, metadata: {name: windows}, spec: {
 annotations: {vm.kubevirt.io/os: windows}, preferredTerminationGracePeriodSeconds: 90, machine: {preferredMachineType: q35},
 clock: {preferredClockOffset: {utc: {}}, preferredTimer: {hpet: {present: false}, hyperv: {}, pit: {tickPolicy: delay}, rtc: {tickPolicy: catchup}}},
 cpu: {preferredCPUTopology: cores}, devices: {preferredDiskBus: sata, preferredInterfaceModel: e1000e, preferredTPM: {}, preferredInputBus: usb,
 preferredInputType: tablet, preferredAutoattachInputDevice: true, preferredRng: {}}, firmware: {preferredEfi: {secureBoot: true}},
 features: {preferredAcpi: {}, preferredApic: {}, preferredSmm: {},
 preferredHyperv: {relaxed: {}, vapic: {}, spinlocks: {spinlocks: 8191}, synic: {}, vpindex: {}}}}}`, `
{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstancePreset, metadata: {name: watched},
 spec: {selector: {matchLabels: {tier: web}}, domain: {devices: {watchdog: {name: dog, i6300esb: {action: reset}}}}}}`, `
{apiVersion: kilnvm.io/v1alpha1, kind: GuestProfile, metadata: {name: web}, spec: {selector: {matchLabels: {tier: profiled}},
 template: {metadata: {labels: {backup: nightly}}, spec: {terminationGracePeriodSeconds: 120, domain: {ioThreadsPolicy: auto, devices: {rng: {}}}}}}}`}

// plainPath is a path as flatten writes it: with the key of a map as any other field.
func plainPath(path string) string {
	steps := fieldpath.Parse(path)
	for i := range steps {
		if _, index := steps[i].Index(); !index {
			steps[i].Element = false
		}
	}
	return fieldpath.Join(steps)
}

// leaves returns the values of an object by path. Numbers have the types of decoded JSON.
func leaves(object map[string]any) map[string]any {
	raw, _ := json.Marshal(object)
	var plain any
	_ = json.Unmarshal(raw, &plain)
	found := map[string]any{}
	flatten(found, "", plain)
	return found
}

// flatten puts the leaves of a value into a map. A list or object without elements is a leaf.
func flatten(found map[string]any, path string, value any) {
	switch of := value.(type) {
	case map[string]any:
		for key, value := range of {
			flatten(found, strings.TrimPrefix(path+"."+key, "."), value)
		}
		if len(of) > 0 {
			return
		}
	case []any:
		for i, value := range of {
			flatten(found, fmt.Sprintf("%s[%d]", path, i), value)
		}
		if len(of) > 0 {
			return
		}
	}
	found[path] = value
}

// shown is a value for people.
func shown(all map[string]any, path string) string {
	value, found := all[path]
	if !found {
		return "nothing"
	}
	raw, _ := json.Marshal(value)
	return string(raw)
}
