package domainimport

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/imported"
	"github.com/kilnvm/kiln/pkg/domain/kubevirt"
	"github.com/kilnvm/kiln/pkg/record"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"libvirt.org/go/libvirtxml"
	"sigs.k8s.io/yaml"
)

// archive is a domain of q35 with addresses: devices at places that Kiln would not choose, an element of the host, and devices that no VM can have.
const archive = `<domain type='kvm'>
  <name>archive</name><title>Files</title>
  <uuid>c64a0d5e-5d0c-4a39-9f4e-8b0f5d3a1b22</uuid>
  <memory unit='GiB'>2</memory><currentMemory unit='GiB'>1</currentMemory>
  <vcpu placement='static'>2</vcpu>
  <cputune><shares>2048</shares></cputune>
  <os><type arch='x86_64' machine='pc-q35-7.2'>hvm</type><boot dev='hd'/></os>
  <features><acpi/><apic/><vmport state='off'/></features>
  <cpu mode='custom'><model>Westmere</model></cpu>
  <clock offset='utc'/>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <disk type='file' device='disk'>
      <driver name='qemu' type='raw' cache='writeback' discard='unmap'/><source file='/images/archive.img'/>
      <target dev='vda' bus='virtio'/><iotune><total_iops_sec>500</total_iops_sec></iotune>
      <address type='pci' domain='0x0000' bus='0x05' slot='0x00' function='0x0'/>
    </disk>
    <controller type='pci' index='0' model='pcie-root'/>
    <controller type='pci' index='1' model='pcie-root-port'>
      <model name='pcie-root-port'/><target chassis='1' port='0x10'/><address type='pci' bus='0x00' slot='0x02' function='0x0' multifunction='on'/></controller>
    <controller type='pci' index='2' model='pcie-root-port'>
      <model name='pcie-root-port'/><target chassis='2' port='0x11'/><address type='pci' bus='0x00' slot='0x02' function='0x1'/></controller>
    <controller type='pci' index='3' model='pcie-root-port'>
      <model name='pcie-root-port'/><target chassis='3' port='0x12'/><address type='pci' bus='0x00' slot='0x02' function='0x2'/></controller>
    <controller type='pci' index='4' model='pcie-root-port'>
      <model name='pcie-root-port'/><target chassis='4' port='0x13'/><address type='pci' bus='0x00' slot='0x02' function='0x3'/></controller>
    <controller type='pci' index='5' model='pcie-root-port'>
      <model name='pcie-root-port'/><target chassis='5' port='0x14'/><address type='pci' bus='0x00' slot='0x02' function='0x4'/></controller>
    <controller type='sata' index='0'><address type='pci' bus='0x00' slot='0x1f' function='0x2'/></controller>
    <controller type='usb' index='0' model='qemu-xhci'><address type='pci' bus='0x02' slot='0x00' function='0x0'/></controller>
    <interface type='network'>
      <mac address='52:54:00:11:22:33'/><source network='default'/><target dev='vnet4'/><model type='virtio'/>
      <address type='pci' domain='0x0000' bus='0x03' slot='0x00' function='0x0'/>
    </interface>
    <smartcard mode='host'/>
    <sound model='ich6'><address type='pci' bus='0x00' slot='0x04' function='0x0'/></sound>
    <graphics type='spice' autoport='yes'/>
    <video><model type='vga' vram='16384' heads='1' primary='yes'/><address type='pci' bus='0x00' slot='0x01' function='0x0'/></video>
    <memballoon model='none'/>
  </devices>
</domain>`

func makeOf(t *testing.T, text string, o Options) *Import {
	t.Helper()
	doc, err := imported.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	made, err := Make(t.Context(), &workbench.Bench{Runtime: "pod"}, doc, o)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// TestMake: the record keeps the places of the devices, and the report says of each element what becomes of it.
func TestMake(t *testing.T) {
	o := Options{Sizes: map[string]resource.Quantity{"vda": resource.MustParse("20Gi")}, StorageClass: "fast"}
	o.Namespace = "shop"
	made := makeOf(t, archive, o)
	hardware := made.Hardware.Spec.Hardware
	for key, want := range map[string]string{"disk.vda": "0000:05:00.0", "interface.net0": "0000:03:00.0", "video.video": "0000:00:01.0"} {
		if got := hardware.Devices[key].PCI; got != want {
			t.Errorf("the record has %s at '%s', and the domain at %s", key, got, want)
		}
	}
	if hardware.UUID != "c64a0d5e-5d0c-4a39-9f4e-8b0f5d3a1b22" || hardware.MACs["net0"] != "52:54:00:11:22:33" || hardware.Machine != "pc-q35-7.2" {
		t.Errorf("the record has %+v", hardware)
	}
	if made.Hardware.Namespace != "shop" || made.VM.GetNamespace() != "shop" || len(made.Claims) != 1 || *made.Claims[0].Spec.StorageClassName != "fast" {
		t.Errorf("objects %+v %+v %+v", made.Hardware.ObjectMeta, made.VM.Object["metadata"], made.Claims)
	}
	outcomes := map[string]string{}
	for _, e := range made.Report.Elements {
		outcomes[e.Path] = fmt.Sprint(e.Outcome, ", ", e.Verdict)
	}
	for path, want := range map[string]string{
		"name": "mapped, compatible", "uuid": "kept, compatible", "memory": "kept, compatible", "vcpu": "kept, compatible", "clock": "kept, compatible",
		"cputune": "left to the cluster, compatible", "title": "left to the cluster, compatible",
		"devices/disk[0]": "mapped, compatible", "devices/interface[0]": "mapped, compatible", // its boot ROM stays on
		"devices/controller[7]": "kept by the record, compatible", // although no device is on USB
		"devices/smartcard[0]":  "left out, needs restart", "devices/sound[0]": "left out, needs restart",
		"devices/video[0]": "kept by the record, compatible", "devices/graphics[0]": "left to the cluster, compatible",
	} {
		if outcomes[path] != want {
			t.Errorf("%s is '%s', want '%s'", path, outcomes[path], want)
		}
	}
	disk := elementOf(t, made.Report, "devices/disk[0]")
	if diff := gocmp.Diff([]string{"iotune total_iops_sec='500'"}, disk.Host); diff != "" {
		t.Errorf("what the disk loses of the host (-want +got):\n%s", diff)
	}
	if made.Report.Verdict != record.NeedsRestart {
		t.Errorf("the verdict is '%s'", made.Report.Verdict)
	}
	want := []string{"fill the claim: virtctl image-upload pvc archive-vda -n shop --no-create --image-path='/images/archive.img'",
		"start the VM: virtctl start archive -n shop"}
	if diff := gocmp.Diff(want, stepTexts(made.Report)[1:]); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

// TestOmittedNote: where Kiln runs the guest, it gets no device that its machine lacks, and a note names these devices. KubeVirt gives them to each guest.
func TestOmittedNote(t *testing.T) {
	doc, err := imported.Parse([]byte(archive))
	if err != nil {
		t.Fatal(err)
	}
	for runtime, omitted := range map[string]bool{"pod": true, "kubevirt": false} {
		made, err := Make(t.Context(), &workbench.Bench{Runtime: runtime}, doc, Options{})
		if err != nil {
			t.Fatal(err)
		}
		added := slices.ContainsFunc(made.Report.Elements, func(e Element) bool { return e.Path == "channel.guest-agent" && e.Outcome == Added })
		const note = "the domain lacks: channel.guest-agent, controller.scsi.0, controller.virtio-serial.0, smbios."
		noted := strings.Contains(strings.Join(made.Report.Notes, "\n"), note)
		if added == omitted || noted != omitted || (len(made.Hardware.Spec.Hardware.OmittedDefaults) > 0) != omitted {
			t.Errorf("%s: added %t, noted %t: %q, %q", runtime, added, noted, made.Report.Notes, made.Hardware.Spec.Hardware.OmittedDefaults)
		}
	}
}

// stepTexts returns the steps as one line each.
func stepTexts(report Report) (texts []string) {
	for _, step := range report.Steps {
		texts = append(texts, step.String())
	}
	return texts
}

func elementOf(t *testing.T, report Report, path string) Element {
	t.Helper()
	for _, e := range report.Elements {
		if e.Path == path {
			return e
		}
	}
	t.Fatalf("the report does not name %s", path)
	return Element{}
}

// TestOtherBoard: a domain of i440fx keeps its identifiers, and the report says that everything else is detected anew.
func TestOtherBoard(t *testing.T) {
	made := makeOf(t, strings.ReplaceAll(archive, "pc-q35-7.2", "pc-i440fx-7.2"), Options{})
	hardware := made.Hardware.Spec.Hardware
	if hardware.UUID == "" || hardware.MACs["net0"] != "52:54:00:11:22:33" || strings.Contains(hardware.Machine, "i440fx") {
		t.Errorf("the record has %+v", hardware)
	}
	machine := elementOf(t, made.Report, "os")
	if made.Report.Verdict != record.Breaks || machine.Verdict != record.Breaks || !strings.Contains(strings.Join(machine.Details, " "), "on another bus") {
		t.Errorf("verdict '%s', machine %+v", made.Report.Verdict, machine)
	}
}

// TestWithoutAddresses: a domain that libvirt has not defined has no addresses, and the report does not say that devices move.
func TestWithoutAddresses(t *testing.T) {
	text := regexp.MustCompile(`<address [^>]*>`).ReplaceAllString(archive, "")
	made := makeOf(t, text, Options{})
	for _, e := range made.Report.Elements {
		if strings.Contains(strings.Join(e.Details, " "), "moves from") {
			t.Errorf("%s has no address, and moves: %s", e.Path, e.Details)
		}
	}
	if len(made.Report.Notes) != 2 || !strings.Contains(made.Report.Notes[0], "no addresses") {
		t.Errorf("notes: %q", made.Report.Notes)
	}
}

// TestRefusedFieldsAreLeftOut: what admission refuses is left out, with its reason. What a guest needs to keep its data stays in the VM.
func TestRefusedFieldsAreLeftOut(t *testing.T) {
	text := strings.Replace(archive, "<memballoon model='none'/>",
		"<memballoon model='none'/><tpm model='tpm-crb'><backend type='emulator' version='2.0'/></tpm><vsock model='virtio'><cid auto='yes'/></vsock>", 1)
	made := makeOf(t, text, Options{})
	devices, err := devicesOf(made)
	if err != nil {
		t.Fatal(err)
	}
	tpm, _ := devices["tpm"].(map[string]any)
	if tpm["persistent"] != true || devices["autoattachVSOCK"] != nil {
		t.Errorf("devices %v", devices)
	}
	notes := strings.Join(made.Report.Notes, "\n")
	for _, want := range []string{"the VM has spec.template.spec.domain.devices.tpm.persistent, which this cluster does not allow yet",
		"the VM does not have spec.template.spec.domain.devices.autoattachVSOCK: Forbidden: needs feature gate 'VSOCK'"} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes do not say '%s':\n%s", want, notes)
		}
	}
}

// devicesOf returns the devices of the VM.
func devicesOf(made *Import) (map[string]any, error) {
	at := any(made.VM.Object)
	for _, name := range []string{"spec", "template", "spec", "domain", "devices"} {
		object, is := at.(map[string]any)
		if !is {
			return nil, fmt.Errorf("the VM has no %s", name)
		}
		at = object[name]
	}
	return at.(map[string]any), nil
}

// TestDefaultsAreNoChange: what libvirt adds to a domain that it defines, such as the CPU and the boot device, is no difference.
func TestDefaultsAreNoChange(t *testing.T) {
	text := strings.NewReplacer("<boot dev='hd'/>", "", "<cpu mode='custom'><model>Westmere</model></cpu>", "").Replace(archive)
	for _, e := range makeOf(t, text, Options{}).Report.Elements {
		if e.Path == "os" && e.Outcome != Kept || e.Path == "cpu" || e.Path == "topology" || e.Path == "boot" {
			t.Errorf("the report calls %s '%s': %s", e.Path, e.Outcome, e.Details)
		}
	}
}

// TestSecureBootWithoutKeys: if the EFI variables of a machine have no keys, its firmware does not enforce Secure Boot. The firmware of the VM enforces Secure
// Boot, and the report names this change.
func TestSecureBootWithoutKeys(t *testing.T) {
	t.Parallel()
	const board = "<os><type arch='x86_64' machine='pc-q35-7.2'>hvm</type><boot dev='hd'/></os>"
	for os, enforced := range map[string]bool{
		"<loader secure='yes' type='pflash'>/f/OVMF_CODE_4M.secboot.fd</loader><nvram template='/f/OVMF_VARS_4M.ms.fd'>/v</nvram>":            true,
		"<loader secure='yes' type='pflash'>/f/OVMF_CODE.secboot.fd</loader><nvram template='/f/OVMF_VARS.secboot.fd'>/v</nvram>":             true,
		"<loader secure='yes' type='pflash'>/f/OVMF_CODE_4M.secboot.fd</loader><nvram template='/f/OVMF_VARS_4M.fd'>/v</nvram>":               false,
		"<loader secure='yes' type='pflash'>/f/OVMF_CODE_4M.secboot.fd</loader><nvram>/v</nvram>":                                             false,
		"<firmware><feature enabled='yes' name='secure-boot'/><feature enabled='yes' name='enrolled-keys'/></firmware><loader secure='yes'/>": true,
		"<firmware><feature enabled='yes' name='secure-boot'/><feature enabled='no' name='enrolled-keys'/></firmware><loader secure='yes'/>":  false,
		"<loader secure='yes' type='pflash'>/f/OVMF_CODE_4M.ms.fd</loader><nvram>/v</nvram>":                                                  true,
		"<loader secure='yes' type='pflash'>/f/ovmf-smm-suse-code.bin</loader><nvram template='/f/ovmf-x86_64-smm-suse-vars.bin'>/v</nvram>":  true,
		"<loader secure='yes'/>": true,
		"<firmware><feature enabled='no' name='secure-boot'/></firmware>": true,
	} {
		kind := "<os firmware='efi'>"
		if strings.Contains(os, "pflash") {
			kind = "<os>"
		}
		made := makeOf(t, strings.NewReplacer(board, kind+"<type arch='x86_64' machine='pc-q35-7.2'>hvm</type>"+os+"<boot dev='hd'/></os>",
			"<apic/>", "<apic/><smm state='on'/>").Replace(archive), Options{})
		element := elementOf(t, made.Report, "os")
		noticed := strings.Contains(strings.Join(element.Details, " "), "only a signed boot loader")
		if noticed == enforced || noticed && (element.Outcome != Changed || element.Verdict != record.Breaks || made.Report.Verdict != record.Breaks) {
			t.Errorf("%s: %+v", os, element)
		}
	}
}

// TestSecretsAreHidden: no value of a domain that may be a secret is in the report.
func TestSecretsAreHidden(t *testing.T) {
	text := strings.NewReplacer("<graphics type='spice' autoport='yes'/>", "<graphics type='vnc' port='-1' passwd='s3cret'/>",
		"<features>", "<sysinfo type='smbios'><system><entry name='product'>Box</entry></system><oemStrings><entry>s3cret</entry></oemStrings></sysinfo>"+
			"<sysinfo type='fwcfg'><entry name='opt/com.example/token'>s3cret</entry></sysinfo><features>").Replace(archive)
	made := makeOf(t, text, Options{})
	answer, err := made.Answer()
	if err != nil {
		t.Fatal(err)
	}
	written, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(written), "s3cret") || !strings.Contains(string(written), "passwd='(hidden)'") {
		t.Errorf("the answer:\n%s", written)
	}
}

// TestFacts: the report describes the machine without words of its XML.
func TestFacts(t *testing.T) {
	want := []Fact{{"name", "archive"}, {"title", "Files"}, {"UUID", "c64a0d5e-5d0c-4a39-9f4e-8b0f5d3a1b22"}, {"machine", "pc-q35-7.2, x86_64"},
		{"firmware", "BIOS"}, {"CPUs", "2, Westmere"}, {"memory", "2Gi"}, {"disk vda", "virtio, /images/archive.img, raw"},
		{"network card", "virtio, 52:54:00:11:22:33, network default"}, {"video adapter", "vga"}}
	if diff := gocmp.Diff(want, makeOf(t, archive, Options{}).Report.Machine); diff != "" {
		t.Errorf("the machine (-want +got):\n%s", diff)
	}
}

// TestSecretsOfDisks: the steps name the secrets without which nobody can read an image, and how images that are no files are copied.
func TestSecretsOfDisks(t *testing.T) {
	const more = `<disk type='file' device='disk'><source file='/images/luks.img'><encryption format='luks'>
<secret type='passphrase' uuid='8f1c2d3e-0a4b-4c5d-8e6f-7a8b9c0d1e2f'/></encryption></source><target dev='vdb' bus='virtio'/></disk>
<disk type='network' device='disk'><source protocol='rbd' name='pool/web'><host name='ceph.example'/><auth username='kiln'>
<secret type='ceph' usage='ceph web'/></auth></source><target dev='vdc' bus='virtio'/></disk>
<disk type='file' device='disk'><target dev='vdd' bus='virtio'/></disk>`
	made := makeOf(t, strings.Replace(archive, "<smartcard", more+"<smartcard", 1), Options{})
	got := strings.Join(stepTexts(made.Report), "\n")
	for _, want := range []string{
		"the image of disk 'vdb' is encrypted with libvirt's secret '8f1c2d3e-0a4b-4c5d-8e6f-7a8b9c0d1e2f'",
		"the host reads disk 'vdc' with libvirt's secret 'ceph web'",
		"a copy of 'rbd://ceph.example/pool/web' in a file, which 'qemu-img convert' makes: virtctl image-upload pvc archive-vdc --size=SIZE --image-path=FILE",
		"make claim 'archive-vdd': the drive has no image",
	} {
		if strings.Count(got, want) != 1 {
			t.Errorf("the steps do not say '%s':\n%s", want, got)
		}
	}
}

// TestWithoutDevices: a domain need not have devices.
func TestWithoutDevices(t *testing.T) {
	made := makeOf(t, "<domain type='kvm'><name>bare</name><memory>1048576</memory><os><type arch='x86_64' machine='q35'>hvm</type></os></domain>", Options{})
	if len(made.Report.Elements) < 3 || len(made.Report.Machine) < 4 {
		t.Errorf("the report has %+v", made.Report)
	}
}

// TestRemoveField: the field of an error is removed, or the element of a list without which the rest has no meaning, and never a whole section.
func TestRemoveField(t *testing.T) {
	const domain = "spec.template.spec.domain"
	for _, test := range []struct {
		path, want string
		removed    bool
	}{
		{domain + ".cpu.model", "map[cpu:map[] devices:map[disks:[map[name:a serial:s] map[name:b]]]]", true},
		{domain + ".devices.disks[0].serial", "map[cpu:map[model:m] devices:map[disks:[map[name:a] map[name:b]]]]", true},
		{domain + ".devices.disks[1].name", "map[cpu:map[model:m] devices:map[disks:[map[name:a serial:s]]]]", true},
		{domain + ".devices.disks[0]", "map[cpu:map[model:m] devices:map[disks:[map[name:b]]]]", true},
		{domain + ".devices.disks[7].name", "", false},
		{domain + ".devices", "", false},
		{domain, "", false},
		{"metadata.name", "", false},
		{"", "", false},
	} {
		spec := map[string]any{"cpu": map[string]any{"model": "m"},
			"devices": map[string]any{"disks": []any{map[string]any{"name": "a", "serial": "s"}, map[string]any{"name": "b"}}}}
		object := map[string]any{"metadata": map[string]any{"name": "n"}, "spec": map[string]any{"template": map[string]any{"spec": map[string]any{"domain": spec}}}}
		before := fmt.Sprint(spec)
		removed := false
		if path := targetOf(object, test.path); len(path) > 0 {
			removeAt(object, path)
			removed = true
		}
		r := &repairer{object: &unstructured.Unstructured{}, judged: &unstructured.Unstructured{}}
		if removed != test.removed || fmt.Sprint(spec) != cmp.Or(test.want, before) {
			t.Errorf("%s: removed %t, the rest is %v, want %s", test.path, removed, spec, test.want)
		}
		if r.repair(nil) {
			t.Error("no error is a repair")
		}
	}
	if r := (&repairer{object: &unstructured.Unstructured{}, judged: &unstructured.Unstructured{}}); r.repair(field.ErrorList{field.Required(nil, "")}) {
		t.Error("an error without a field is a repair")
	}
}

// migrated is a VM as a migration tool makes it of the domain 'archive': it has other names, and its second card is before the one of the domain.
const migrated = `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: archive, namespace: shop}
spec:
  runStrategy: Halted
  template:
    spec:
      architecture: amd64
      domain:
        cpu: {sockets: 2, model: Westmere}
        memory: {guest: 2Gi}
        firmware: {uuid: c64a0d5e-5d0c-4a39-9f4e-8b0f5d3a1b22}
        devices:
          disks: [{name: migrated-0, disk: {bus: virtio}}]
          interfaces:
          - {name: second, masquerade: {}, macAddress: "52:54:00:99:99:99"}
          - {name: first, bridge: {}, macAddress: "52:54:00:11:22:33"}
      networks: [{name: second, pod: {}}, {name: first, multus: {networkName: dmz}}]
      volumes: [{name: migrated-0, persistentVolumeClaim: {claimName: archive}}]
`

// TestMakeRecord: the record of a VM that another program made has the addresses of the domain under the names of the VM. Network cards are found by their
// MAC. Beside KubeVirt it has only what KubeVirt's guests keep.
func TestMakeRecord(t *testing.T) {
	doc, err := imported.Parse([]byte(archive))
	if err != nil {
		t.Fatal(err)
	}
	var vm unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(migrated), &vm.Object); err != nil {
		t.Fatal(err)
	}
	for _, runtime := range []string{"pod", "kubevirt"} {
		bench := &workbench.Bench{Runtime: runtime}
		reviewed, err := reviewVM(t.Context(), bench, vm.DeepCopy(), nil)
		if err != nil {
			t.Fatal(err)
		}
		made, err := MakeRecord(t.Context(), bench, doc, reviewed)
		if err != nil {
			t.Fatal(err)
		}
		hardware := made.Hardware.Spec.Hardware
		got := []string{hardware.Machine, hardware.Devices["disk.migrated-0"].PCI, hardware.Devices["interface.first"].PCI}
		if diff := gocmp.Diff([]string{"pc-q35-7.2", "0000:05:00.0", "0000:03:00.0"}, got); diff != "" {
			t.Errorf("%s: the record has %+v (-want +got):\n%s", runtime, hardware.Devices, diff)
		}
		if own := hardware.UUID != ""; own != (runtime == "pod") || made.VM != nil || made.Hardware.Namespace != "shop" || made.Hardware.Name != "archive" {
			t.Errorf("%s: VM %v, record %s/%s with UUID '%s'", runtime, made.VM, made.Hardware.Namespace, made.Hardware.Name, hardware.UUID)
		}
		if runtime == "kubevirt" {
			checkPutBack(t, reviewed, hardware)
		}
		if notes := strings.Join(made.Report.Notes, ""); strings.Contains(notes, "KubeVirt renders") != (runtime == "kubevirt") {
			t.Errorf("%s: notes %s", runtime, notes)
		}
	}
	other, err := imported.Parse([]byte(strings.ReplaceAll(archive, "pc-q35-7.2", "pc-i440fx-7.2")))
	if err != nil {
		t.Fatal(err)
	}
	bench := &workbench.Bench{Runtime: "kubevirt"}
	reviewed, err := reviewVM(t.Context(), bench, &vm, nil)
	if err != nil {
		t.Fatal(err)
	}
	if made, err := MakeRecord(t.Context(), bench, other, reviewed); err != nil || made.Hardware != nil {
		t.Errorf("KubeVirt's guest of another board has the record %+v, %v", made, err)
	}
}

// checkPutBack checks that the hook in virt-launcher moves the devices of KubeVirt's domain to the places of the imported domain.
func checkPutBack(t *testing.T, r workbench.Reviewed, hardware *record.Record) {
	t.Helper()
	const ofKubeVirt = `<domain type="kvm"><name>shop_archive</name><os><type arch="x86_64" machine="q35">hvm</type></os><devices>
<interface type="ethernet"><model type="virtio-non-transitional"></model><alias name="ua-second"></alias></interface>
<interface type="ethernet"><model type="virtio-non-transitional"></model><alias name="ua-first"></alias></interface>
<disk type="file" device="disk" model="virtio-non-transitional"><target bus="virtio" dev="vda"></target><alias name="ua-migrated-0"></alias></disk>
</devices></domain>`
	out, err := kubevirt.PutBack([]byte(ofKubeVirt), r.Guest.Explicit, hardware)
	if err != nil {
		t.Fatal(err)
	}
	var dom libvirtxml.Domain
	if err := dom.Unmarshal(string(out)); err != nil {
		t.Fatal(err)
	}
	places := map[string]string{}
	for _, device := range abi.Devices(&dom) {
		places[device.Key()] = abi.FromLibvirt(*device.Address).PCI
	}
	for key, want := range map[string]string{"disk.migrated-0": "0000:05:00.0", "interface.first": "0000:03:00.0"} {
		if places[key] != want {
			t.Errorf("KubeVirt's guest has %s at '%s', and the domain had it at %s:\n%s", key, places[key], want, out)
		}
	}
	if dom.OS.Type.Machine != "pc-q35-7.2" {
		t.Errorf("KubeVirt's guest has the machine '%s'", dom.OS.Type.Machine)
	}
}
