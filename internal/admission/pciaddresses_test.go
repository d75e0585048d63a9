package admission

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/kubevirt/virtcontroller"
	"github.com/kilnvm/kiln/pkg/config"
	admissionv1 "k8s.io/api/admission/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// captured is a record of a disk and an interface behind two root ports.
const captured = `{"defaults":"1","digest":"","machine":"pc-q35-7.2","devices":{"controller.pci.1":{"pci":"0000:00:02.0"},` +
	`"controller.pci.2":{"pci":"0000:00:02.1"},"interface.default":{"pci":"0000:01:00.0"},"disk.root":{"pci":"0000:02:00.0"}}}`

// disked are edits of theirs that give the VMI a disk and an interface. The preference, and not KubeVirt, gives the disk its bus.
var disked = []string{"devices: {}", "machine: {type: q35}, devices: {disks: [{name: root, disk: {}}], interfaces: [{name: default, masquerade: {}}]}",
	"spec:\n", "spec:\n  networks: [{name: default, pod: {}}]\n  volumes: [{name: root, containerDisk: {image: i}}]\n"}

// TestAddressesWithoutHook: which VMIs that KubeVirt makes have recorded addresses where the hook is not available.
func TestAddressesWithoutHook(t *testing.T) {
	for _, test := range []struct {
		why, hardware, template string
		edit                    func(*owned)
		image, gate             bool
		disk, nic               string
		warnings                int
	}{
		{why: "neither image nor gate", hardware: hardwareOf("seed", captured), disk: "0000:02:00.0", nic: "0000:01:00.0"},
		{why: "the gate alone", hardware: hardwareOf("seed", captured), gate: true, disk: "0000:02:00.0", nic: "0000:01:00.0"},
		{why: "the image alone", hardware: hardwareOf("seed", captured), image: true, disk: "0000:02:00.0", nic: "0000:01:00.0"},
		{why: "the hook", hardware: hardwareOf("seed", captured), image: true, gate: true},
		{why: "a forged list of interfaces", template: "kilnvm.io/interface-addresses: default"},
		{why: "a record, and a forged list", hardware: hardwareOf("seed", captured), template: "kilnvm.io/interface-addresses: other", disk: "0000:02:00.0",
			nic: "0000:01:00.0"},
		{why: "new hardware", hardware: hardwareOf("seed", captured), edit: annotated(v1alpha1.AnnotationHardware, "latest")},
		{why: "no record"},
		{why: "the first record", edit: annotated(v1alpha1.AnnotationFrontend, "{}")},
		{why: "a forged record", template: "kilnvm.io/frontend: '" + captured + "'", edit: annotated(v1alpha1.AnnotationFrontend, captured)},
		{why: "a record, and a forged one", template: "kilnvm.io/frontend: '{}'", hardware: hardwareOf("seed", captured), disk: "0000:02:00.0",
			nic: "0000:01:00.0"},
		{why: "the record of another guest", hardware: hardwareOf("other", captured)},
		{why: "a record that no boot has written", hardware: hardwareOf("seed", strings.Replace(captured, "pc-q35-7.2", "x y", 1)), warnings: 1},
	} {
		t.Run(test.why, func(t *testing.T) {
			c := withHardware(t, test.hardware, test.edit, config.Gates{"Sidecar": test.gate})
			if test.image {
				c.Reviewer.KubeVirt = virtcontroller.Completer{Hook: virtcontroller.Hook{Image: "registry.example.org/launcher:v1"}}
			}
			request := theirs(t, test.template, disked...)
			response := ask(t, c.Hooks()[MutateVMI], request)
			if !response.Allowed || len(response.Warnings) != test.warnings {
				t.Fatalf("%+v, warns %q", response.Result, response.Warnings)
			}
			text := patched(t, request, response)
			vmi := &v1.VirtualMachineInstance{}
			if err := json.Unmarshal([]byte(text), vmi); err != nil {
				t.Fatal(err)
			}
			devices := vmi.Spec.Domain.Devices
			if disk, nic := devices.Disks[0].Disk.PciAddress, devices.Interfaces[0].PciAddress; disk != test.disk || nic != test.nic {
				t.Errorf("the disk is at '%s', want '%s'; the interface at '%s', want '%s'", disk, test.disk, nic, test.nic)
			}
			list := ""
			if test.nic != "" {
				list = "default"
			}
			if is := vmi.Annotations[v1alpha1.AnnotationInterfaceAddresses]; is != list {
				t.Errorf("the list of interfaces is '%s', want '%s'", is, list)
			}
			again := create(t, text)
			again.UserInfo = request.UserInfo
			if response := ask(t, c.Hooks()[MutateVMI], again); !response.Allowed || response.Patch != nil {
				t.Errorf("the second call changes what the first has made: %s, %+v", response.Patch, response.Result)
			}
			if response := ask(t, c.Hooks()[ValidateVMI], again); !response.Allowed {
				t.Errorf("refused: %+v", response.Result)
			}
		})
	}
}

// TestAddressesOfARunningGuest: what the webhook changes in the VMI of a guest with recorded addresses when virt-handler reports that it runs.
func TestAddressesOfARunningGuest(t *testing.T) {
	c := withHardware(t, hardwareOf("seed", captured), nil, nil)
	request := theirs(t, "", disked...)
	stored := patched(t, request, ask(t, c.Hooks()[MutateVMI], request))
	for user, gone := range map[string]bool{"system:serviceaccount:kubevirt:kubevirt-handler": true, "eve": false} {
		update := create(t, strings.Replace(stored, `"spec":`, `"status":{"phase":"Running","unknown":"kept"},"spec":`, 1))
		update.Operation, update.UserInfo.Username = admissionv1.Update, user
		update.OldObject.Raw = []byte(stored)
		response := ask(t, c.Hooks()[MutateVMI], update)
		if !response.Allowed || (response.Patch != nil) != gone {
			t.Fatalf("%s: %+v, %s", user, response.Result, response.Patch)
		}
		if !gone {
			continue
		}
		text := patched(t, update, response)
		vmi := &v1.VirtualMachineInstance{}
		if err := json.Unmarshal([]byte(text), vmi); err != nil {
			t.Fatal(err)
		}
		devices := vmi.Spec.Domain.Devices
		_, named := vmi.Annotations[v1alpha1.AnnotationInterfaceAddresses]
		if devices.Interfaces[0].PciAddress != "" || named || devices.Disks[0].Disk.PciAddress == "" || !strings.Contains(text, `"unknown":"kept"`) {
			t.Errorf("virt-handler stores %s", text)
		}
	}
}

// annotated gives the VM an annotation.
func annotated(key, value string) func(*owned) {
	return func(o *owned) { o.vm.Annotations[key] = value }
}

// noHardware is a reader that cannot read GuestHardwares.
type noHardware struct{ client.Reader }

func (r noHardware) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if _, hardware := object.(*v1alpha1.GuestHardware); hardware {
		return errors.New("timeout")
	}
	return r.Reader.Get(ctx, key, object, options...)
}

// TestUnreadableRecord: a guest does not start at other addresses because its record could not be read. KubeVirt tries again. Guests that ask for new hardware
// have no record to be read.
func TestUnreadableRecord(t *testing.T) {
	for hardware, allowed := range map[string]bool{"": false, "latest": true} {
		o := newOwned(t)
		o.vm.Annotations[v1alpha1.AnnotationHardware] = hardware
		c := o.cluster(t)
		c.Reviewer.Resolver.Live = noHardware{c.Reviewer.Resolver.Cached}
		response := ask(t, c.Hooks()[MutateVMI], theirs(t, "", disked...))
		if response.Allowed != allowed || !allowed && response.Result.Code != http.StatusServiceUnavailable {
			t.Errorf("hardware '%s': %+v", hardware, response.Result)
		}
	}
}
