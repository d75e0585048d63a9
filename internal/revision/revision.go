// Package revision stores what VMs and VMIs were built from: content-addressed snapshots of instancetypes and preferences, as
// ControllerRevisions in the namespace of the guests that use them.
package revision

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/kilnvm/kiln/pkg/instancetype"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	api "kubevirt.io/api/instancetype"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Selector matches every revision that holds an instancetype or a preference, Kiln's and KubeVirt's alike.
const Selector = api.ControllerRevisionObjectKindLabel

// Draft is a snapshot that its namespace lacks, as far as is known.
type Draft struct {
	Namespace string
	instancetype.Snapshot
	// Labels say which object was seen first with this content. They are for people and tools; not part of its identity.
	Labels map[string]string
}

// NewDraft makes the snapshot of a live instancetype or preference for a namespace.
func NewDraft(namespace string, object *unstructured.Unstructured) (Draft, error) {
	snapshot, err := instancetype.Take(object.Object)
	if err != nil {
		return Draft{}, fmt.Errorf("taking the snapshot of %s '%s': %w", object.GetKind(), object.GetName(), err)
	}
	labels := map[string]string{
		api.ControllerRevisionObjectGenerationLabel: strconv.FormatInt(object.GetGeneration(), 10),
		api.ControllerRevisionObjectKindLabel:       strings.ToLower(object.GetKind()),
		api.ControllerRevisionObjectNameLabel:       object.GetName(),
		api.ControllerRevisionObjectUIDLabel:        string(object.GetUID()),
		api.ControllerRevisionObjectVersionLabel:    object.GroupVersionKind().Version,
	}
	for key, value := range labels {
		// Names of objects may be 253 characters long, values of labels 63. The data holds the whole name.
		if value == "" || len(validation.IsValidLabelValue(value)) > 0 {
			delete(labels, key)
		}
	}
	return Draft{Namespace: namespace, Snapshot: snapshot, Labels: labels}, nil
}

// Object is the ControllerRevision of a draft. It has no owner: all VMs of an instancetype share it.
func (d Draft) Object() *appsv1.ControllerRevision {
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Name: d.Name, Namespace: d.Namespace, Labels: d.Labels},
		Data:       runtime.RawExtension{Raw: d.Data},
	}
}

// Write creates the drafts. One that is there already, because another replica or another guest was faster, is fine when
// its content is what its name says; if the collector has marked it, the mark is taken away, so that it stays. c must read
// from the API server itself, since a cache may not know it yet.
func Write(ctx context.Context, c client.Client, drafts ...Draft) error {
	for _, draft := range drafts {
		if err := write(ctx, c, draft); err != nil {
			return fmt.Errorf("writing revision '%s': %w", draft.Name, err)
		}
	}
	return nil
}

// attempts bound the races with a collector, and with others that take a mark away: each loses once.
const attempts = 5

func write(ctx context.Context, c client.Client, draft Draft) error {
	var err error
	for range attempts {
		if err = c.Create(ctx, draft.Object()); !apierrors.IsAlreadyExists(err) {
			return err
		}
		existing := &appsv1.ControllerRevision{}
		err = c.Get(ctx, client.ObjectKey{Namespace: draft.Namespace, Name: draft.Name}, existing)
		if err == nil {
			if err = Verify(existing); err != nil {
				return err
			}
			err = unmark(ctx, c, existing)
		}
		if err == nil || !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return err
		}
	}
	return err
}
