package validate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/nearest"
	"github.com/tidwall/gjson"
	v1 "kubevirt.io/api/core/v1"
)

// Warnings about what is written and has no effect: unknown annotations with Kiln's prefix, and numbers of CPUs that are 0.

// keys are the annotations that Kiln reads or writes, on whatever kind: all constants of api/v1alpha1 that begin with Annotation.
var keys = []string{
	v1alpha1.AnnotationPins, v1alpha1.AnnotationIdentity, v1alpha1.AnnotationGeneration, v1alpha1.AnnotationHardware, v1alpha1.AnnotationFrontend,
	v1alpha1.AnnotationHardwareFailure, v1alpha1.AnnotationInterfaceAddresses, v1alpha1.AnnotationRollout, v1alpha1.AnnotationTemplateDigest,
	v1alpha1.AnnotationEjected, v1alpha1.AnnotationArchitecture, v1alpha1.AnnotationNUMACells, v1alpha1.AnnotationProfileLabels,
	v1alpha1.AnnotationInference, v1alpha1.AnnotationMachineTypes, v1alpha1.AnnotationTPMKey, v1alpha1.AnnotationUnusedSince, v1alpha1.AnnotationReplacedBy,
	v1alpha1.AnnotationObsoleteAfter, v1alpha1.AnnotationCatalogVersion, v1alpha1.AnnotationRecord, v1alpha1.AnnotationSnapshotState,
	v1alpha1.AnnotationLeaveOut, v1alpha1.AnnotationAsker, v1alpha1.AnnotationCatalogSource, v1alpha1.AnnotationCatalogTakenOver,
	v1alpha1.AnnotationRemounted, v1alpha1.AnnotationCPUFailure, v1alpha1.AnnotationLostPins, v1alpha1.AnnotationRefused, v1alpha1.AnnotationExcepted,
}

// shortKeys are keys without their prefix, with which names are compared: it would be two thirds of most of them.
var shortKeys = func() (short []string) {
	for _, key := range keys {
		short = append(short, strings.TrimPrefix(key, v1alpha1.Prefix))
	}
	return short
}()

// maxUnknownKeys bounds the warnings about one object's annotations.
const maxUnknownKeys = 4

// ofAnnotation is a warning about an annotation.
func ofAnnotation(key, format string, args ...any) Warning {
	return Warning{fmt.Sprintf(format, args...), []string{"metadata.annotations[" + key + "]"}}
}

// unknownKeyWarnings returns a warning for each of the first maxUnknownKeys annotations with Kiln's prefix that Kiln does not know, with the key that was
// probably meant.
func unknownKeyWarnings(annotations map[string]string) (found []Warning) {
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if !strings.HasPrefix(key, v1alpha1.Prefix) || slices.Contains(keys, key) || len(found) == maxUnknownKeys {
			continue
		}
		warning := ofAnnotation(key, "annotation '%s' has no effect: Kiln has no such key", short(key))
		if meant := nearest.Name(strings.TrimPrefix(key, v1alpha1.Prefix), shortKeys); meant != "" {
			warning.Text += "; did you mean '" + v1alpha1.Prefix + meant + "'?"
		}
		found = append(found, warning)
	}
	return found
}

// keysOfKubeVirt are the annotations of a VMI on which KubeVirt's virt-controller, virt-handler or virt-launcher acts, and Kiln does not, with the reason.
// Annotations that only KubeVirt's own controllers write are left out.
var keysOfKubeVirt = map[string]string{
	"hooks.kubevirt.io/hookSidecars":      "Kiln starts no sidecars",
	v1.CustomLibvirtLogFiltersAnnotation:  "Kiln does not change the log of libvirt",
	v1.KeepLauncherAfterFailureAnnotation: "the pod of a guest ends with the guest",
	v1.MemfdMemoryBackend:                 "a HostProfile sets the source of the memory",
	v1.PauseGuestAgentProbesAnnotation:    "probes always ask the guest agent",
}

// kubeVirtKeyWarnings returns a warning for each annotation that has an effect in KubeVirt only.
func kubeVirtKeyWarnings(annotations map[string]string) (found []Warning) {
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if reason := keysOfKubeVirt[key]; reason != "" {
			found = append(found, ofAnnotation(key, "annotation '%s' has no effect: %s", key, reason))
		}
	}
	return found
}

// textsOf are what users read of warnings.
func textsOf(warnings []Warning) (all []string) {
	for _, w := range warnings {
		all = append(all, w.Text)
	}
	return all
}

// WrittenVMWarnings returns the warnings about a VM as it was written that its review does not give: about counts of 0, and about another identity of a guest
// that exists. A guest keeps the UUID, serial number and MAC addresses of its record, whatever the current seed is. If KubeVirt runs the guests, nothing in
// them follows from the seed.
func WrittenVMWarnings(raw []byte, vm, old *v1.VirtualMachine, limits config.Limits) []string {
	warnings := CountWarnings(raw)
	if old == nil || !old.Status.Created || limits.KubeVirtGuests || vm.Annotations[v1alpha1.AnnotationHardware] == v1alpha1.HardwareLatest {
		return warnings
	}
	if was := old.Annotations[v1alpha1.AnnotationIdentity]; was != "" && was != vm.Annotations[v1alpha1.AnnotationIdentity] {
		warnings = append(warnings, fmt.Sprintf("annotation '%s': the guest keeps UUID, serial and MACs until it starts with '%s: %s'",
			v1alpha1.AnnotationIdentity, v1alpha1.AnnotationHardware, v1alpha1.HardwareLatest))
	}
	return warnings
}

// CountWarnings returns a warning about numbers of CPUs that are written as 0. The Go types cannot tell them from numbers that are not written. raw is the JSON
// of a VM or VMI.
func CountWarnings(raw []byte) []string {
	var zero []string
	for _, at := range []string{"spec.template.spec.domain.cpu.", "spec.domain.cpu."} {
		for _, name := range []string{"cores", "sockets", "threads"} {
			if given := gjson.GetBytes(raw, at+name); given.Type == gjson.Number && given.Num == 0 {
				zero = append(zero, "cpu."+name)
			}
		}
	}
	if len(zero) == 0 {
		return nil
	}
	return []string{strings.Join(zero, ", ") + " of 0 is as if it were not written: the default or the instancetype decides"}
}
