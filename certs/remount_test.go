package certs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestRemount: a pod of the webhook or of the API server that runs and is not ready is annotated, less often with time. Other pods are not changed.
func TestRemount(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	pod := func(account string, ready bool, running time.Duration) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "p"}, Spec: corev1.PodSpec{ServiceAccountName: account},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Ready: ready,
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now.Add(-running))}}}}}}
	}
	named := func(pod *corev1.Pod, name string) *corev1.Pod {
		pod.Name = name
		return pod
	}
	annotated := func(pod *corev1.Pod, value string) *corev1.Pod {
		pod.Annotations = map[string]string{v1alpha1.AnnotationRemounted: value}
		return pod
	}
	ago := func(d time.Duration) string { return now.Add(-d).Format(time.RFC3339Nano) }
	pulling := pod("kiln-webhook", false, time.Hour)
	pulling.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}
	ending := pod("kiln-webhook", false, time.Hour)
	ending.DeletionTimestamp, ending.Finalizers = &metav1.Time{Time: now}, []string{"a/b"}
	for _, c := range []struct {
		why     string
		pod     *corev1.Pod
		patched bool
		again   time.Duration
	}{
		{"the webhook without a certificate", pod("kiln-webhook", false, 4*time.Second), true, soon},
		{"the API server without a certificate", pod("kiln-apiserver", false, 4*time.Second), true, soon},
		{"a process that has just started", pod("kiln-webhook", false, time.Second), false, 2 * time.Second},
		{"a ready pod", pod("kiln-webhook", true, time.Hour), false, 0},
		{"a pod of others", pod("default", false, time.Hour), false, 0},
		{"the controller of another replica", pod("kiln-controller", false, time.Hour), false, 0},
		{"this controller, which is ready without its file", named(pod("kiln-controller", true, 4*time.Second), "without"), true, soon},
		{"this controller with its file", named(pod("kiln-controller", true, 4*time.Second), "with"), false, 0},
		{"an image that is pulled: its volumes are mounted when it starts", pulling, false, 0},
		{"a pod that ends", ending, false, 0},
		{"annotated a moment ago", annotated(pod("kiln-webhook", false, 10*time.Second), ago(500*time.Millisecond)), false, 1500 * time.Millisecond},
		{"annotated some time ago", annotated(pod("kiln-webhook", false, 10*time.Second), ago(2*time.Second)), true, soon},
		{"nobody makes the Secret", annotated(pod("kiln-webhook", false, time.Hour), ago(4*time.Second)), false, 6 * time.Second},
		{"still nobody makes the Secret", annotated(pod("kiln-webhook", false, time.Hour), ago(10*time.Second)), true, soon},
		{"annotated by a clock that is ahead", annotated(pod("kiln-webhook", false, time.Hour), ago(-time.Hour)), true, soon},
		{"annotated by somebody else", annotated(pod("kiln-webhook", false, time.Hour), "yes"), true, soon},
	} {
		stored := fake.NewClientBuilder().WithObjects(c.pod).Build()
		r := &Remount{Live: stored, pods: stored, Now: func() time.Time { return now }, Self: "without", File: filepath.Join(t.TempDir(), "ca.crt")}
		if c.pod.Name == "with" {
			r.Self = "with"
			if err := os.WriteFile(r.File, []byte("a CA"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(c.pod)})
		var got corev1.Pod
		if err := stored.Get(t.Context(), client.ObjectKeyFromObject(c.pod), &got); err != nil {
			t.Fatal(err)
		}
		if patched := got.Annotations[v1alpha1.AnnotationRemounted] == ago(0); err != nil || patched != c.patched || result.RequeueAfter != c.again {
			t.Errorf("%s: %v, annotated: %t, again after %s; want %t, %s", c.why, err, patched, result.RequeueAfter, c.patched, c.again)
		}
	}
}

// TestRemountErrors: a pod that is gone is no error, and what the API server refuses is.
func TestRemountErrors(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "p"}, Spec: corev1.PodSpec{ServiceAccountName: Service},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}}
	for _, c := range []struct {
		name    string
		refusal error
		fails   bool
	}{
		{"gone", nil, false}, {"p", apierrors.NewNotFound(corev1.Resource("pods"), "p"), false}, {"p", errors.New("no"), true},
	} {
		stored := fake.NewClientBuilder().WithObjects(pod.DeepCopy()).WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
				return c.refusal
			},
		}).Build()
		r := &Remount{Live: stored, pods: stored, Now: time.Now}
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "vms", Name: c.name}})
		if (err != nil) != c.fails {
			t.Errorf("%s, %v: %v", c.name, c.refusal, err)
		}
	}
}

// TestSlimPod: the cache keeps what Reconcile reads, and no more of other pods of the namespace.
func TestSlimPod(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "1", ResourceVersion: "2", Labels: map[string]string{"a": "b"},
			Annotations: map[string]string{"large": "text", v1alpha1.AnnotationRemounted: "then"}},
		Spec:   corev1.PodSpec{ServiceAccountName: Service, Containers: []corev1.Container{{Name: "c"}}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}},
	}
	got, err := slimPod(pod)
	slim, is := got.(*corev1.Pod)
	if err != nil || !is || len(slim.Labels)+len(slim.Spec.Containers) > 0 || len(slim.Annotations) != 1 || slim.UID != "1" || slim.ResourceVersion != "2" {
		t.Errorf("%v: %+v", err, got)
	}
	if _, waits := new(Remount).waitsForSecret(slim); !waits || lastRemount(slim) != lastRemount(pod) {
		t.Errorf("the slim pod is another one to Reconcile: %+v", slim)
	}
	if other, err := slimPod("text"); other != "text" || err != nil {
		t.Errorf("%v, %v", other, err)
	}
}
