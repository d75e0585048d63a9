package certs

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Remount makes kubelet mount the Secrets of a pod of Kiln again while the pod runs and waits for a Secret. The pods start without their certificate, and
// wait for it. kubelet updates mounted Secrets when it syncs a pod: every 60 to 90 seconds, and at once when the pod changes. So Remount changes an
// annotation of the pod. A mount that is not optional would not be faster: kubelet tries it again after pauses that double up to two minutes. The processes
// could read the Secret themselves, but then they could read the key of the CA, too.
type Remount struct {
	// Live patches pods without the cache.
	Live client.Client
	// Namespace is the namespace of the pods.
	Namespace string
	// Self is the name of this process' pod, and File the file that the process reads from a mounted Secret: its pod is ready without the file. File is empty if
	// it reads none.
	Self, File string
	Now        func() time.Time

	pods client.Reader
}

// Register adds the controller to a manager, with a cache of the pods of the namespace: the cache of the manager may lack them.
func (r *Remount) Register(mgr ctrl.Manager) error {
	pods, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultNamespaces: map[string]cache.Config{r.Namespace: {}}, DefaultTransform: slimPod,
	})
	if err != nil {
		return err
	}
	if err := mgr.Add(pods); err != nil {
		return err
	}
	r.pods = pods
	return ctrl.NewControllerManagedBy(mgr).Named("remount").
		WatchesRawSource(source.Kind(pods, &corev1.Pod{}, &handler.TypedEnqueueRequestForObject[*corev1.Pod]{})).Complete(r)
}

// slimPod keeps what Reconcile reads of a pod.
func slimPod(object any) (any, error) {
	pod, is := object.(*corev1.Pod)
	if !is {
		return object, nil
	}
	slim := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			DeletionTimestamp: pod.DeletionTimestamp},
		Spec: corev1.PodSpec{ServiceAccountName: pod.Spec.ServiceAccountName},
	}
	if last, is := pod.Annotations[v1alpha1.AnnotationRemounted]; is {
		slim.Annotations = map[string]string{v1alpha1.AnnotationRemounted: last}
	}
	for _, status := range pod.Status.ContainerStatuses {
		slim.Status.ContainerStatuses = append(slim.Status.ContainerStatuses, corev1.ContainerStatus{Ready: status.Ready, State: status.State})
	}
	return slim, nil
}

// settles is how long a process with a certificate may take to become ready. Afterwards a pod that is not ready is annotated at the interval soon, and at the
// interval late if the Secret is still missing after patient.
const (
	settles = 3 * time.Second
	soon    = 2 * time.Second
	patient = time.Minute
	late    = 10 * time.Second
)

// Reconcile annotates a pod that waits for a Secret, if its next annotation is due.
func (r *Remount) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var pod corev1.Pod
	if err := r.pods.Get(ctx, request.NamespacedName, &pod); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	since, waits := r.waitsForSecret(&pod)
	if !waits {
		return ctrl.Result{}, nil
	}
	now := r.Now()
	if wait := untilRemount(now.Sub(since), now.Sub(lastRemount(&pod))); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "annotations": map[string]any{v1alpha1.AnnotationRemounted: now.UTC().Format(time.RFC3339Nano)},
	}})
	if err != nil {
		return ctrl.Result{}, err
	}
	ctrl.LoggerFrom(ctx).V(1).Info("kubelet mounts the Secrets of the pod again, because it waits for one")
	err = r.Live.Patch(ctx, &pod, client.RawPatch(types.MergePatchType, patch))
	return ctrl.Result{RequeueAfter: soon}, client.IgnoreNotFound(err)
}

// waitsForSecret reports whether a pod waits for a Secret, and since when the pod runs. A pod of the webhook or of the API server waits if it is not ready,
// and the pod of this process if its file is missing. The service accounts of webhook and API server have the names of their Services.
func (r *Remount) waitsForSecret(pod *corev1.Pod) (since time.Time, waits bool) {
	self := r.File != "" && pod.Name == r.Self
	if !self && !slices.Contains([]string{Service, APIServerService}, pod.Spec.ServiceAccountName) || pod.DeletionTimestamp != nil {
		return since, false
	}
	if self {
		if content, err := os.Stat(r.File); err == nil && content.Size() > 0 {
			return since, false
		}
	}
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Running != nil && (self || !status.Ready) {
			return status.State.Running.StartedAt.Time, true
		}
	}
	return since, false
}

// lastRemount returns when the pod was annotated; the zero time if it never was, or if somebody else wrote the annotation.
func lastRemount(pod *corev1.Pod) time.Time {
	last, _ := time.Parse(time.RFC3339Nano, pod.Annotations[v1alpha1.AnnotationRemounted])
	return last
}

// untilRemount returns the time until the next annotation of a pod that has been running for a time, and was annotated a time ago.
func untilRemount(running, ago time.Duration) time.Duration {
	pause := soon
	if running > patient {
		pause = late
	}
	if ago < 0 { // by another clock, or not by this controller
		ago = pause
	}
	return max(settles-running, pause-ago)
}
