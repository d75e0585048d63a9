package virtcontroller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/record"
	v1 "kubevirt.io/api/core/v1"
)

// Admission gives a VMI the hardware record of its VM, and has Kiln's hook run in the pod. The hook puts the recorded hardware back. The record is in a
// GuestHardware. Kiln's controller writes it, or an administrator writes it from a captured domain.
// KubeVirt: pkg/hooks, v1.9.

// sidecars is the annotation by which a VMI asks for hook sidecars: a list as JSON.
const sidecars = "hooks.kubevirt.io/hookSidecars"

// sidecar is an entry of KubeVirt's list. The launcher's image has the program as its entrypoint.
type sidecar struct {
	Image           string   `json:"image"`
	ImagePullPolicy string   `json:"imagePullPolicy"`
	Args            []string `json:"args"`
}

// addRecord gives a VMI that KubeVirt creates for a VM the record of the VM, and the hook. The map of the VMI's annotations must not be shared. A record in
// the template is never used. If there is no record, the hook makes the first one if the VM asks for it; otherwise the VMI gets neither record nor hook. A
// record that was made without the hook counts as none.
func (c Completer) addRecord(
	ctx context.Context, resolver resolve.Resolver, vmi *v1.VirtualMachineInstance, vm *v1.VirtualMachine, gates config.Gates,
) error {
	delete(vmi.Annotations, v1alpha1.AnnotationFrontend)
	if c.Hook.Image == "" || !gates.Enabled(c.Hook.featureGate()) || vmi.Annotations[v1alpha1.AnnotationHardware] == v1alpha1.HardwareLatest {
		return nil
	}
	hardware, err := resolver.Hardware(ctx, vm)
	if err != nil {
		return err
	}
	text, asks := "", vm.Annotations[v1alpha1.AnnotationFrontend] == v1alpha1.FrontendNew
	switch {
	case hardware != nil && (asks || !hasOnlyCPU(hardware)):
		raw, err := json.Marshal(hardware)
		if err != nil {
			return err
		}
		text = string(raw)
	case asks:
		text = v1alpha1.FrontendNew
	default:
		return nil
	}
	if c.Hook.Protocol == HookPlugin { // AddContainer adds the container to the pod
		vmi.Annotations[v1alpha1.AnnotationFrontend] = text
		return nil
	}
	list, err := appendSidecar(vmi.Annotations[sidecars], c.Hook.Image)
	if err != nil {
		return resolve.NewOutdated("spec.template.metadata.annotations[%s] of VirtualMachine '%s' is not a list of sidecars: %v", sidecars, vm.Name, err)
	}
	vmi.Annotations[v1alpha1.AnnotationFrontend], vmi.Annotations[sidecars] = text, list
	return nil
}

// hasOnlyCPU reports whether a record was made without the hook, from the labels of a node: no boot has written it, and it does not say where devices are.
func hasOnlyCPU(hardware *record.Record) bool {
	return hardware.CPU != nil && hardware.Digest == "" && len(hardware.Devices) == 0
}

// appendSidecar appends Kiln's hook to a list of sidecars that does not contain it. Other entries stay as they are.
func appendSidecar(list, image string) (string, error) {
	var entries []json.RawMessage
	if list != "" {
		if err := json.Unmarshal([]byte(list), &entries); err != nil {
			return "", err
		}
	}
	own, err := json.Marshal(sidecar{Image: image, ImagePullPolicy: "IfNotPresent", Args: []string{"hook"}})
	if err != nil {
		return "", fmt.Errorf("image '%s': %w", image, err)
	}
	if slices.ContainsFunc(entries, func(e json.RawMessage) bool { return string(e) == string(own) }) { // admission is asked again
		return list, nil
	}
	text, err := json.Marshal(append(entries, own))
	return string(text), err
}
