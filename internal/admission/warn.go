package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/enforcement"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/tidwall/gjson"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Where admission only warns, every object of KubeVirt's kinds is judged and admitted. docs/project/adr/0026-warnings-and-namespaces.md says what stays
// refused.

// warnable are the paths for KubeVirt's kinds, and for kinds that carry VMs. Objects of Kiln's own kinds are always refused for their mistakes: nobody else
// judges them.
var warnable = []string{MutateVM, MutateVMI, ValidateVM, ValidateVMI, ValidatePreset, ValidateInstancetype, ValidatePreference, ValidateCarrier}

// warnsIn reports whether admission only warns about objects of a namespace, and returns a warning if the label of the namespace is wrong. It is always false
// without KubeVirt, because then nobody else judges VMs. An empty namespace is an object of the cluster, for which the flag decides.
func (s *Server) warnsIn(ctx context.Context, namespace string) (warns bool, wrong string) {
	if !s.Reviewer.Configuration().Limits.KubeVirtGuests {
		return false, ""
	}
	if namespace == "" {
		return s.Enforcement == enforcement.Warn, ""
	}
	object, err := s.Reviewer.Resolver.Namespace(ctx, namespace)
	if err != nil {
		log.FromContext(ctx).Error(err, "reading the label of a namespace", "namespace", namespace)
		return s.Enforcement == enforcement.Warn, ""
	}
	value, wrong := enforcement.In(object, s.Enforcement)
	if wrong != "" {
		wrong = fmt.Sprintf("label %s of namespace '%s' is %s and has no effect: use %s, %s or %s", v1alpha1.LabelAdmission, namespace, wrong,
			v1alpha1.AdmissionEnabled, v1alpha1.AdmissionWarn, v1alpha1.AdmissionDisabled)
	}
	return value == enforcement.Warn, wrong
}

// completesRefused reports whether an object with mistakes is completed nevertheless, because its guest would move without pins and records: admission only
// warns, and its references could be read. The validating webhook finds the mistakes again.
func (s *Server) completesRefused(ctx context.Context, request *admissionv1.AdmissionRequest, readable bool) bool {
	if !readable {
		return false
	}
	warns, _ := s.warnsIn(ctx, request.Namespace)
	return warns
}

const (
	// mostRefusals bounds the warnings about what would have been refused.
	mostRefusals = 3
	// auditRefusal is the key of the audit annotation with the rules by which a request would have been refused, separated by commas.
	auditRefusal = "would_refuse"
	// wouldRefuse and notJudged begin the warnings.
	wouldRefuse = "Kiln would refuse this: "
	notJudged   = "Kiln has not judged this: "
)

// warnOf adds to a response why the request would have been refused, counts it, and returns the outcome.
func warnOf(response *admissionv1.AdmissionResponse, err error) outcome {
	var mistakes *resolve.Refusal
	if !errors.As(err, &mistakes) {
		admitUnjudged(response, err.Error())
		if errors.As(err, new(*resolve.Outdated)) {
			return outdated
		}
		return failed
	}
	var texts []string
	seen := map[string]bool{}
	for _, mistake := range mistakes.Errors {
		if text := mistake.Error(); !seen[text] { // references and VMI are judged separately, and may have the same mistake
			texts, seen[text] = append(texts, text), true
		}
	}
	rules := rulesOf(mistakes.Errors)
	for _, rule := range rules {
		wouldReject.WithLabelValues(rule).Inc()
	}
	addRefusals(response, wouldRefuse, texts, strings.Join(rules, ","))
	return warned
}

// admitUnjudged makes a response admit an object that could not be judged.
func admitUnjudged(response *admissionv1.AdmissionResponse, reason string) {
	response.Allowed, response.Result = true, nil
	addRefusals(response, notJudged, []string{reason}, "unjudged")
}

// addRefusals adds warnings with the first texts, before other warnings, and an audit annotation. The last warning counts the texts beyond mostRefusals.
func addRefusals(response *admissionv1.AdmissionResponse, prefix string, texts []string, rules string) {
	var warnings []string
	for i, text := range texts[:min(len(texts), mostRefusals)] {
		text = prefix + text
		if more := len(texts) - i; i == mostRefusals-1 && more > 1 {
			text = fmt.Sprintf("%sand %d more: %s", prefix, more, texts[i])
		}
		warnings = append(warnings, text)
	}
	response.Warnings = append(truncateWarnings(warnings), response.Warnings...)
	if response.AuditAnnotations == nil {
		response.AuditAnnotations = map[string]string{}
	}
	response.AuditAnnotations[auditRefusal] = rules
}

// guestAnnotations are the annotations that a VMI takes from its VM, and never from the template, which a tenant writes.
var guestAnnotations = []string{v1alpha1.AnnotationPins, v1alpha1.AnnotationIdentity, v1alpha1.AnnotationArchitecture, v1alpha1.AnnotationGeneration,
	v1alpha1.AnnotationFrontend, v1alpha1.AnnotationInterfaceAddresses}

// keepAnnotations returns the patch of an object that could not be completed, and is admitted: only admission writes certain annotations. A VM keeps the values
// that are stored; a new one loses its pins, which nobody has verified. A VMI that KubeVirt makes of a VM loses the values of the template. It reads raw JSON,
// because the object may be too large to be decoded.
func (h Hook) keepAnnotations(request *admissionv1.AdmissionRequest) []byte {
	now, wanted := annotationsOf(request.Object.Raw), map[string]string{}
	keys := admissionAnnotations
	switch {
	case h.path == MutateVMI && request.Operation == admissionv1.Create:
		if !gjson.GetBytes(request.Object.Raw, `metadata.ownerReferences.#(kind=="VirtualMachine")`).Exists() {
			return nil
		}
		keys = guestAnnotations
	case h.path != MutateVM:
		return nil
	case request.Operation == admissionv1.Update:
		wanted = storedAnnotations(request)
	default:
		if seed, found := now[v1alpha1.AnnotationIdentity]; found { // of a backup
			wanted[v1alpha1.AnnotationIdentity] = seed
		}
	}
	kept, changed := map[string]string{}, false
	for key, value := range now {
		if !slices.Contains(keys, key) {
			kept[key] = value
		}
	}
	for _, key := range keys {
		value, has := wanted[key]
		if has {
			kept[key] = value
		}
		was, had := now[key]
		changed = changed || was != value || had != has
	}
	if !changed {
		return nil
	}
	patch, err := json.Marshal([]map[string]any{{"op": "add", "path": "/metadata/annotations", "value": kept}})
	if err != nil {
		panic(err) // a map of strings always marshals
	}
	return patch
}

// storedAnnotations returns the annotations of a stored VM. Pins of an instancetype or preference that an update replaces are left out.
func storedAnnotations(request *admissionv1.AdmissionRequest) map[string]string {
	stored := metav1.ObjectMeta{Annotations: annotationsOf(request.OldObject.Raw)}
	pins := pin.Read(&stored)
	for path, name := range map[string]*string{"spec.instancetype": &pins.Instancetype, "spec.preference": &pins.Preference} {
		if gjson.GetBytes(request.Object.Raw, path).Raw != gjson.GetBytes(request.OldObject.Raw, path).Raw && *name != "" {
			*name = ""
			pin.Write(&stored, pins)
		}
	}
	return stored.Annotations
}

// annotationsOf returns the annotations of an object.
func annotationsOf(raw []byte) map[string]string {
	annotations := map[string]string{}
	gjson.GetBytes(raw, "metadata.annotations").ForEach(func(key, value gjson.Result) bool {
		annotations[key.String()] = value.String()
		return true
	})
	return annotations
}
