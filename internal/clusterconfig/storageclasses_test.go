package clusterconfig

import (
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
