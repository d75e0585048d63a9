package clusterconfig

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/kilnvm/kiln/pkg/config"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestDefaultClass: the newest default StorageClass counts, then the first by name; others never count.
func TestDefaultClass(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	class := func(name, isDefault string, age time.Duration) storagev1.StorageClass {
		return storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(began.Add(-age)),
			Annotations: map[string]string{defaultClassAnnotation: isDefault}}}
	}
	for name, c := range map[string]struct {
		classes []storagev1.StorageClass
		want    string
	}{
		"no class":           {},
		"none is default":    {classes: []storagev1.StorageClass{class("a", "false", 0), class("b", "", 0), {ObjectMeta: metav1.ObjectMeta{Name: "c"}}}},
		"one":                {classes: []storagev1.StorageClass{class("a", "false", 0), class("b", "true", time.Hour)}, want: "b"},
		"the newest":         {classes: []storagev1.StorageClass{class("a", "true", time.Hour), class("b", "true", 0)}, want: "b"},
		"of the same second": {classes: []storagev1.StorageClass{class("b", "true", 0), class("a", "true", 0)}, want: "a"},
	} {
		if got := defaultClass(c.classes); got != c.want {
			t.Errorf("%s: '%s', want '%s'", name, got, c.want)
		}
	}
}

// TestClassesWithoutTheRight: a process without the right to read StorageClasses does not watch them, logs this once, and gets ready. The process watches
// StorageClasses as soon as it has the right.
func TestClassesWithoutTheRight(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := storagev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{storagev1.SchemeGroupVersion})
	mapper.Add(storagev1.SchemeGroupVersion.WithKind("StorageClass"), meta.RESTScopeRoot)
	forbidden := true
	live := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if forbidden {
				return apierrors.NewForbidden(storagev1.Resource("storageclasses"), "", errors.New("no right"))
			}
			return c.List(ctx, list, options...)
		},
	}).Build()
	logged := 0
	w := &Watcher{Cache: listing{&informertest.FakeInformers{Scheme: scheme}, live}, Mapper: mapper, Live: live, Runtime: config.RuntimePod,
		Log: funcr.New(func(_, args string) {
			if strings.Contains(args, "StorageClasses") {
				logged++
			}
		}, funcr.Options{})}
	w.FollowKubeVirt(t.Context(), func(context.Context) (bool, error) { return false, nil })
	for range 2 {
		if err := w.watchClasses(t.Context()); err != nil || w.classes.Load() != nil || !w.Synced() {
			t.Fatalf("without the right: %v, watched %v, synced %v", err, w.classes.Load() != nil, w.Synced())
		}
	}
	if logged != 1 {
		t.Errorf("it was logged %d times", logged)
	}
	forbidden = false
	if err := w.watchClasses(t.Context()); err != nil || w.classes.Load() == nil {
		t.Errorf("with the right: %v, watched %v", err, w.classes.Load() != nil)
	}
}
