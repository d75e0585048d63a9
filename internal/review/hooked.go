package review

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
)

// Pinned hardware of guests that KubeVirt runs. Admission gives a VMI the record of its VM, and has Kiln's hook run in the pod, which puts the
// record back. The record is in a GuestHardware, which Kiln's controller writes, or an administrator from a domain that was captured.
// KubeVirt: pkg/hooks, v1.9.

// sidecars is the annotation by which a VMI asks for hook sidecars: a list as JSON.
const sidecars = "hooks.kubevirt.io/hookSidecars"

// sidecar is an entry of KubeVirt's list. The launcher's image has the program as its entrypoint.
type sidecar struct {
	Image           string   `json:"image"`
	ImagePullPolicy string   `json:"imagePullPolicy"`
	Args            []string `json:"args"`
}

// hooked gives a VMI that KubeVirt makes for a VM the VM's record, and the hook. The VMI's annotations must belong to it alone. What the template has for the
// record is never used. Without a record, the hook makes the first one if the VM asks for it; else the VMI has neither.
func (r Reviewer) hooked(ctx context.Context, vmi *v1.VirtualMachineInstance, vm *v1.VirtualMachine, gates config.Gates) error {
	delete(vmi.Annotations, v1alpha1.AnnotationFrontend)
	if r.Hook.Image == "" || !gates.Enabled(r.Hook.gate()) || vmi.Annotations[v1alpha1.AnnotationHardware] == v1alpha1.HardwareLatest {
		return nil
	}
	hardware, err := r.Resolver.Hardware(ctx, vm)
	if err != nil {
		return err
	}
	text := ""
	switch {
	case hardware != nil:
		raw, err := json.Marshal(hardware)
		if err != nil {
			return err
		}
		text = string(raw)
	case vm.Annotations[v1alpha1.AnnotationFrontend] == v1alpha1.FrontendNew:
		text = v1alpha1.FrontendNew
	default:
		return nil
	}
	if r.Hook.Protocol == HookPlugin { // Injected adds the container to the pod
		vmi.Annotations[v1alpha1.AnnotationFrontend] = text
		return nil
	}
	list, err := withHook(vmi.Annotations[sidecars], r.Hook.Image)
	if err != nil {
		return resolve.NewOutdated("spec.template.metadata.annotations[%s] of VirtualMachine '%s' is not a list of sidecars: %v", sidecars, vm.Name, err)
	}
	vmi.Annotations[v1alpha1.AnnotationFrontend], vmi.Annotations[sidecars] = text, list
	return nil
}

// withHook adds Kiln's hook to a list of sidecars that has none. Other entries stay as they are.
func withHook(list, image string) (string, error) {
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
