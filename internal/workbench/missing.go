package workbench

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/kilnvm/kiln/internal/resolve"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Some objects cannot be judged: they refer to objects that do not exist, or their kind is not served by Kiln. The webhook admits the first, because
// the object may be created later, and is not asked about the second. Both bring warnings; a strict bench rejects them.

// judgeMissing adds the most similar name that exists to each warning about an object that does not exist. A strict bench turns these warnings
// into errors.
func (b *Bench) judgeMissing(ctx context.Context, r *Reviewed) {
	for _, missing := range r.missing {
		message := missing.Warning
		if name := nearest(ctx, r.inputs.Reader, missing); name != "" {
			message += fmt.Sprintf("; did you mean '%s'?", name)
		}
		at := slices.Index(r.Verdict.Warnings, missing.Warning)
		switch {
		case b.Strict:
			r.Verdict.Errors = append(r.Verdict.Errors, notFound(missing, message))
			if at >= 0 {
				r.Verdict.Warnings = slices.Delete(r.Verdict.Warnings, at, at+1)
			}
		case at >= 0:
			r.Verdict.Warnings[at] = message
		}
	}
	if b.Strict && r.Unknown && r.Verdict.Allowed() {
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

// nearest returns the most similar name that exists, by Levenshtein distance; empty if more than about a third of the letters differ.
func nearest(ctx context.Context, reader client.Reader, missing resolve.Missing) string {
	names := siblings(ctx, reader, missing)
	slices.Sort(names)
	best, least := "", (len(missing.Value)+2)/3+1
	for _, name := range names {
		if distance := levenshtein.ComputeDistance(missing.Value, name); distance < least {
			best, least = name, distance
		}
	}
	return best
}

// siblings returns the names of the objects of the kind that is missing. It returns none if they cannot be listed, because they are only for a
// hint.
func siblings(ctx context.Context, reader client.Reader, missing resolve.Missing) (names []string) {
	known := runtime.NewScheme()
	if missing.Kind == "" || v1beta1.AddToScheme(known) != nil {
		return nil
	}
	object, err := known.New(v1beta1.SchemeGroupVersion.WithKind(missing.Kind + "List"))
	if err != nil {
		return nil
	}
	list, ok := object.(client.ObjectList)
	if !ok || reader.List(ctx, list, client.InNamespace(missing.Namespace)) != nil {
		return nil
	}
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		if named, ok := item.(client.Object); ok {
			names = append(names, named.GetName())
		}
		return nil
	})
	return names
}

// unserved reports whether a kind is one of KubeVirt's or its companions', and Kiln neither judges nor reads it.
func unserved(kind schema.GroupVersionKind) bool {
	ofKubeVirt := kind.Group == v1.GroupVersion.Group || strings.HasSuffix(kind.Group, "."+v1.GroupVersion.Group)
	return ofKubeVirt && judges[kind.GroupKind()] == nil && kind.GroupKind() != v1.KubeVirtGroupVersionKind.GroupKind()
}

// servedByOthers reports whether a kind that is not served is none of KubeVirt's own: CDI serves its kinds itself.
func servedByOthers(kind schema.GroupVersionKind) bool {
	return kind.Group == cdi.SchemeGroupVersion.Group
}
