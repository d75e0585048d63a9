package workbench

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/internal/resolve"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// Some objects cannot be judged: they refer to objects that do not exist, or their kind is not served by Kiln. The webhook admits the first, because
// the object may be created later, and is not asked about the second. Both bring warnings; a strict bench rejects them.

// judgeMissing makes a strict bench refuse a VM that refers to what does not exist.
func (b *Bench) judgeMissing(r *Reviewed) {
	if !b.Strict {
		return
	}
	for _, missing := range r.missing {
		r.Verdict.Errors = append(r.Verdict.Errors, notFound(missing, missing.Warning))
		if at := slices.Index(r.Verdict.Warnings, missing.Warning); at >= 0 {
			r.Verdict.Warnings = slices.Delete(r.Verdict.Warnings, at, at+1)
		}
	}
	if r.Unknown && r.Verdict.Allowed() {
		r.Verdict.Errors = append(r.Verdict.Errors, unknowable())
	}
}

// notFound returns the cause of a rejection for an object that does not exist.
func notFound(missing resolve.Missing, detail string) *field.Error {
	err := field.NotFound(missing.Path, missing.Value)
	err.Detail = detail
	return err
}

// unknowable returns the cause for a VM whose instancetype or preference is not known, though each object that it names exists.
func unknowable() *field.Error {
	return field.Forbidden(field.NewPath("spec"), "its instancetype or preference cannot be found, so it cannot be judged")
}

// unserved reports whether a kind is one of KubeVirt's or its companions', and Kiln neither judges nor reads it.
func unserved(kind schema.GroupVersionKind) bool {
	ofKubeVirt := kind.Group == v1.GroupVersion.Group || strings.HasSuffix(kind.Group, "."+v1.GroupVersion.Group)
	return ofKubeVirt && judges[kind.GroupKind()] == nil && kind.GroupKind() != v1.KubeVirtGroupVersionKind.GroupKind()
}

// unservedReason is why an object of a kind is skipped. Inferences read DataSources and DataVolumes.
func unservedReason(kind schema.GroupVersionKind) string {
	isOf := func(source schema.GroupVersionKind) bool { return source.GroupKind() == kind.GroupKind() }
	if slices.ContainsFunc(resolve.SourceKinds(), isOf) {
		return "CDI serves this kind, and no VM here infers its instancetype or preference from it"
	}
	return fmt.Sprintf("Kiln does not serve this kind of %s", kind.GroupVersion())
}

// servedByOthers reports whether a kind that is not served is none of KubeVirt's own: CDI serves its kinds itself.
func servedByOthers(kind schema.GroupVersionKind) bool {
	return kind.Group == cdi.SchemeGroupVersion.Group
}
