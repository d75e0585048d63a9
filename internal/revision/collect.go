package revision

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/instancetype"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// LeastGrace bounds the grace period from below. It must be longer than any request lives and than any cache lags behind:
// a request that was admitted with a revision before it was marked has then stored its VM, or never will.
const LeastGrace = 10 * time.Minute

// Interval is how often the collector looks.
const Interval = 5 * time.Minute

// Collector removes revisions that no guest was made from, in two phases: it marks them, and deletes them after the grace
// period if still nothing refers to them.
type Collector struct {
	// Cached decides what is marked. It may lag behind: a wrong mark is taken away again, and never deletes by itself.
	Cached client.Reader
	// Live is the API server. What it lists is consistent, and what is deleted is decided by that.
	Live client.Client
	// Grace is at least LeastGrace.
	Grace time.Duration
	Now   func() time.Time
}

// Start collects until the context ends. It is a runnable of a manager: of several replicas, only the leader runs it.
func (c *Collector) Start(ctx context.Context) error {
	if c.Grace < LeastGrace {
		return fmt.Errorf("the grace period of unused revisions must be at least %s, not %s", LeastGrace, c.Grace)
	}
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	for {
		if err := c.Collect(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "collecting unused revisions")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Collect is one look at all revisions. An error on one of them keeps none of the others.
func (c *Collector) Collect(ctx context.Context) error {
	revisions, err := owned(ctx, c.Cached)
	if err != nil {
		return err
	}
	used, err := references(ctx, c.Cached)
	if err != nil {
		return err
	}
	var errs []error
	var expired []appsv1.ControllerRevision
	for i := range revisions {
		r := &revisions[i]
		switch since, marked := markOf(r); {
		case used.has(r):
			errs = append(errs, ignoreRaces(unmark(ctx, c.Live, r)))
		case !marked:
			errs = append(errs, ignoreRaces(c.mark(ctx, r)))
		case c.Now().Sub(since) >= c.Grace:
			expired = append(expired, *r)
		}
	}
	if len(expired) > 0 {
		errs = append(errs, c.remove(ctx, expired))
	}
	return errors.Join(errs...)
}

// remove deletes what is unused by a consistent list. That list is read after the revisions: whoever began to use one
// before is on it, and whoever does so later takes the mark away, by which the resource version that is deleted is gone.
func (c *Collector) remove(ctx context.Context, expired []appsv1.ControllerRevision) error {
	used, err := references(ctx, c.Live, pageSize)
	if err != nil {
		return err
	}
	var errs []error
	for i := range expired {
		r := &expired[i]
		if used.has(r) {
			errs = append(errs, ignoreRaces(unmark(ctx, c.Live, r)))
			continue
		}
		seen := client.Preconditions{UID: &r.UID, ResourceVersion: &r.ResourceVersion}
		if err := ignoreRaces(c.Live.Delete(ctx, r, seen)); err != nil {
			errs = append(errs, fmt.Errorf("removing the unused revision '%s' in namespace '%s': %w", r.Name, r.Namespace, err))
		}
	}
	return errors.Join(errs...)
}

func (c *Collector) mark(ctx context.Context, r *appsv1.ControllerRevision) error {
	marked := r.DeepCopy()
	metav1.SetMetaDataAnnotation(&marked.ObjectMeta, v1alpha1.AnnotationUnusedSince, c.Now().UTC().Format(time.RFC3339))
	return c.Live.Patch(ctx, marked, client.MergeFromWithOptions(r, client.MergeFromWithOptimisticLock{}))
}

// Marked reports whether the collector is about to remove a revision.
func Marked(r *appsv1.ControllerRevision) bool {
	_, marked := r.Annotations[v1alpha1.AnnotationUnusedSince]
	return marked
}

// markOf is the time of the mark. It does not count when it cannot be read, or is older than the revision: a backup tool has
// then restored it with the mark of its former life, and the VM that needs it is still to come.
func markOf(r *appsv1.ControllerRevision) (time.Time, bool) {
	since, err := time.Parse(time.RFC3339, r.Annotations[v1alpha1.AnnotationUnusedSince])
	return since, err == nil && !since.Before(r.CreationTimestamp.Time)
}

// unmark takes the mark away, if there is one. A conflict means that the revision has changed, or is gone.
func unmark(ctx context.Context, c client.Client, r *appsv1.ControllerRevision) error {
	if !Marked(r) {
		return nil
	}
	kept := r.DeepCopy()
	delete(kept.Annotations, v1alpha1.AnnotationUnusedSince)
	return c.Patch(ctx, kept, client.MergeFromWithOptions(r, client.MergeFromWithOptimisticLock{}))
}

// ignoreRaces drops the error of a lost race: somebody else has changed or removed the revision, and the next look decides.
func ignoreRaces(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// owned are the revisions that are Kiln's to remove. KubeVirt's go with the VM that owns them.
func owned(ctx context.Context, reader client.Reader) ([]appsv1.ControllerRevision, error) {
	var ours []appsv1.ControllerRevision
	err := each(ctx, reader, func(page *appsv1.ControllerRevisionList) {
		for _, r := range page.Items {
			if instancetype.Addressed(r.Name) && len(r.OwnerReferences) == 0 && r.DeletionTimestamp == nil {
				ours = append(ours, r)
			}
		}
	}, client.HasLabels{Selector})
	return ours, err
}
