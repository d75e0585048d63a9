// Package hook implements Kiln's container in the pods of KubeVirt. Virt-launcher calls it before it defines a domain. It has no credentials and calls
// nobody, because the VMI that virt-launcher sends contains the record.
//
// It implements two protocols of KubeVirt v1.9: hook sidecars (pkg/hooks, gate Sidecar) and plugins (pkg/hooks/plugins, gate Plugins).
package hook

import (
	"encoding/json"
	"fmt"

	"github.com/go-logr/logr"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/domain/kubevirt"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	v1 "kubevirt.io/api/core/v1"
)

// Hook answers virt-launcher.
type Hook struct {
	Log logr.Logger
}

// domainWithRecord returns the domain to be defined for a VMI. It returns an error if the recorded hardware cannot be put back. With annotation
// kilnvm.io/hardware-failure 'Ignore' it logs that error instead, and the domain stays as it is.
func (h *Hook) domainWithRecord(xml, instance []byte) ([]byte, error) {
	vmi := &v1.VirtualMachineInstance{}
	if err := json.Unmarshal(instance, vmi); err != nil {
		return nil, fmt.Errorf("the VirtualMachineInstance of virt-launcher: %w", err)
	}
	log := h.Log.WithValues("namespace", vmi.Namespace, "name", vmi.Name)
	switch {
	case isMigrating(vmi):
		log.Info("the guest comes from another node, with its hardware")
		return xml, nil
	case vmi.Annotations[v1alpha1.AnnotationHardware] == v1alpha1.HardwareLatest:
		log.Info("annotation "+v1alpha1.AnnotationHardware+" asks for new hardware", "value", v1alpha1.HardwareLatest)
		return xml, nil
	}
	frozen, asked, err := kubevirt.Recorded(vmi)
	if !asked {
		log.Info("the VMI has no recorded hardware")
		return xml, nil
	}
	var out []byte
	if err == nil {
		out, err = putBack(xml, vmi, frozen)
	}
	switch {
	case err == nil:
		log.Info("hardware put back")
		return out, nil
	case vmi.Annotations[v1alpha1.AnnotationHardwareFailure] == v1alpha1.HardwareFailureIgnore:
		log.Error(err, "the guest starts with other hardware than it had")
		return xml, nil
	}
	log.Error(err, "the guest is not started")
	return nil, fmt.Errorf("%w; annotation %s '%s' in spec.template of the VM starts it with other hardware",
		err, v1alpha1.AnnotationHardwareFailure, v1alpha1.HardwareFailureIgnore)
}

// putBack puts recorded devices at their recorded addresses, and new devices where Kiln places them. Kiln's controller computes and records the same addresses.
func putBack(xml []byte, vmi *v1.VirtualMachineInstance, frozen *record.Record) ([]byte, error) {
	whole, errs := render.KubeVirt(vmi, frozen)
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return kubevirt.PutBack(xml, vmi, &whole)
}

// isMigrating reports whether this pod receives a guest that runs elsewhere. KubeVirt calls hook sidecars there, too. It ignores their domain, but not their
// error (virtwrap/live-migration-target.go). A VMI boots only once, before it runs.
func isMigrating(vmi *v1.VirtualMachineInstance) bool {
	return vmi.Status.MigrationState != nil || vmi.Status.Phase == v1.Running
}
