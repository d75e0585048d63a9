package workbench

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/carrier"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// Some objects cannot be judged: they refer to objects that do not exist, or Kiln does not serve their kind. The webhook admits the former, because
// the missing object may be created later, and is not called for the latter. A bench warns about both; a strict bench rejects them.

// judgeMissing adds an error for each object that does not exist to the verdict of a strict bench, and removes the warning about it.
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
		r.Verdict.Errors = append(r.Verdict.Errors, unresolvedMatchers())
	}
}

// notFound returns the cause of a rejection for an object that does not exist.
func notFound(missing resolve.Missing, detail string) *field.Error {
	err := field.NotFound(missing.Path, missing.Value)
	err.Detail = detail
	return err
}

// unresolvedMatchers returns the cause of a rejection if the instancetype or preference of a VM is not known, though each object that it names exists.
func unresolvedMatchers() *field.Error {
	return field.Forbidden(field.NewPath("spec"), "its instancetype or preference cannot be found, so it cannot be judged")
}

// isUnserved reports whether a kind belongs to a group of KubeVirt or its companions, such as CDI, and Kiln neither judges nor reads it.
func isUnserved(kind schema.GroupVersionKind, carriers []carrier.Kind) bool {
	ofKubeVirt := kind.Group == v1.GroupVersion.Group || strings.HasSuffix(kind.Group, "."+v1.GroupVersion.Group)
	return ofKubeVirt && judgeOf(kind.GroupKind(), carriers) == nil && kind.GroupKind() != v1.KubeVirtGroupVersionKind.GroupKind()
}

// unservedReason returns why an object of a kind is skipped.
func unservedReason(kind schema.GroupVersionKind) string {
	isOf := func(source schema.GroupVersionKind) bool { return source.GroupKind() == kind.GroupKind() }
	if slices.ContainsFunc(resolve.SourceKinds(), isOf) {
		return "CDI serves this kind, and no VM here infers its instancetype or preference from it"
	}
	return fmt.Sprintf("Kiln does not serve this kind of %s", kind.GroupVersion())
}

// servedByOthers reports whether CDI serves a kind that Kiln does not serve.
func servedByOthers(kind schema.GroupVersionKind) bool {
	return kind.Group == cdi.SchemeGroupVersion.Group
}
