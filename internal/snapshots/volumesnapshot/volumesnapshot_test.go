package volumesnapshot

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/test/fakecluster"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func class(name, driver, isDefault string) *unstructured.Unstructured {
	object := NewObject(ClassKind)
	object.SetName(name)
	object.SetAnnotations(map[string]string{defaultClassAnnotation: isDefault})
	object.Object["driver"] = driver
	return object
}

// TestClasses: the only class of a driver is used, and of several the default one.
func TestClasses(t *testing.T) {
	const driver = "csi.example.com"
	for why, test := range map[string]struct {
		classes []client.Object
		want    string
	}{
		"none":                    {nil, ""},
		"one":                     {[]client.Object{class("a", driver, "")}, "a"},
		"one of another driver":   {[]client.Object{class("a", "other", "")}, ""},
		"several, and no default": {[]client.Object{class("a", driver, ""), class("b", driver, "false")}, ""},
		"several with a default":  {[]client.Object{class("a", driver, ""), class("b", driver, "true")}, "b"},
	} {
		storage := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: driver}
		cluster, _ := fakecluster.New(t, append(test.classes, storage)...)
		classes, err := ListClasses(t.Context(), cluster.Live)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := classes.NameFor(t.Context(), cluster.Live, "fast"); err != nil || got != test.want {
			t.Errorf("%s: '%s', want '%s', %v", why, got, test.want, err)
		}
		if got, err := classes.NameFor(t.Context(), cluster.Live, "gone"); err != nil || got != "" {
			t.Errorf("%s: a StorageClass that does not exist: '%s', %v", why, got, err)
		}
	}
}

// TestRestoreSize: the size is nil until the driver has reported one, and an error if the VolumeSnapshot is gone.
func TestRestoreSize(t *testing.T) {
	key := types.NamespacedName{Namespace: "team", Name: "root"}
	for why, test := range map[string]struct {
		status map[string]any
		want   string
	}{
		"no status":      {nil, ""},
		"a size":         {map[string]any{"restoreSize": "2Gi"}, "2Gi"},
		"not a size":     {map[string]any{"restoreSize": "much"}, ""},
		"ready, no size": {map[string]any{"readyToUse": true}, ""},
	} {
		object := NewObject(Kind)
		object.SetNamespace(key.Namespace)
		object.SetName(key.Name)
		if test.status != nil {
			object.Object["status"] = test.status
		}
		cluster, _ := fakecluster.New(t, object)
		size, err := RestoreSize(t.Context(), cluster.Live, key)
		if err != nil || (size == nil) != (test.want == "") || size != nil && size.String() != test.want {
			t.Errorf("%s: %v, want '%s', %v", why, size, test.want, err)
		}
	}
	cluster, _ := fakecluster.New(t)
	if _, err := RestoreSize(t.Context(), cluster.Live, key); !apierrors.IsNotFound(err) {
		t.Errorf("a VolumeSnapshot that is gone: %v", err)
	}
}

// TestLabelValue: a name of any length becomes a legal value of a label.
func TestLabelValue(t *testing.T) {
	for name, want := range map[string]string{
		"web": "web", strings.Repeat("a", 64): strings.Repeat("a", 63), strings.Repeat("a", 62) + ".b": strings.Repeat("a", 62),
	} {
		if got := labelValue(name); got != want {
			t.Errorf("'%s': '%s', want '%s'", name, got, want)
		}
	}
}
