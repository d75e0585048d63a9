package workbench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/ownership"
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/internal/workbench/crdschema"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/patch"
	"github.com/kilnvm/kiln/pkg/record"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Guest is the guest that a VM or VMI boots, with what is needed to render and explain it.
type Guest struct {
	// Explicit is the VMI that boots, and Document its JSON: the sparse VMI with the webhook's patch applied.
	Explicit *v1.VirtualMachineInstance
	Document []byte
	// VM is the VM before admission; nil for a bare VMI.
	VM *v1.VirtualMachine
	// Recorded is the hardware of the guest's last boot, which the next boot keeps. It is nil before the first boot, and with the annotation
	// kilnvm.io/hardware: latest.
	Recorded *record.Record
	// Booted is the hardware of the guest's last boot, also with the annotation.
	Booted *record.Record
	// Unreadable is why the hardware of the last boot cannot be read. Then the guest cannot be rendered.
	Unreadable error

	// Sparse is the VMI before stage 1, and Input the settings by which stage 1 completed it.
	Sparse *v1.VirtualMachineInstance
	Input  admit.Input
	// vm or vmi is the review that made the guest; the other one is nil.
	vm  *review.VM
	vmi *review.VMI
}

// Stored returns the VM as a cluster stores it, and the revisions that it is pinned to. It must not be called for the guest of a bare VMI.
func (g *Guest) Stored() (*v1.VirtualMachine, []revision.Draft) { return g.vm.Stored() }

// Frontend names the FrontendProfile that sets the hardware for which a VMI has no fields.
type Frontend struct {
	// Version is the name of a FrontendProfile.
	Version string `json:"version"`
	// Origin is where the profile is recorded: 'hardware record', or 'configuration' for the configuration that a VM is pinned to.
	Origin string `json:"origin"`
}

// Frontend returns the FrontendProfile of a guest; nil if Kiln's own values apply, or KubeVirt runs the guest.
func (r Reviewed) Frontend() *Frontend {
	if r.Guest.Input.Cluster.Limits.KubeVirtGuests {
		return nil
	}
	found := &Frontend{r.Guest.Input.Cluster.FrontendDefaults().Version, "configuration"}
	if recorded := r.Guest.Recorded; recorded != nil {
		found = &Frontend{recorded.Defaults, "hardware record"}
	}
	if config.InvalidFrontendName(found.Version, nil) != nil { // Kiln's own have numbers
		return nil
	}
	return found
}

// Explain returns the origin of each field of the explicit VMI. If a VM created the VMI, its fields are origins, too.
func (r Reviewed) Explain(ctx context.Context) (admit.Explanation, error) {
	if r.Guest.vm != nil {
		return r.Guest.vm.Explain(), nil
	}
	owner, err := ownerOf(ctx, r.Inputs.Reader, r.Guest.Sparse)
	if err != nil {
		return admit.Explanation{}, err
	}
	return r.Guest.vmi.Explain(owner, r.Guest.Recorded), nil
}

// ownerOf returns the VM that created a VMI; nil if the VMI has no owner, or the user may not read it, or it no longer exists.
func ownerOf(ctx context.Context, reader client.Reader, vmi *v1.VirtualMachineInstance) (*v1.VirtualMachine, error) {
	by := metav1.GetControllerOf(vmi)
	if by == nil || by.Kind != v1.VirtualMachineGroupVersionKind.Kind {
		return nil, nil
	}
	vm := &v1.VirtualMachine{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: vmi.Namespace, Name: by.Name}, vm)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || err == nil && (vm.UID != by.UID || vm.Spec.Template == nil) {
		return nil, nil
	}
	return vm, err
}

// readRecord reads the hardware that the guest had at its last boot: the GuestHardware of its name, if it belongs to this VM or VMI. If it
// cannot be read, or belongs to another guest, readRecord sets Unreadable, and only commands that render fail. It does nothing for a rejected object.
func (r *Reviewed) readRecord(ctx context.Context) error {
	if !r.Verdict.Allowed() || r.unrecorded {
		return nil
	}
	guest := r.Guest
	requester := ownership.Guest{VMI: guest.Explicit.UID, Identity: guest.Explicit.Annotations[v1alpha1.AnnotationIdentity]}
	if guest.VM != nil {
		requester = ownership.GuestOf(guest.VM)
	}
	hardware, err := ownership.ReadHardware(ctx, r.Inputs.Reader, client.ObjectKeyFromObject(guest.Explicit))
	relation := requester.Ownership(hardware)
	if by := metav1.GetControllerOf(guest.Explicit); by != nil && by.Kind == v1.VirtualMachineGroupVersionKind.Kind && relation != ownership.Own {
		requester.VM = by.UID // the identity of the VM may have been edited since
		relation = requester.Ownership(hardware)
	}
	switch {
	case apierrors.IsForbidden(err):
		guest.Unreadable = err
	case err != nil:
		return err
	case relation == ownership.Foreign:
		guest.Unreadable = errors.New(ownership.ForeignMessage(hardware))
	case relation == ownership.Own && guest.Explicit.Annotations[v1alpha1.AnnotationHardware] != v1alpha1.HardwareLatest:
		guest.Recorded, guest.Unreadable = hardware.Spec.Hardware, record.Check(hardware.Spec.Hardware)
		guest.Booted = guest.Recorded
	case relation == ownership.Own && record.Check(hardware.Spec.Hardware) == nil:
		guest.Booted = hardware.Spec.Hardware
	}
	return nil
}

// patchedDocument returns the document that a cluster would store: the sparse VMI with the patch of the webhook, and with the fields of a stored VM or VMI that
// the Go types do not have. Trap: the patch must be made from the JSON that it is applied to. The typed object has empty lists and maps that its JSON leaves
// out.
func (r Reviewed) patchedDocument(explicit *v1.VirtualMachineInstance) ([]byte, error) {
	raw, err := json.Marshal(r.Guest.Sparse)
	if err != nil {
		return nil, err
	}
	sent := &v1.VirtualMachineInstance{}
	if err := json.Unmarshal(raw, sent); err != nil {
		return nil, err
	}
	diff, err := patch.Write(raw, sent, explicit)
	if err != nil {
		return nil, err
	}
	document, err := applyPatch(diff, raw)
	if err != nil || !r.Stored {
		return document, err
	}
	return r.withNewerFields(document)
}

// withNewerFields returns the document of a VMI with those fields of the stored object's guest that this program does not know.
func (r Reviewed) withNewerFields(document []byte) ([]byte, error) {
	unknown, err := crdschema.UnknownFields(r.Unstructured)
	if err != nil || len(unknown) == 0 {
		return document, err
	}
	at := []string{"spec"}
	if r.Guest.VM != nil {
		at = []string{"spec", "template", "spec"}
	}
	stored, _, err := unstructured.NestedMap(r.Object.Object, at...)
	if err != nil {
		return nil, err
	}
	var vmi map[string]any
	if err := json.Unmarshal(document, &vmi); err != nil {
		return nil, err
	}
	copyFields(vmi["spec"], stored, strings.Join(at, "."), sets.New(unknown...))
	return json.Marshal(vmi)
}

// copyFields copies the fields at some paths from one value to another, whose lists have the same elements first. path is the path of from.
func copyFields(to, from any, path string, paths sets.Set[string]) {
	switch from := from.(type) {
	case map[string]any:
		into, is := to.(map[string]any)
		if !is {
			return
		}
		for key, value := range from {
			if at := path + "." + key; paths.Has(at) {
				into[key] = value
			} else {
				copyFields(into[key], value, at, paths)
			}
		}
	case []any:
		into, _ := to.([]any)
		for i := range min(len(from), len(into)) {
			copyFields(into[i], from[i], fmt.Sprintf("%s[%d]", path, i), paths)
		}
	}
}

// applyPatch applies an RFC 6902 patch. A nil patch changes nothing.
func applyPatch(diff, raw []byte) ([]byte, error) {
	if diff == nil {
		return raw, nil
	}
	patch, err := jsonpatch.DecodePatch(diff)
	if err != nil {
		return nil, err
	}
	return patch.Apply(raw)
}
