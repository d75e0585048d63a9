package instancetype

import (
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	lifecycle = v1alpha1.LabelLifecycle
	kubeVirts = v1alpha1.LabelDeprecated
	replaced  = v1alpha1.AnnotationReplacedBy
	after     = v1alpha1.AnnotationObsoleteAfter
)

// noon is when the tables read.
var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func TestReadLifecycle(t *testing.T) {
	for _, test := range []struct {
		why                 string
		labels, annotations map[string]string
		state, notice       string
	}{
		{"nothing is said", nil, nil, "active", ""},
		{"active", map[string]string{lifecycle: "active"}, nil, "active", ""},
		{"a replacement alone announces nothing", nil, map[string]string{replaced: "u2"}, "active", ""},
		{"deprecated", map[string]string{lifecycle: "deprecated"}, nil, "deprecated",
			"is deprecated without replacement: choose another"},
		{"with its replacement", map[string]string{lifecycle: "deprecated"}, map[string]string{replaced: "u2"}, "deprecated", "is deprecated: use 'u2'"},
		{"KubeVirt's key", map[string]string{kubeVirts: "true"}, map[string]string{replaced: "u2"}, "deprecated", "is deprecated: use 'u2'"},
		{"KubeVirt's key denies", map[string]string{kubeVirts: "false"}, nil, "active", ""},
		{"the stronger key counts", map[string]string{kubeVirts: "true", lifecycle: "active"}, nil, "deprecated",
			"is deprecated without replacement: choose another"},
		{"obsolete is stronger than deprecated", map[string]string{kubeVirts: "true", lifecycle: "obsolete"}, nil, "obsolete",
			"is obsolete without replacement: choose another"},
		{"an end to come is a warning", nil, map[string]string{after: "2026-11-22T12:00:01Z", replaced: "u2"}, "deprecated",
			"is deprecated: use 'u2'; obsolete after 2026-11-22T12:00:01Z"},
		{"the end is now", nil, map[string]string{after: "2026-11-22T12:00:00Z"}, "obsolete", "is obsolete without replacement: choose another"},
		{"the end of another time zone has passed", nil, map[string]string{after: "2026-11-22T12:30:00+01:00", replaced: "u2"}, "obsolete",
			"is obsolete: use 'u2'"},
		{"an end to come does not revive", map[string]string{lifecycle: "obsolete"}, map[string]string{after: "2027-01-01T00:00:00Z"}, "obsolete",
			"is obsolete without replacement: choose another"},
	} {
		got := ReadLifecycle(&metav1.ObjectMeta{Name: "u1", Labels: test.labels, Annotations: test.annotations}, noon)
		if got.State != test.state || got.Notice() != test.notice || len(got.Mistakes) > 0 || len(got.Warnings()) > 0 {
			t.Errorf("%s: %s, '%s', mistakes %v; want %s, '%s'", test.why, got.State, got.Notice(), got.Mistakes, test.state, test.notice)
		}
		if got.Obsolete() != (test.state == "obsolete") {
			t.Errorf("%s: obsolete is %t", test.why, got.Obsolete())
		}
	}
}

// TestIllegibleLifecycle: what cannot be read is reported, and has no effect.
func TestIllegibleLifecycle(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	for _, test := range []struct {
		why                 string
		labels, annotations map[string]string
		want                string
	}{
		{"no state", map[string]string{lifecycle: "obsolet"}, nil,
			`metadata.labels[kilnvm.io/lifecycle]: Invalid value: "obsolet": must be 'active', 'deprecated' or 'obsolete'`},
		{"an empty state", map[string]string{lifecycle: ""}, nil,
			`metadata.labels[kilnvm.io/lifecycle]: Invalid value: "": must be 'active', 'deprecated' or 'obsolete'`},
		{"neither true nor false", map[string]string{kubeVirts: "yes"}, nil,
			`metadata.labels[instancetype.kubevirt.io/deprecated]: Invalid value: "yes": must be 'true' or 'false'`},
		{"control characters", nil, map[string]string{replaced: "u2\n\x1b[31mError: from server"},
			`metadata.annotations[kilnvm.io/replaced-by]: Invalid value: "u2\n\x1b[31mError: from server": must be the name of an object of this kind`},
		{"100 KiB", nil, map[string]string{replaced: long},
			`metadata.annotations[kilnvm.io/replaced-by]: Invalid value: "` + long[:64] + `…": must be the name of an object of this kind`},
		{"cut inside of a character", nil, map[string]string{replaced: long[:63] + strings.Repeat("é", 99)},
			`metadata.annotations[kilnvm.io/replaced-by]: Invalid value: "` + long[:63] + `…": must be the name of an object of this kind`},
		{"itself", nil, map[string]string{replaced: "u1"}, `metadata.annotations[kilnvm.io/replaced-by]: Invalid value: "u1": must be another object`},
		{"year 99999", nil, map[string]string{after: "99999-01-01T00:00:00Z"},
			`metadata.annotations[kilnvm.io/obsolete-after]: Invalid value: "99999-01-01T00:00:00Z": must be a time as of RFC 3339, such as '2027-01-31T00:00:00Z'`},
		{"an offset of 24 hours", nil, map[string]string{after: "2026-01-01T00:00:00+24:00"},
			`metadata.annotations[kilnvm.io/obsolete-after]: Invalid value: "2026-01-01T00:00:00+24:00": must be a time as of RFC 3339, such as '2027-01-31T00:00:00Z'`},
		{"a day is no time", nil, map[string]string{after: "2026-01-01"},
			`metadata.annotations[kilnvm.io/obsolete-after]: Invalid value: "2026-01-01": must be a time as of RFC 3339, such as '2027-01-31T00:00:00Z'`},
		{"a state among the annotations", nil, map[string]string{lifecycle: "obsolete"},
			`metadata.annotations[kilnvm.io/lifecycle]: Invalid value: "obsolete": must be a label`},
		{"a replacement among the labels", map[string]string{replaced: "u2"}, nil,
			`metadata.labels[kilnvm.io/replaced-by]: Invalid value: "u2": must be an annotation`},
	} {
		got := ReadLifecycle(&metav1.ObjectMeta{Name: "u1", Labels: test.labels, Annotations: test.annotations}, noon)
		if got.State != "active" || got.ReplacedBy != "" || !got.ObsoleteAfter.IsZero() {
			t.Errorf("%s: has an effect: %+v", test.why, got)
		}
		path, _, _ := strings.Cut(test.want, ":")
		if diff := cmp.Diff([]string{path + " has no effect: illegible"}, got.Warnings()); diff != "" {
			t.Errorf("%s: -want +got\n%s", test.why, diff)
		}
		for _, m := range got.Mistakes {
			if text := m.Error(); m.Origin == "" || text != test.want || strings.ContainsFunc(text, unicode.IsControl) {
				t.Errorf("%s: %s of rule '%s'", test.why, text, m.Origin)
			}
		}
	}
}

// TestIllegibleNextToLegible: one illegible value takes nothing from the others.
func TestIllegibleNextToLegible(t *testing.T) {
	got := ReadLifecycle(&metav1.ObjectMeta{
		Labels:      map[string]string{lifecycle: "gone", kubeVirts: "true"},
		Annotations: map[string]string{after: "soon", replaced: "u2"},
	}, noon)
	if got.State != "deprecated" || got.ReplacedBy != "u2" || len(got.Mistakes) != 2 {
		t.Errorf("got %+v", got)
	}
}
