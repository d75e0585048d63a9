package startcheck

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	v1 "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

const (
	reasonClaimMissing  = "claim-missing"
	reasonClaimDeleted  = "claim-deleted"
	reasonClaimLost     = "claim-lost"
	reasonClaimUnbound  = "claim-unbound"
	reasonImportFails   = "import-fails"
	reasonImporting     = "importing"
	reasonUploadAwaited = "upload-awaited"
	reasonImportPaused  = "import-paused"
	reasonNoConsumer    = "no-consumer"
	reasonDataVolume    = "data-volume-awaited"
)

// mostVolumes bounds the volumes that are looked at. Admission refuses VMs with more.
const mostVolumes = 256

// ClaimsOf returns the PersistentVolumeClaims that a guest needs at its start, by the fields of its volumes. The claim of a DataVolume has its name.
func ClaimsOf(spec *v1.VirtualMachineInstanceSpec) (names []string) {
	if spec == nil {
		return nil
	}
	for i := range spec.Volumes[:min(len(spec.Volumes), mostVolumes)] {
		v := &spec.Volumes[i]
		name := ""
		switch {
		case v.PersistentVolumeClaim != nil:
			name = v.PersistentVolumeClaim.ClaimName
		case v.DataVolume != nil:
			name = v.DataVolume.Name
		case v.Ephemeral != nil && v.Ephemeral.PersistentVolumeClaim != nil:
			name = v.Ephemeral.PersistentVolumeClaim.ClaimName
		}
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// findVolumes finds whether the claims of the guest exist and have their content. A claim that waits for its first consumer is not at fault. Secrets and
// ConfigMaps are not looked at, because few users may read Secrets: events of the pod name those that are missing.
func findVolumes(o Objects) finding {
	spec := o.GuestSpec()
	if spec == nil {
		return finding{state: Unknown, detail: cmp.Or(o.VM.Denied, o.VMI.Denied)}
	}
	claims := ClaimsOf(spec)
	if pod := o.LauncherPod(); pod != nil && pod.Spec.NodeName != "" { // the scheduler waits until the claims are bound
		return finding{state: Done, detail: countThings(len(claims), "claim")}
	}
	var found []finding
	for _, name := range claims {
		if f := o.findClaim(name); f.state != Done || f.detail != "" {
			found = append(found, f)
		}
	}
	slices.SortStableFunc(found, func(a, b finding) int { return severityOf(b.state) - severityOf(a.state) })
	var others []string
	for _, f := range found {
		others = append(others, f.object.String()+": "+f.shownDetail())
	}
	if len(found) == 0 || found[0].state == Done {
		return finding{state: Done, detail: joinTexts(append([]string{countThings(len(claims), "claim")}, others...))}
	}
	first := found[0]
	first.detail = joinTexts(append([]string{first.shownDetail()}, others[1:]...))
	return first
}

// severityOf orders states: what failed comes before what waits, and that before what is not known.
func severityOf(s State) int { return slices.Index([]State{Done, Unknown, Waiting, Failed}, s) }

// countThings returns a number of things, such as '2 claims'.
func countThings(n int, thing string) string {
	if n == 0 {
		return "no " + thing
	}
	return fmt.Sprintf("%d %s%s", n, thing, map[bool]string{true: "s"}[n > 1])
}

// findClaim finds the state of one claim, and of its DataVolume.
func (o Objects) findClaim(name string) finding {
	claim, dataVolume := o.Claims[name], o.DataVolumes[name]
	f := finding{state: Done, object: object{"PersistentVolumeClaim", name}}
	switch {
	case claim.Denied != "":
		f.state, f.detail = Unknown, claim.Denied
		return f
	case dataVolume.Object != nil && dataVolume.Object.Status.Phase != cdi.Succeeded && (claim.Object == nil || filledBy(claim.Object, dataVolume.Object)):
		return o.findDataVolume(dataVolume.Object)
	case claim.Object == nil:
		return o.missingClaim(name)
	case claim.Object.DeletionTimestamp != nil:
		return f.withState(Failed, reasonClaimDeleted, "it is being deleted")
	case claim.Object.Status.Phase == corev1.ClaimLost:
		return f.withState(Failed, reasonClaimLost, "its volume is gone")
	case claim.Object.Status.Phase != corev1.ClaimBound:
		return o.unboundClaim(claim.Object)
	}
	return f
}

// filledBy reports whether a DataVolume owns a claim. Another DataVolume of the same name does not fill it.
func filledBy(claim *corev1.PersistentVolumeClaim, dataVolume *cdi.DataVolume) bool {
	return len(claim.OwnerReferences) == 0 || slices.ContainsFunc(claim.OwnerReferences, ownedBy(dataVolume.UID))
}

// eventsOfDataVolumes are the reasons with which virt-controller, in events, and Kiln's controller, in condition Failure, say that they could not create a
// DataVolume.
var eventsOfDataVolumes = []string{"FailedDataVolumeCreate", "UnauthorizedDataVolumeCreate"}

// missingClaim finds why a claim does not exist.
func (o Objects) missingClaim(name string) finding {
	f := finding{object: object{"PersistentVolumeClaim", name}}
	if !o.hasTemplate(name) {
		return f.withState(Failed, reasonClaimMissing, "it does not exist")
	}
	f.object = object{"DataVolume", name}
	if failure := o.failureOfVM(); failure != nil && slices.Contains(eventsOfDataVolumes, failure.Reason) {
		f.object = object{"VirtualMachine", o.Name}
		return f.withState(Failed, failure.Reason, failure.Message)
	}
	if o.Runtime == RuntimeKiln { // its events may be older than the right that they miss
		return f.withState(Waiting, reasonDataVolume, o.controllerName()+" has not made it")
	}
	if event := o.newestEvent(o.VM.Object, eventsOfDataVolumes...); event != nil {
		f.object = object{"VirtualMachine", o.Name}
		return f.withState(Failed, event.Reason, event.Message)
	}
	return f.withState(Waiting, reasonDataVolume, o.controllerName()+" has not made it")
}

// hasTemplate reports whether spec.dataVolumeTemplates of the VM has a DataVolume.
func (o Objects) hasTemplate(name string) bool {
	return o.VM.Object != nil && slices.ContainsFunc(o.VM.Object.Spec.DataVolumeTemplates,
		func(t v1.DataVolumeTemplateSpec) bool { return t.Name == name })
}

// findDataVolume finds how far CDI has filled a claim. CDI tries a failed import for ever: phase Failed is rare, and condition Running has the last error.
func (o Objects) findDataVolume(dv *cdi.DataVolume) finding {
	f := finding{state: Done, object: object{"DataVolume", dv.Name}}
	running := dataVolumeCondition(dv, cdi.DataVolumeRunning)
	text := ""
	if running != nil && running.Status == corev1.ConditionFalse {
		text = running.Message
	}
	switch dv.Status.Phase {
	case cdi.Failed:
		return f.withState(Failed, reasonImportFails, cmp.Or(text, "its phase is Failed"))
	case cdi.UploadReady:
		return f.withState(Waiting, reasonUploadAwaited, "it waits for an upload")
	case cdi.Paused:
		return f.withState(Waiting, reasonImportPaused, "it waits for its next checkpoint")
	case cdi.WaitForFirstConsumer, cdi.PendingPopulation:
		if o.Runtime == RuntimeKiln && dv.Status.Phase == cdi.WaitForFirstConsumer {
			return f.withState(Failed, reasonNoConsumer, "it waits for a first consumer, and would be filled while the guest runs")
		}
		f.detail = "it is filled when the pod has a node"
		return f
	case cdi.PhaseUnset, cdi.Pending, cdi.Unknown:
		if event := o.newestEvent(dv, warningsOfDataVolumes...); event != nil {
			return f.withState(Failed, event.Reason, event.Message)
		}
		bound := dataVolumeCondition(dv, cdi.DataVolumeBound)
		if bound != nil && bound.Message != "" {
			return f.withState(Waiting, reasonDataVolume, bound.Message)
		}
		return f.withState(Waiting, reasonDataVolume, "CDI has not begun to fill it")
	}
	if text != "" && (dv.Status.RestartCount > 0 || slices.Contains(errorsOfImports, running.Reason)) {
		return f.withState(Failed, reasonImportFails, text)
	}
	return f.withState(Waiting, reasonImporting, strings.TrimSpace(string(dv.Status.Phase)+" "+string(dv.Status.Progress)))
}

// warningsOfDataVolumes are reasons of CDI's events on a DataVolume whose claim cannot be made.
var warningsOfDataVolumes = []string{"ErrExceededQuota", "ErrClaimNotValid", "ErrResourceExists", "ErrUnableToClone", "CloneWithoutSource",
	"CloneSourceInUse", "CloneValidationFailed", "NotFound", "ErrIncompatiblePVC"}

// errorsOfImports are reasons of condition Running of a DataVolume whose last try failed.
var errorsOfImports = []string{"Error", "ImagePullFailed", "TransferFailed", "CreateContainerError", "ContainerCreateError"}

func dataVolumeCondition(dv *cdi.DataVolume, of cdi.DataVolumeConditionType) *cdi.DataVolumeCondition {
	for i := range dv.Status.Conditions {
		if c := &dv.Status.Conditions[i]; c.Type == of {
			return c
		}
	}
	return nil
}

// selectedNode is the annotation of a claim for which the scheduler has chosen a node.
const selectedNode = "volume.kubernetes.io/selected-node"

// unboundClaim finds why a claim is not bound. A claim of a storage class with WaitForFirstConsumer is bound when the pod has a node: until then nothing is
// wrong with it. Users who may not read storage classes see the same in the events of the claim.
func (o Objects) unboundClaim(claim *corev1.PersistentVolumeClaim) finding {
	f := finding{state: Done, object: object{"PersistentVolumeClaim", claim.Name}}
	event := o.newestEvent(claim, "ProvisioningFailed", "FailedBinding", "VolumeResizeFailed", "WaitForFirstConsumer", "WaitForPodScheduled",
		"ExternalProvisioning",
		"Provisioning", "ProvisioningSucceeded")
	class := o.Classes[className(claim)]
	chosen := claim.Annotations[selectedNode] != ""
	switch {
	case event != nil && event.Type == corev1.EventTypeWarning, event != nil && event.Reason == "FailedBinding":
		return f.withState(Failed, event.Reason, event.Message)
	case event != nil && strings.HasPrefix(event.Reason, "WaitFor") && !chosen, class.waitsForConsumer() && !chosen:
		f.detail = "it is bound when the pod has a node"
		return f
	case event != nil && (event.Reason == "ExternalProvisioning" || event.Reason == "Provisioning"):
		return f.withState(Waiting, reasonClaimUnbound, event.Message)
	case class.Object != nil, chosen:
		return f.withState(Waiting, reasonClaimUnbound, "its storage has not made the volume")
	case class.isAbsent() && className(claim) != "":
		return f.withState(Failed, reasonClaimUnbound, "there is no StorageClass "+quoteName(className(claim)))
	}
	f.state, f.detail = Unknown, "it is not bound; "+cmp.Or(class.Denied, "it names no StorageClass")
	return f
}

// className returns the storage class of a claim; empty if the claim names none.
func className(claim *corev1.PersistentVolumeClaim) string {
	if claim.Spec.StorageClassName == nil {
		return ""
	}
	return *claim.Spec.StorageClassName
}

// waitsForConsumer reports whether claims of a storage class are bound when their pod has a node.
func (l Lookup[T]) waitsForConsumer() bool {
	class, is := any(l.Object).(*storagev1.StorageClass)
	return is && class != nil && class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}
