package resolve

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/nearest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kindSnapshot is the kind of a VirtualMachineSnapshot.
const kindSnapshot = "VirtualMachineSnapshot"

// Extender is a profile that extends another one.
type Extender struct{ Kind, Namespace, Name string }

// MissingBase returns a base that does not exist. refused is the error of a name that no object can have; nil for other names.
func (e Extender) MissingBase(at *field.Path, kind, name, warning string, refused *field.Error) Missing {
	m := Missing{Path: at, Value: name, Kind: cmp.Or(kind, e.Kind), Warning: warning, refused: refused, otherKind: profiles.Cluster}
	if m.Kind == profiles.Namespaced {
		m.Namespace = e.Namespace
	} else {
		m.otherKind, m.otherNamespace = profiles.Namespaced, e.Namespace
	}
	if m.Kind == e.Kind {
		m.self = e.Name
	}
	if e.Kind == v1alpha1.KindClusterGuestProfile {
		m.otherForbidden = "a ClusterGuestProfile extends only ClusterGuestProfiles"
	}
	return m
}

// Referred is a reference of a snapshot, restore or clone to a VM or a snapshot of its namespace.
type Referred struct {
	Path            *field.Path
	Kind, Namespace string
	Name            string
	// Either reports that the reference may name a VM or a snapshot.
	Either bool
	// Without is what happens without the object, as the end of the warning; empty for no warning.
	Without string
	// MadeAnew reports that the object need not exist, because it is created. Then Warn warns only if another object has a similar name.
	MadeAnew bool
	// Refused is the error of a name that no object can have; nil for other names.
	Refused *field.Error
}

// hintLimit is how long the reads of Warn may take. An API server waits five seconds for a webhook, and a missing hint must not refuse a snapshot.
const hintLimit = time.Second

// Warn returns the warning about an object that does not exist, with a hint. It is empty if the object exists, or if the author of the request may not list
// such objects: only users with this right learn what exists. For a name that no object can have, Warn adds the hint to the error instead.
func (s Suggester) Warn(ctx context.Context, to Referred) string {
	missing := Missing{Path: to.Path, Value: to.Name, Kind: to.Kind, Namespace: to.Namespace, refused: to.Refused,
		Warning: fmt.Sprintf("%s: %s '%s' does not exist: %s", to.Path, to.Kind, nearest.Short(to.Name), to.Without)}
	if to.Either {
		missing.otherKind, missing.otherNamespace = kindSnapshot, to.Namespace
		if to.Kind == kindSnapshot {
			missing.otherKind = v1.VirtualMachineGroupVersionKind.Kind
		}
	}
	ctx, cancel := context.WithTimeout(ctx, hintLimit)
	defer cancel()
	switch {
	case to.Refused != nil:
		s.Hint(ctx, &missing)
		return ""
	case to.Without == "" || !s.mayList(ctx, missing) || !s.isAbsent(ctx, missing):
		return ""
	}
	plain := missing.Warning
	if s.Hint(ctx, &missing); to.MadeAnew && missing.Warning == plain {
		return ""
	}
	return missing.Warning
}

// isAbsent reports whether an object does not exist. It reads the API server, because the cache does not have the kind. It returns false for an object that
// cannot be read.
func (s Suggester) isAbsent(ctx context.Context, missing Missing) bool {
	key := client.ObjectKey{Namespace: missing.Namespace, Name: missing.Value}
	if !validKey(key) {
		return false
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(missing.allOfKind().GroupVersionKind)
	return apierrors.IsNotFound(s.liveReader().Get(ctx, key, object))
}
