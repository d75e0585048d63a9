// Package revision stores what VMs and VMIs are built from: content-addressed snapshots of instancetypes, preferences, presets, profiles and
// configurations, as ControllerRevisions in the namespace of the VMs that use them.
package revision

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/profile"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	api "kubevirt.io/api/instancetype"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Selector is the label that every revision has, Kiln's and KubeVirt's alike.
const Selector = api.ControllerRevisionObjectKindLabel

// Draft is a revision to be written into a namespace. The revision may exist already, because a cache may lag behind.
type Draft struct {
	Namespace string
	instancetype.Snapshot
	// Labels name the object that had this content first. People and tools read them; they are not part of the identity of the revision.
	Labels map[string]string
}

// NewDraft returns the revision of a live object for a namespace, with KubeVirt's labels.
func NewDraft(namespace string, object *unstructured.Unstructured) (Draft, error) {
	err := checkSize(object)
	var snapshot instancetype.Snapshot
	if err == nil {
		snapshot, err = takeSnapshot(object.Object)
	}
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
		// Names of objects have up to 253 characters, label values up to 63. The data has the whole name.
		if value == "" || len(validation.IsValidLabelValue(value)) > 0 {
			delete(labels, key)
		}
	}
	return Draft{Namespace: namespace, Snapshot: snapshot, Labels: labels}, nil
}

// takeSnapshot returns the snapshot of a live object: of a profile with the CPU that its nodes have in common.
func takeSnapshot(object map[string]any) (instancetype.Snapshot, error) {
	return instancetype.Take(profile.WithCommonCPU(object))
}

// Object returns the ControllerRevision of a draft. It has no owner, because all VMs of an instancetype share it; the Collector deletes it. It does not share
// memory with the draft, which many requests use, because a client decodes the answer of the API server into the object that it sends.
func (d Draft) Object() *appsv1.ControllerRevision {
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Name: d.Name, Namespace: d.Namespace, Labels: maps.Clone(d.Labels)},
		Data:       runtime.RawExtension{Raw: bytes.Clone(d.Data)},
	}
}

// Write creates the revisions of drafts. A revision that exists, because another replica or VM was faster, is accepted if its content matches its name. If the
// collector has marked it, the mark is removed, so that the revision stays. The client must read from the API server, because a cache may not contain the
// revision yet.
func Write(ctx context.Context, c client.Client, drafts ...Draft) error {
	for _, draft := range drafts {
		result, err := writeDraft(ctx, c, draft)
		writesTotal.WithLabelValues(result).Inc()
		if err != nil {
			return fmt.Errorf("writing revision '%s': %w", draft.Name, err)
		}
	}
	return nil
}

// writeAttempts bounds the races with the collector and with others that remove its mark. Losing one race is likely under load, losing five is not.
const writeAttempts = 5

// writeDraft creates one revision, and returns the result for metrics.
func writeDraft(ctx context.Context, c client.Client, draft Draft) (string, error) {
	var err error
	for range writeAttempts {
		if err = c.Create(ctx, draft.Object()); err == nil {
			return resultCreated, nil
		} else if !apierrors.IsAlreadyExists(err) {
			return resultFailed, err
		}
		existing := &appsv1.ControllerRevision{}
		err = c.Get(ctx, client.ObjectKey{Namespace: draft.Namespace, Name: draft.Name}, existing)
		if err == nil {
			if err = Verify(existing); err != nil {
				return resultFailed, err
			}
			err = removeMark(ctx, c, existing)
		}
		if err == nil {
			return resultShared, nil
		} else if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return resultFailed, err
		}
	}
	return resultFailed, err
}
