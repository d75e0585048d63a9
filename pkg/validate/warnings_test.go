package validate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/validate"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// warningCase is an object, and what its warnings are about: a part of the text of each, in their order.
type warningCase struct {
	why, object string
	about       []string
}

// check fails a test unless there is one short warning about each of these.
func (c warningCase) check(t *testing.T, warnings []string) {
	t.Helper()
	if len(warnings) != len(c.about) {
		t.Fatalf("%d warnings instead of %d: %q", len(warnings), len(c.about), warnings)
	}
	for i, about := range c.about {
		if !strings.Contains(warnings[i], about) || utf8.RuneCountInString(warnings[i]) > validate.MaxWarning {
			t.Errorf("'%s' is not about '%s', or longer than %d", warnings[i], about, validate.MaxWarning)
		}
	}
}

// sentences are what users read of warnings.
func sentences(warnings []validate.Warning) (all []string) {
	for _, w := range warnings {
		all = append(all, w.Text)
	}
	return all
}

var (
	letters33 = strings.Repeat("m", 33)
	ignition  = func(text string) string {
		return "metadata: {annotations: {" + v1.IgnitionAnnotation + ": '" + text + "'}}"
	}
)

var guestWarnings = []warningCase{
	{"nothing to warn of", "{}", nil},
	{"an alias that is resolved at each boot", latest("q35"), []string{"'q35'"}},
	{"a version of a machine", latest("pc-q35-9.2"), nil},
	{"no machine", "metadata: {annotations: {kilnvm.io/hardware: latest}}", nil},
	{"an alias that is resolved once", "spec: {domain: {machine: {type: q35}}}", nil},
	{"a name of 32 characters", latest(letters33[1:]), []string{"'" + letters33[1:] + "'"}},
	{"a name of 33 characters", latest(letters33), []string{"'" + letters33[1:] + "…'"}},
	{"more memory than its limit", memoryLimit("1025Mi", "1Gi"), []string{"memory.guest '1025Mi'"}},
	{"a request of more than the limit, which is refused",
		"spec: {domain: {memory: {guest: 1025Mi}, resources: {requests: {memory: 1025Mi}, limits: {memory: 1Gi}}}}", nil},
	{"a request of the limit", "spec: {domain: {memory: {guest: 1025Mi}, resources: {requests: {memory: 1Gi}, limits: {memory: 1Gi}}}}",
		[]string{"memory.guest '1025Mi'"}},
	{"as much memory as its limit", memoryLimit("1Gi", "1Gi"), nil},
	{"memory with a limit of 0, which bounds nothing", memoryLimit("1Gi", "0"), nil},
	{"a limit of what the instancetype says", "spec: {domain: {memory: {guest: null}, resources: {limits: {memory: 1Gi}}}}", nil},
	{"a limit and no memory", "spec: {domain: {memory: null, resources: {limits: {memory: 1Gi}}}}", nil},
	{"a model with a letter missing", cpu("model: CascadelakeServer"), []string{"'Cascadelake-Server'"}},
	{"a model in lower case", cpu("model: skylake-server-ibrs"), []string{"'Skylake-Server-IBRS'"}},
	{"a model of nobody", cpu("model: Homer-Simpson"), []string{"no such CPU model for 'amd64'"}},
	{"a model of which two letters of three are others", cpu("model: 4xy"), []string{"no such CPU model for 'amd64'"}},
	{"a long model of nobody", cpu("model: " + strings.Repeat("m", 4096)), []string{"no such CPU model"}},
	{"a model", cpu("model: Cascadelake-Server"), nil},
	{"a version of a model", cpu("model: Skylake-Server-v5"), nil},
	{"the host's model", cpu("model: host-model"), nil},
	{"a model of another architecture", cpu("model: z14"), []string{"'z14'"}},
	{"a mainframe's model", "spec: {architecture: s390x, domain: {cpu: {model: z14-base}}}", nil},
	{"a PC's model on a mainframe", "spec: {architecture: s390x, domain: {cpu: {model: Haswell}}}", []string{"for 's390x'"}},
	{"a ceiling of CPUs on arm64", "spec: {architecture: arm64, domain: {cpu: {sockets: 1, maxSockets: 2}}}", []string{"cpu.maxSockets '2'"}},
	{"as many sockets as there are on arm64", "spec: {architecture: arm64, domain: {cpu: {sockets: 2, maxSockets: 2}}}", nil},
	{"a ceiling of CPUs on s390x", "spec: {architecture: s390x, domain: {cpu: {sockets: 1, maxSockets: 2}}}", nil},
	{"dedicated CPUs with less memory than the guest", dedicatedMemory("1023Mi"), []string{"requests.memory '1023Mi'"}},
	{"dedicated CPUs with the guest's memory", dedicatedMemory("1Gi"), nil},
	{"dedicated CPUs without a request", dedicatedMemory("null"), nil},
	{"an empty disk without its unit", "spec: {volumes: [{name: scratch, emptyDisk: {capacity: 2048}}]}", []string{"'scratch'"}},
	{"an empty disk of a megabyte", "spec: {volumes: [{name: scratch, emptyDisk: {capacity: 1M}}]}", nil},
	{"memory that no machine has", "spec: {domain: {memory: {guest: 65Ti}}}", []string{"'65Ti' is more than 64Ti"}},
	{"as much memory as there is", "spec: {domain: {memory: {guest: 64Ti}}}", nil},
	{"more memory than is legal", "spec: {domain: {memory: {guest: 5Pi}}}", nil},
	{"memory in thousandths of a byte", "spec: {domain: {memory: {guest: 1000000001m}}}", []string{"'1000000001m' is no whole number of bytes"}},
	{"a fraction of less than 1M, which is refused", "spec: {domain: {memory: {guest: 128m}}}", nil},
	{"no memory", "spec: {domain: {memory: {guest: null}}}", nil},
	{"a key that was mistyped", "metadata: {annotations: {kilnvm.io/numa-cell: '2'}}", []string{"did you mean 'kilnvm.io/numa-cells'?"}},
	{"a key that nobody has", "metadata: {annotations: {kilnvm.io/bogus: x}}", []string{"'kilnvm.io/bogus' has no effect"}},
	{"a key of others", "metadata: {annotations: {example.org/rolout: x}}", nil},
	{"keys that nobody has", "metadata: {annotations: {kilnvm.io/a: x, kilnvm.io/b: x, kilnvm.io/c: x, kilnvm.io/d: x, kilnvm.io/e: x}}",
		[]string{"'kilnvm.io/a'", "'kilnvm.io/b'", "'kilnvm.io/c'", "'kilnvm.io/d'"}},
	{"ports on another network", card("bridge: {}, ports: [{port: 80}]", "multus: {networkName: net}"), []string{"interface 'a'"}},
	{"ranges on another network", card("bridge: {}, portRanges: [{start: 1, end: 2}]", "multus: {networkName: net}"), []string{"interface 'a'"}},
	{"ports on no network, which is refused", "spec: {domain: {devices: {interfaces: [{name: a, ports: [{port: 80}]}]}}}", nil},
	{"ports on a network of no type, which is refused", "spec: {domain: {devices: {interfaces: [{name: a, ports: [{port: 80}]}]}}, networks: [{name: a}]}", nil},
	{"ports on the pod's network", card("masquerade: {}, ports: [{port: 80}]", "pod: {}"), nil},
	{"no ports on another network", card("bridge: {}", "multus: {networkName: net}"), nil},
	{"a pool without a policy", "spec: {domain: {ioThreads: {supplementalPoolThreadCount: 2}}}", []string{"supplementalPoolThreadCount"}},
	{"a pool beside another policy", pool("auto, ioThreads: {supplementalPoolThreadCount: 2}"), []string{"supplementalPoolThreadCount"}},
	{"a pool beside its policy", pool("supplementalPool, ioThreads: {supplementalPoolThreadCount: 2}"), nil},
	{"a pool of no number", pool("auto, ioThreads: {}"), nil},
	{"a policy", pool("auto"), nil},
	{"the CPU of the node on arm64", "spec: {architecture: arm64, domain: {cpu: {model: host-passthrough}}}", []string{"the CPU of a guest on 'arm64'"}},
	{"the CPU of the node elsewhere", "spec: {architecture: amd64, domain: {cpu: {model: host-passthrough}}}", nil},
	{"features of Hyper-V on arm64", "spec: {architecture: arm64, domain: {features: {hyperv: {}}}}", []string{"features.hyperv"}},
	{"features of Hyper-V on amd64", "spec: {domain: {features: {hyperv: {}}}}", nil},
	{"other features on arm64", "spec: {architecture: arm64, domain: {features: {acpi: {}}}}", nil},
	{"YAML for Ignition", ignition("variant: fcos"), []string{v1.IgnitionAnnotation}},
	{"JSON for Ignition", ignition("{}"), nil},
	{"nothing for Ignition", ignition(""), nil},
	{"a serial that virtio cuts", drives("{name: a, disk: {bus: virtio}, serial: 12345678901234567890x}"), []string{"first 20 bytes of the serial of disk 'a'"}},
	{"a serial that scsi shows", drives("{name: a, disk: {bus: scsi}, serial: 12345678901234567890x}"), nil},
	{"a CD-ROM alone", drives("{name: a, cdrom: {bus: sata}}"), []string{"'bootOrder: 1' of disk 'a'"}},
	{"a BIOS and a boot disk with blocks of 4096 bytes", drives("{name: a, disk: {bus: virtio}, " + blocks4K + "}"),
		[]string{"blocks of 4096 bytes such as 'a'"}},
	{"a BIOS and another disk with such blocks", drives("{name: a, disk: {bus: virtio}}, {name: b, disk: {bus: virtio}, " + blocks4K + "}"),
		nil},
	{"such a disk that is booted", drives("{name: a, disk: {bus: virtio}}, {name: b, bootOrder: 1, disk: {bus: virtio}, " + blocks4K + "}"),
		[]string{"such as 'b'"}},
	{"physical blocks of 4096 bytes", drives("{name: a, disk: {bus: virtio}, blockSize: {custom: {logical: 512, physical: 4096}}}"), nil},
	{"a CD-ROM that is booted", drives("{name: a, cdrom: {bus: sata}, bootOrder: 1}"), nil},
	{"a CD-ROM beside a disk", drives("{name: a, cdrom: {bus: sata}}, {name: b, disk: {bus: sata}}"), nil},
	{"two cards with one address", cards("'02:00:00:00:00:0A'", "'02-00-00-00-00-0a'"), []string{"'a' and 'b' have one MAC address"}},
	{"two cards with two addresses", cards("'02:00:00:00:00:0a'", "'02:00:00:00:00:0b'"), nil},
	{"two cards without an address", cards("''", "''"), nil},
}

func latest(machine string) string {
	return "{metadata: {annotations: {kilnvm.io/hardware: latest}}, spec: {domain: {machine: {type: " + machine + "}}}}"
}

func memoryLimit(guest, limit string) string {
	return "spec: {domain: {memory: {guest: " + guest + "}, resources: {limits: {memory: " + limit + "}}}}"
}

func card(nic, network string) string {
	return "spec: {domain: {devices: {interfaces: [{name: a, " + nic + "}]}}, networks: [{name: a, " + network + "}]}"
}

const blocks4K = "blockSize: {custom: {logical: 4096, physical: 4096}}"

func drives(list string) string { return "spec: {domain: {devices: {disks: [" + list + "]}}}" }

func cards(first, second string) string {
	return "spec: {domain: {devices: {interfaces: [{name: a, macAddress: " + first + "}, {name: b, macAddress: " + second + "}]}}}"
}

func cpu(fields string) string { return "spec: {domain: {cpu: {" + fields + "}}}" }

func dedicatedMemory(request string) string {
	return "spec: {domain: {cpu: {cores: 2, dedicatedCpuPlacement: true}, resources: {requests: {memory: " + request + "}}}}"
}

// TestPermittedDevices: a configuration that lists devices permits no other, one that lists none permits all. A claim is not judged.
func TestPermittedDevices(t *testing.T) {
	devices := "spec: {domain: {devices: {gpus: [{name: g, deviceName: a.com/gpu}, {name: c, claimName: x, requestName: r}], " +
		"hostDevices: [{name: h, deviceName: a.com/nic}]}}}"
	listed := &v1.PermittedHostDevices{PciHostDevices: []v1.PciHostDevice{{ResourceName: "a.com/nic"}}}
	for _, c := range []struct {
		why    string
		listed *v1.PermittedHostDevices
		beside bool
		about  []string
	}{
		{"no list", nil, false, []string{"'g': permittedHostDevices is not set: a node runs the VMI only if a plugin offers 'a.com/gpu'", "'h'"}},
		{"no list, where KubeVirt decides", nil, true, nil},
		{"one of two", listed, false, []string{"'g': 'a.com/gpu'"}},
		{"one of two, beside KubeVirt", listed, true, []string{"'g': 'a.com/gpu'"}},
		{"none", &v1.PermittedHostDevices{}, false, []string{"'g'", "'h'"}},
		{"each kind of device", &v1.PermittedHostDevices{MediatedDevices: []v1.MediatedHostDevice{{ResourceName: "a.com/gpu"}},
			USB: []v1.USBHostDevice{{ResourceName: "a.com/nic"}}}, false, nil},
	} {
		t.Run(c.why, func(t *testing.T) {
			guest := object[v1.VirtualMachineInstance](t, legalVMI, devices)
			limits := config.Limits{PermittedHostDevices: c.listed, KubeVirtGuests: c.beside}
			warningCase{why: c.why, about: c.about}.check(t, sentences(validate.Warnings(guest, limits)))
			if limits.Assumed = true; c.listed == nil && len(sentences(validate.Warnings(guest, limits))) > 0 {
				t.Error("it says what a configuration lacks that nobody has read")
			}
		})
	}
}

func TestInstancetypeWarnings(t *testing.T) {
	for _, c := range []warningCase{
		{"a model of nobody", "spec: {cpu: {model: Homer-Simpson}}", []string{"spec.cpu.model 'Homer-Simpson'"}},
		{"a key that nobody has", "spec: {annotations: {kilnvm.io/bogus: x}}", []string{"'kilnvm.io/bogus'"}},
		{"a key", "spec: {annotations: {kilnvm.io/numa-cells: '2'}}", nil},
		{"a model of a PC", "spec: {cpu: {model: EPYC-Milan-v2}}", nil},
		{"a model of a mainframe", "spec: {cpu: {model: gen16a}}", nil},
		{"dedicated CPUs and overcommitment", "spec: {cpu: {dedicatedCPUPlacement: true}, memory: {overcommitPercent: 1}}",
			[]string{"spec.memory.overcommitPercent"}},
		{"overcommitment", "spec: {memory: {overcommitPercent: 50}}", nil},
		{"dedicated CPUs", "spec: {cpu: {dedicatedCPUPlacement: true}, memory: {overcommitPercent: 0}}", nil},
	} {
		t.Run(c.why, func(t *testing.T) {
			c.check(t, validate.InstancetypeWarnings(&object[v1beta1.VirtualMachineInstancetype](t, legalInstancetype, c.object).Spec))
		})
	}
}

func pool(policy string) string { return "spec: {domain: {ioThreadsPolicy: " + policy + "}}" }

func TestWarnings(t *testing.T) {
	for _, c := range guestWarnings {
		t.Run(c.why, func(t *testing.T) {
			c.check(t, sentences(validate.Warnings(object[v1.VirtualMachineInstance](t, legalVMI, c.object), config.Default().Limits)))
		})
	}
}

// TestMatchedBlocksWarning: nobody knows at admission which blocks the storage of a volume has.
func TestMatchedBlocksWarning(t *testing.T) {
	const about = "the BIOS boots disk 'root' only if the storage of its volume has blocks of 512 bytes: use EFI, or remove blockSize"
	for blockSize, warned := range map[string]bool{
		"{matchVolume: {}}": true, "{matchVolume: {enabled: true}}": true, "{matchVolume: {enabled: false}}": false, "{}": false,
		"{custom: {logical: 512, physical: 4096}, matchVolume: {}}": false,
	} {
		text := "{spec: {architecture: amd64, domain: {devices: {disks: [{name: root, disk: {}, blockSize: " + blockSize + "}]}}}}"
		all := sentences(validate.Warnings(object[v1.VirtualMachineInstance](t, legalVMI, text), config.Default().Limits))
		if slices.Contains(all, about) != warned {
			t.Errorf("%s: %q", blockSize, all)
		}
	}
}

// TestBootWarnings: the disk that the firmware tries first is the one whose blocks matter.
func TestBootWarnings(t *testing.T) {
	const large, small = "{name: large, disk: {}, blockSize: {custom: {logical: 4096, physical: 4096}}%s}", "{name: small, disk: {}%s}"
	with := func(order int) string {
		if order == 0 {
			return ""
		}
		return fmt.Sprintf(", bootOrder: %d", order)
	}
	for _, c := range []struct {
		first, second, nic int // bootOrder of the large disk, of the small one and of the interface
		firmware           string
		warned             bool
	}{
		{0, 0, 0, "", true}, {1, 2, 0, "", true}, {2, 1, 0, "", false}, {0, 1, 0, "", false}, {1, 0, 0, "", true}, {0, 0, 1, "", false}, {1, 0, 2, "", true},
		{2, 0, 1, "", false}, {0, 0, 0, "bootloader: {bios: {}}", true}, {0, 0, 0, "bootloader: {efi: {secureBoot: false}}", false}, {0, 0, 0, "uuid: a", true},
		{0, 0, 0, "kernelBoot: {container: {image: a, kernelPath: /k}}", false},
	} {
		text := fmt.Sprintf("{spec: {architecture: amd64, domain: {firmware: {%s}, devices: {disks: ["+large+", "+small+"], interfaces: [{name: a%s}]}}}}",
			c.firmware, with(c.first), with(c.second), with(c.nic))
		all := sentences(validate.Warnings(object[v1.VirtualMachineInstance](t, legalVMI, text), config.Default().Limits))
		if got := strings.Contains(strings.Join(all, "\n"), "the BIOS boots no disk with blocks of 4096 bytes such as 'large'"); got != c.warned {
			t.Errorf("%+v: %q", c, all)
		}
	}
}

// TestBootOfCDROM: a CD-ROM that the firmware tries first is no disk with large blocks.
func TestBootOfCDROM(t *testing.T) {
	t.Parallel()
	drive := object[v1.VirtualMachineInstance](t, legalVMI, "{spec: {architecture: amd64, domain: {devices: {disks: [{name: drive, cdrom: {}, bootOrder: 1}, "+
		"{name: large, disk: {}, blockSize: {custom: {logical: 4096, physical: 4096}}}]}}}}")
	if got := validate.Warnings(drive, config.Default().Limits); len(got) > 0 {
		t.Errorf("warned: %v", got)
	}
}

// TestFieldsOfWarnings: a warning has the fields that it is about.
func TestFieldsOfWarnings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ object, want string }{
		{latest("q35"), "spec.domain.machine.type"},
		{memoryLimit("1025Mi", "1Gi"), "spec.domain.memory.guest spec.domain.resources.limits.memory"},
		{cpu("model: Homer-Simpson"), "spec.domain.cpu.model"},
		{dedicatedMemory("512Mi"), "spec.domain.resources.requests.memory spec.domain.memory.guest"},
		{card("bridge: {}, ports: [{port: 80}]", "multus: {networkName: net}"), "spec.domain.devices.interfaces[0].ports"},
		{card("bridge: {}, portRanges: [{start: 1, end: 2}]", "multus: {networkName: net}"), "spec.domain.devices.interfaces[0].portRanges"},
		{pool("auto, ioThreads: {supplementalPoolThreadCount: 2}"), "spec.domain.ioThreads.supplementalPoolThreadCount spec.domain.ioThreadsPolicy"},
		{drives("{name: a, cdrom: {bus: sata}}, {name: b, cdrom: {bus: sata}}"), "spec.domain.devices.disks[0].bootOrder"},
		{cards("02:00:00:00:00:01", "02:00:00:00:00:01"), "spec.domain.devices.interfaces[1].macAddress"},
		{ignition("variant: fcos"), "metadata.annotations[" + v1.IgnitionAnnotation + "]"},
	} {
		got := validate.Warnings(object[v1.VirtualMachineInstance](t, legalVMI, c.object), config.Default().Limits)
		if len(got) != 1 || strings.Join(got[0].Fields, " ") != c.want {
			t.Errorf("%s: %v, want one about %s", c.object, got, c.want)
		}
	}
}

// TestCDROMWarnings: a VM with a CD-ROM alone boots nothing, unless something has a bootOrder or it boots a kernel.
func TestCDROMWarnings(t *testing.T) {
	for _, c := range []struct {
		drive, nic, firmware string
		warned               bool
	}{
		{"", "", "", true}, {", bootOrder: 1", "", "", false}, {"", ", bootOrder: 1", "", false},
		{"", "", "kernelBoot: {container: {image: a, kernelPath: /k}}", false},
		{"", "", "uuid: a", true},
	} {
		text := fmt.Sprintf("{spec: {domain: {firmware: {%s}, devices: {disks: [{name: d, cdrom: {bus: sata}%s}], "+
			"interfaces: [{name: a%s}, {name: b}, {name: c}]}}}}",
			c.firmware, c.drive, c.nic)
		all := sentences(validate.Warnings(object[v1.VirtualMachineInstance](t, legalVMI, text), config.Default().Limits))
		if got := strings.Contains(strings.Join(all, "\n"), "the firmware boots no CD-ROM"); got != c.warned {
			t.Errorf("%+v: %q", c, all)
		}
	}
}

func TestVMWarnings(t *testing.T) {
	const templated = "spec: {dataVolumeTemplates: [{metadata: {name: a}}]}"
	for _, c := range []warningCase{
		{"a strategy", "spec: {runStrategy: Always}", nil},
		{"neither field", "spec: {runStrategy: null}", nil},
		{"the field of old", "spec: {running: true, runStrategy: null}", []string{"spec.running"}},
		{"by request", "spec: {runStrategy: Manual}", nil},
		{"a strategy that nobody serves", "spec: {runStrategy: WaitAsReceiver}", []string{"'WaitAsReceiver'"}},
		{"volumes that the controller makes", templated, nil},
		{"volumes replaced at the next start", "spec: {updateVolumesStrategy: Replacement}", nil},
		{"volumes migrated", "spec: {updateVolumesStrategy: Migration}", []string{"'Migration'"}},
		{"no migration", "spec: {template: {spec: {evictionStrategy: None}}}", nil},
		{"migration", "spec: {template: {spec: {evictionStrategy: LiveMigrateIfPossible}}}", []string{"'LiveMigrateIfPossible'"}},
		{"a key that was mistyped", "metadata: {annotations: {kilnvm.io/rolout: restart}}", []string{"did you mean 'kilnvm.io/rollout'?"}},
		{"a key of the template, of which its VMI is told", "spec: {template: {metadata: {annotations: {kilnvm.io/rolout: restart}}}}", nil},
		{"restarts by edits", "metadata: {annotations: {kilnvm.io/rollout: restart}}", nil},
		{"a rollout of another word", "metadata: {annotations: {kilnvm.io/rollout: yes-please}}", []string{"'yes-please'"}},
		{"both", "spec: {running: true, runStrategy: WaitAsReceiver}", []string{"spec.running", "'WaitAsReceiver'"}},
	} {
		t.Run(c.why, func(t *testing.T) {
			c.check(t, sentences(validate.VMWarnings(object[v1.VirtualMachine](t, legalVM, c.object), config.Default().Limits)))
		})
	}
	for _, c := range []struct {
		runtime config.Runtime
		warningCase
	}{
		{config.RuntimePod, warningCase{"in pods", templated, nil}},
		{config.RuntimeNode, warningCase{"on bare machines", templated, []string{"bare machines use no DataVolumes"}}},
		{config.RuntimeNode, warningCase{"on bare machines, without templates", "{}", nil}},
	} {
		limits := config.Default().Limits
		limits.Runtime = c.runtime
		c.check(t, sentences(validate.VMWarnings(object[v1.VirtualMachine](t, legalVM, c.object), limits)))
	}
}

// TestAnnotationsOfKubeVirt: an annotation that only KubeVirt acts on is warned of where Kiln runs the guests. Without a cluster nobody knows who runs them.
func TestAnnotationsOfKubeVirt(t *testing.T) {
	annotated := object[v1.VirtualMachineInstance](t, legalVMI, "metadata: {annotations: {kubevirt.io/memfd: 'false'}}")
	for _, c := range []struct {
		why    string
		limits config.Limits
		warned bool
	}{
		{"Kiln runs the guests", config.Limits{}, true},
		{"KubeVirt runs the guests", config.Limits{KubeVirtGuests: true}, false},
		{"no cluster", config.Limits{Assumed: true}, false},
		{"no cluster, of KubeVirt", config.Limits{KubeVirtGuests: true, Assumed: true}, false},
	} {
		all := strings.Join(sentences(validate.Warnings(annotated, c.limits)), "\n")
		if got := strings.Contains(all, "a HostProfile sets the source of the memory"); got != c.warned {
			t.Errorf("%s: warned %t: %s", c.why, got, all)
		}
	}
}

func TestPreferenceWarnings(t *testing.T) {
	for _, c := range []warningCase{
		{"nothing", "{}", nil},
		{"a key that nobody has", "spec: {annotations: {kilnvm.io/bogus: x}}", []string{"'kilnvm.io/bogus'"}},
		{"CPUs and firmware of nothing", "spec: {cpu: {}, firmware: {}}", nil},
		{"a topology of today", "spec: {cpu: {preferredCPUTopology: spread}}", nil},
		{"a topology of old", "spec: {cpu: {preferredCPUTopology: preferSpread}}", []string{"use 'spread'"}},
		{"EFI of today", "spec: {firmware: {preferredEfi: {secureBoot: true}}}", nil},
		{"EFI of old", "spec: {firmware: {preferredUseEfi: true}}", []string{"use preferredEfi"}},
		{"secure boot of old", "spec: {firmware: {preferredUseSecureBoot: true}}", []string{"use preferredEfi.secureBoot"}},
	} {
		t.Run(c.why, func(t *testing.T) {
			c.check(t, validate.PreferenceWarnings(&object[v1beta1.VirtualMachinePreference](t, c.object).Spec))
		})
	}
}

func TestPresetWarnings(t *testing.T) {
	warningCase{about: []string{"deprecated"}}.check(t, validate.PresetWarnings())
}
