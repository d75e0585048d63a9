package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/test/samples"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// devices of the inputs: disks and network interfaces.
var devices = map[string]struct{ disks, nics int }{"mid": {2, 2}, "large": {30, 8}}

// input is a benchmark input: 'vmi-SIZE.json', a review of it, 'review-vmi-SIZE.json', one of a VM with an instancetype and a preference,
// 'review-vm-it-SIZE.json', and these two. It is the published one where that is, for which the reference's figures are known, and
// one of our own of as many devices elsewhere. The figures of one are no measure of the other's; the multiples of its limit are.
func input(b *testing.B, name string) []byte {
	b.Helper()
	if shared := samples.Shared(b); shared != "" {
		raw, err := os.ReadFile(filepath.Join(shared, "bench", name))
		if err != nil {
			b.Fatal(err)
		}
		return raw
	}
	base := strings.TrimSuffix(name, ".json")
	size := base[strings.LastIndexByte(base, '-')+1:]
	switch strings.TrimSuffix(base, "-"+size) {
	case "vmi":
		return encode(b, guest(b, size))
	case "review-vmi":
		return reviewOf(b, guest(b, size))
	case "review-vm-it":
		return reviewOf(b, introduced(b, size))
	}
	text := map[string]string{"instancetype": instancetypeOfOurs, "preference": preferenceOfOurs}[base]
	raw, err := yaml.YAMLToJSON([]byte(text))
	if text == "" || err != nil {
		b.Fatalf("there is no input '%s': %v", name, err)
	}
	return raw
}

const (
	instancetypeOfOurs = `
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterInstancetype
metadata: {name: bench}
spec: {cpu: {guest: 4, model: host-model}, ioThreadsPolicy: auto, memory: {guest: 8Gi}}`
	preferenceOfOurs = `
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterPreference
metadata: {name: bench}
spec:
  clock: {preferredClockOffset: {utc: {}}, preferredTimer: {hpet: {present: false}, pit: {tickPolicy: delay}, rtc: {tickPolicy: catchup}}}
  devices: {preferredDiskBus: virtio, preferredInterfaceModel: virtio, preferredRng: {}}
  features: {preferredSmm: {}}
  firmware: {preferredEfi: {secureBoot: true}}
  requirements: {cpu: {guest: 1}, memory: {guest: 1Gi}}`
	guestOfOurs = `
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata: {name: bench, namespace: default, labels: {app: bench, tier: front}, annotations: {samples.example/owner: bench}}
spec:
  architecture: amd64
  domain:
    clock: {utc: {}, timer: {hpet: {present: false}, pit: {tickPolicy: delay}, rtc: {tickPolicy: catchup}}}
    cpu: {cores: 4, sockets: 1, threads: 1, model: host-model}
    devices: {rng: {}, networkInterfaceMultiqueue: true}
    features: {acpi: {}, apic: {}, smm: {enabled: true}}
    firmware: {bootloader: {efi: {secureBoot: true}}}
    machine: {type: q35}
    memory: {guest: 4Gi}
    resources: {requests: {memory: 4Gi}, limits: {memory: 6Gi}}
  evictionStrategy: LiveMigrate
  hostname: bench
  readinessProbe: {tcpSocket: {port: 22}, initialDelaySeconds: 30}
  terminationGracePeriodSeconds: 180`
)

// guest has as many devices as its size says: a disk with cloud-init, and claims; a network interface of the pod, and others.
func guest(b *testing.B, size string) *v1.VirtualMachineInstance {
	b.Helper()
	vmi, n := &v1.VirtualMachineInstance{}, devices[size]
	if err := yaml.UnmarshalStrict([]byte(guestOfOurs), vmi); err != nil || n.disks == 0 {
		b.Fatalf("no guest of size '%s': %v", size, err)
	}
	spec := &vmi.Spec
	for i := range n.disks {
		name := fmt.Sprintf("disk-%d", i)
		volume := v1.VolumeSource{CloudInitNoCloud: &v1.CloudInitNoCloudSource{UserData: "#cloud-config\nhostname: bench\n"}}
		if i > 0 {
			volume = v1.VolumeSource{DataVolume: &v1.DataVolumeSource{Name: name}}
		}
		disk := v1.Disk{Name: name, Cache: v1.CacheNone, DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: v1.DiskBusVirtio}}}
		spec.Domain.Devices.Disks = append(spec.Domain.Devices.Disks, disk)
		spec.Volumes = append(spec.Volumes, v1.Volume{Name: name, VolumeSource: volume})
	}
	spec.Domain.Devices.Interfaces, spec.Networks = []v1.Interface{*v1.DefaultMasqueradeNetworkInterface()}, []v1.Network{*v1.DefaultPodNetwork()}
	for i := 1; i < n.nics; i++ {
		name := fmt.Sprintf("net-%d", i)
		nic := v1.Interface{Name: name, MacAddress: fmt.Sprintf("02:00:00:00:00:%02x", i)}
		nic.Bridge = &v1.InterfaceBridge{}
		spec.Domain.Devices.Interfaces = append(spec.Domain.Devices.Interfaces, nic)
		spec.Networks = append(spec.Networks, v1.Network{Name: name, NetworkSource: v1.NetworkSource{Multus: &v1.MultusNetwork{NetworkName: name}}})
	}
	return vmi
}

// introduced is a VM that leaves to its instancetype and its preference what the VMI of that size says by itself.
func introduced(b *testing.B, size string) *v1.VirtualMachine {
	b.Helper()
	of, strategy := guest(b, size), v1.RunStrategyHalted
	of.Spec.Domain = v1.DomainSpec{Devices: of.Spec.Domain.Devices}
	vm := &v1.VirtualMachine{TypeMeta: metav1.TypeMeta{APIVersion: of.APIVersion, Kind: "VirtualMachine"}, ObjectMeta: of.ObjectMeta}
	vm.Spec = v1.VirtualMachineSpec{
		RunStrategy:  &strategy,
		Instancetype: &v1.InstancetypeMatcher{Name: "bench"}, Preference: &v1.PreferenceMatcher{Name: "bench"},
		Template: &v1.VirtualMachineInstanceTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: of.Labels}, Spec: of.Spec},
	}
	return vm
}

// reviewOf is what an API server sends on create.
func reviewOf(b *testing.B, object metav1.Object) []byte {
	b.Helper()
	raw := encode(b, object)
	var kind metav1.TypeMeta
	if err := json.Unmarshal(raw, &kind); err != nil {
		b.Fatal(err)
	}
	resource := strings.ToLower(kind.Kind) + "s"
	dry := true
	return encode(b, admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "7c0b3f8e-0000-4000-8000-000000000001", Name: object.GetName(), Namespace: object.GetNamespace(),
			Kind:      metav1.GroupVersionKind{Group: "kubevirt.io", Version: "v1", Kind: kind.Kind},
			Resource:  metav1.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: resource},
			Operation: admissionv1.Create, DryRun: &dry, Object: runtime.RawExtension{Raw: raw},
		},
	})
}

func encode(b *testing.B, value any) []byte {
	b.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		b.Fatal(err)
	}
	return raw
}
