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

// Extender is the profile that has a reference to another one.
type Extender struct{ Kind, Namespace, Name string }

// MissingBase is a profile that another one extends, and that does not exist. refused is the error of a name that no object can have; nil for others.
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
		m.otherForbidden = "a ClusterGuestProfile extends ClusterGuestProfiles alone"
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
	// Without is what happens without the object; empty where nothing is to be said.
	Without string
	// MadeAnew reports that the object need not exist. It is warned of only where another one has nearly its name.
	MadeAnew bool
	// Refused is the error of a name that no object can have; nil for others.
	Refused *field.Error
}

// hintLimit is how long the reads of Warn may take. An API server waits five seconds for a webhook, and a snapshot is not refused for want of a hint.
const hintLimit = time.Second

// Warn returns the warning of an object that does not exist, with what was probably meant; empty if it exists, or if whoever asks may not list such objects.
// Nobody else learns what exists. The error of a name that no object can have gets what was meant.
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

// isAbsent reports whether an object does not exist. It is read past the cache, which has none of its kind, and of one that cannot be read nothing is said.
func (s Suggester) isAbsent(ctx context.Context, missing Missing) bool {
	key := client.ObjectKey{Namespace: missing.Namespace, Name: missing.Value}
	if !validKey(key) {
		return false
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(missing.siblings().GroupVersionKind)
	return apierrors.IsNotFound(s.uncached().Get(ctx, key, object))
}
