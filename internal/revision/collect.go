package revision

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/pkg/instancetype"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// MinGrace is the shortest grace period. It must exceed the duration of a request and the lag of a cache: a VM that was admitted with a revision before the
// mark is stored by then, or never will be.
const MinGrace = 10 * time.Minute

// collectInterval is the time between two collections.
const collectInterval = 5 * time.Minute

// Collector deletes revisions that no VM or VMI refers to, in two phases: it marks them, and deletes them after the grace period if still
// nothing refers to them. One phase would race with admission, which may be about to store a VM with the revision. Two clocks decide that the grace period
// is over: the clock of the mark, and for MinGrace the monotonic clock of this process.
type Collector struct {
	// Cached decides which revisions are marked. It may lag behind: a wrong mark is removed at the next collection and deletes nothing.
	Cached client.Reader
	// Live reads from the API server. Its consistent lists decide which revisions are deleted.
	Live client.Client
	// Grace is at least MinGrace.
	Grace time.Duration
	// Now must read a monotonic clock, as time.Now does.
	Now func() time.Time

	// firstSeen contains when this process first saw each mark. The time of the mark itself is from the clock of another process, which may be wrong.
	firstSeen map[markKey]time.Time
}

// markKey identifies a mark of a revision.
type markKey struct {
	revision types.UID
	since    string
}

// Start collects until the context ends. It is a manager.Runnable; without NeedLeaderElection, only the leader runs it.
func (c *Collector) Start(ctx context.Context) error {
	if c.Grace < MinGrace {
		return fmt.Errorf("the grace period of unused revisions must be at least %s, not %s", MinGrace, c.Grace)
	}
	tick := time.NewTicker(collectInterval)
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

// Collect marks and deletes revisions once. The error of one revision does not stop the others: Collect returns all errors.
func (c *Collector) Collect(ctx context.Context) error {
	revisions, err := listCollectable(ctx, c.Cached)
	if err != nil {
		return err
	}
	byNamespace := map[string][]appsv1.ControllerRevision{}
	for i := range revisions {
		byNamespace[revisions[i].Namespace] = append(byNamespace[revisions[i].Namespace], revisions[i])
	}
	c.rememberMarks(revisions)
	var errs []error
	for namespace, of := range byNamespace {
		errs = append(errs, c.collectNamespace(ctx, namespace, of))
	}
	return errors.Join(errs...)
}

// rememberMarks records when this process first saw each mark, and forgets the marks that are gone.
func (c *Collector) rememberMarks(revisions []appsv1.ControllerRevision) {
	now, before := c.Now(), c.firstSeen
	c.firstSeen = map[markKey]time.Time{}
	for i := range revisions {
		if !Marked(&revisions[i]) {
			continue
		}
		mark := markKeyOf(&revisions[i])
		if at, known := before[mark]; known {
			c.firstSeen[mark] = at
		} else {
			c.firstSeen[mark] = now
		}
	}
}

func markKeyOf(r *appsv1.ControllerRevision) markKey {
	return markKey{r.UID, r.Annotations[v1alpha1.AnnotationUnusedSince]}
}

// collectNamespace marks and deletes the revisions of one namespace. It does not list all VMs of the cluster at once, because a cache copies what it lists.
func (c *Collector) collectNamespace(ctx context.Context, namespace string, revisions []appsv1.ControllerRevision) error {
	used, err := listReferences(ctx, c.Cached, client.InNamespace(namespace))
	if err != nil {
		return err
	}
	var errs []error
	var expired []appsv1.ControllerRevision
	for i := range revisions {
		r := &revisions[i]
		switch since, marked := readMark(r); {
		case len(r.OwnerReferences) > 0:
			errs = append(errs, ignoreRaces(removeOwners(ctx, c.Live, r)))
		case used.contains(r):
			errs = append(errs, ignoreRaces(removeMark(ctx, c.Live, r)))
		case !marked:
			errs = append(errs, ignoreRaces(c.markUnused(ctx, r)))
		case c.Now().Sub(since) >= c.Grace && c.Now().Sub(c.firstSeen[markKeyOf(r)]) >= MinGrace:
			expired = append(expired, *r)
		}
	}
	if len(expired) > 0 {
		errs = append(errs, c.deleteUnused(ctx, expired))
	}
	return errors.Join(errs...)
}

// deleteUnused deletes the expired revisions that no VM or VMI of their namespace refers to. It lists them consistently and after the revisions, so the list
// contains each VM that was stored before. A VM that is admitted later removes the mark, which changes the resourceVersion, and the deletion fails.
func (c *Collector) deleteUnused(ctx context.Context, expired []appsv1.ControllerRevision) error {
	used, err := listReferences(ctx, c.Live, client.InNamespace(expired[0].Namespace), pageSize)
	if err != nil {
		return err
	}
	var errs []error
	for i := range expired {
		r := &expired[i]
		if used.contains(r) {
			errs = append(errs, ignoreRaces(removeMark(ctx, c.Live, r)))
			continue
		}
		seen := client.Preconditions{UID: &r.UID, ResourceVersion: &r.ResourceVersion}
		err := c.Live.Delete(ctx, r, seen)
		if err == nil {
			removalsTotal.Inc()
		} else if ignoreRaces(err) != nil {
			errs = append(errs, fmt.Errorf("removing the unused revision '%s' in namespace '%s': %w", r.Name, r.Namespace, err))
		}
	}
	return errors.Join(errs...)
}

// markUnused writes the time of the collection into the annotation kilnvm.io/unused-since, in UTC and seconds. It fails with a conflict if somebody has
// written the revision since it was read.
func (c *Collector) markUnused(ctx context.Context, r *appsv1.ControllerRevision) error {
	marked := r.DeepCopy()
	metav1.SetMetaDataAnnotation(&marked.ObjectMeta, v1alpha1.AnnotationUnusedSince, c.Now().UTC().Format(time.RFC3339))
	if err := objects.Patch(ctx, c.Live, marked, r); err != nil {
		return err
	}
	c.firstSeen[markKeyOf(marked)] = c.Now()
	return nil
}

// Marked reports whether the collector has marked a revision as unused.
func Marked(r metav1.Object) bool {
	_, marked := r.GetAnnotations()[v1alpha1.AnnotationUnusedSince]
	return marked
}

// readMark returns the time of the mark. A mark does not count if it cannot be parsed, or if it is older than the revision: then a backup tool has restored the
// revision with its mark, and may restore the VM that needs it next.
func readMark(r *appsv1.ControllerRevision) (time.Time, bool) {
	since, err := time.Parse(time.RFC3339, r.Annotations[v1alpha1.AnnotationUnusedSince])
	return since, err == nil && !since.Before(r.CreationTimestamp.Time)
}

// removeMark removes the mark, if there is one. It fails with a conflict if the revision was changed or deleted since it was read.
func removeMark(ctx context.Context, c client.Client, r *appsv1.ControllerRevision) error {
	if !Marked(r) {
		return nil
	}
	kept := r.DeepCopy()
	delete(kept.Annotations, v1alpha1.AnnotationUnusedSince)
	return objects.Patch(ctx, c, kept, r)
}

// removeOwners removes the owners of a revision: it belongs to all VMs of its namespace. KubeVirt's restore makes the VM the owner of the revision that
// spec.instancetype.revisionName names, and the garbage collector would delete it with that VM. Meanwhile the policy kiln-revision-writers prevents that.
// KubeVirt: claimInstancetypeControllerRevisionOwnership of pkg/storage/snapshot, v1.9.
func removeOwners(ctx context.Context, c client.Client, r *appsv1.ControllerRevision) error {
	free := r.DeepCopy()
	free.OwnerReferences = nil
	return objects.Patch(ctx, c, free, r)
}

// ignoreRaces drops the error of a lost race. The next collection decides again.
func ignoreRaces(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// listCollectable returns the revisions that Kiln may delete. KubeVirt's revisions are deleted with the VM that owns them.
func listCollectable(ctx context.Context, reader client.Reader) ([]appsv1.ControllerRevision, error) {
	var ours []appsv1.ControllerRevision
	err := forEachPage(ctx, reader, func(page *appsv1.ControllerRevisionList) {
		for _, r := range page.Items {
			if instancetype.Addressed(r.Name) && r.DeletionTimestamp == nil {
				ours = append(ours, r)
			}
		}
	}, client.HasLabels{Selector})
	return ours, err
}
