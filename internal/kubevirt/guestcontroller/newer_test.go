package guestcontroller

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/test/slimmed"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// unknownField is a field that no version of KubeVirt has.
const unknownField = "fieldOfANewerAPI"

// addNewer adds the field to each object below a value, also to elements of lists. It returns how many there are.
func addNewer(value any) (added int) {
	switch value := value.(type) {
	case map[string]any:
		for key := range value {
			added += addNewer(value[key])
		}
		value[unknownField] = map[string]any{"deep": []any{"1"}}
		return added + 1
	case []any:
		for i := range value {
			added += addNewer(value[i])
		}
	}
	return added
}

// countNewer returns in how many objects the field is.
func countNewer(value any) (found int) {
	switch value := value.(type) {
	case map[string]any:
		for key, below := range value {
			if key == unknownField {
				found++
				continue
			}
			found += countNewer(below)
		}
	case []any:
		for i := range value {
			found += countNewer(value[i])
		}
	}
	return found
}

// TestWritesKeepFieldsOfANewerAPI: what Kiln writes into a VM of KubeVirt leaves each field that this version does not know: in spec, template, status, and
// elements of lists. The API server applies the patches to what it has stored, so this test does, too.
func TestWritesKeepFieldsOfANewerAPI(t *testing.T) {
	vm := newVM(v1.RunStrategyAlways)
	vm.Spec.Instancetype = &v1.InstancetypeMatcher{Name: "small"}
	vm.Spec.Template.Spec.Domain.Devices.Disks = []v1.Disk{{Name: "root", DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: "virtio"}}}}
	vm.Spec.Template.Spec.Volumes = []v1.Volume{{Name: "root", VolumeSource: v1.VolumeSource{EmptyDisk: &v1.EmptyDiskSource{}}}}
	vm.Status = v1.VirtualMachineStatus{PrintableStatus: v1.VirtualMachineStatusRunning,
		InstancetypeRef:     &v1.InstancetypeStatusRef{Name: "other", ControllerRevisionRef: &v1.ControllerRevisionRef{Name: "other"}},
		StateChangeRequests: []v1.VirtualMachineStateChangeRequest{{Action: v1.StartRequest}},
		Conditions:          []v1.VirtualMachineCondition{{Type: v1.VirtualMachineReady, Status: corev1.ConditionTrue}}}
	c := newCluster(t, vm, smallInstancetype())

	raw, err := json.Marshal(vm)
	if err != nil {
		t.Fatal(err)
	}
	var stored map[string]any
	if err := json.Unmarshal(raw, &stored); err != nil {
		t.Fatal(err)
	}
	added := addNewer(stored["spec"]) + addNewer(stored["status"])
	if raw, err = json.Marshal(stored); err != nil {
		t.Fatal(err)
	}
	writes := map[string]int{}
	apply := func(to client.Object, patch client.Patch, where string) error {
		if _, is := to.(*v1.VirtualMachine); !is {
			return nil
		}
		if patch.Type() != types.MergePatchType {
			return fmt.Errorf("a patch of type %s: this test does not apply it", patch.Type())
		}
		data, err := patch.Data(to)
		if err == nil {
			writes[where]++
			raw, err = jsonpatch.MergePatch(raw, data)
		}
		return err
	}
	api := interceptor.NewClient(c.Client.(client.WithWatch), interceptor.Funcs{
		Patch: func(ctx context.Context, to client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if err := apply(object, patch, "object"); err != nil {
				return err
			}
			return to.Patch(ctx, object, patch, options...)
		},
		SubResourcePatch: func(ctx context.Context, to client.Client, name string, object client.Object, patch client.Patch,
			options ...client.SubResourcePatchOption) error {
			if err := apply(object, patch, name); err != nil {
				return err
			}
			return to.SubResource(name).Patch(ctx, object, patch, options...)
		},
		Update: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.UpdateOption) error {
			return fmt.Errorf("an update of a %T drops what its type does not have", object)
		},
		SubResourceUpdate: func(_ context.Context, _ client.Client, name string, object client.Object, _ ...client.SubResourceUpdateOption) error {
			return fmt.Errorf("an update of %s of a %T drops what its type does not have", name, object)
		},
	})
	kubevirt := &Controller{Client: slimmed.Client(api), Live: api, Events: c.vms.Events}
	c.vms.Client, c.vms.Live, c.vms.KubeVirt = kubevirt.Client, api, kubevirt
	c.reconcileVM()

	var after struct {
		Metadata struct{ Annotations map[string]string }
		Spec     any
		Status   map[string]any
	}
	if err := json.Unmarshal(raw, &after); err != nil {
		t.Fatal(err)
	}
	if left := countNewer(after.Spec) + countNewer(after.Status); left != added || added < 15 {
		t.Errorf("%d of %d fields are left: %s", left, added, raw)
	}
	reference, _ := after.Status["instancetypeRef"].(map[string]any)
	if writes["object"] == 0 || writes["status"] == 0 || after.Metadata.Annotations[v1alpha1.AnnotationPins] == "" || reference["name"] != "small" {
		t.Errorf("writes %v: annotations %v, reference %v", writes, after.Metadata.Annotations, reference)
	}
}
