package instancetype

import (
	"regexp"
	"slices"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/shorten"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Metadata: label kilnvm.io/lifecycle, annotations kilnvm.io/replaced-by and kilnvm.io/obsolete-after, and label
// instancetype.kubevirt.io/deprecated, of instancetypes and preferences.
// A new VM with a deprecated object gets a warning, and with an obsolete object it is refused. Existing VMs are pinned to a revision, which has no metadata, so
// that the lifecycle does not concern them.

// Lifecycle is the lifecycle in the metadata of an instancetype or preference as of a time.
type Lifecycle struct {
	// State is v1alpha1.LifecycleActive, LifecycleDeprecated or LifecycleObsolete.
	State string
	// ReplacedBy is the name of the object to use instead, of the same kind and namespace. It is empty, or a legal name.
	ReplacedBy string
	// ObsoleteAfter is the time at which the object becomes or became obsolete; zero if the object does not have this annotation.
	ObsoleteAfter time.Time
	// Mistakes are errors about values that cannot be read. Such values have no effect, because a mistake must not refuse VMs. The paths are below metadata.
	Mistakes field.ErrorList
}

// lifecycleStates are in the order of their strength: if an object has several states, the last one in this list counts.
var lifecycleStates = []string{v1alpha1.LifecycleActive, v1alpha1.LifecycleDeprecated, v1alpha1.LifecycleObsolete}

// ReadLifecycle returns the lifecycle of an instancetype or preference as of a time. The metadata may be hostile.
func ReadLifecycle(object metav1.Object, now time.Time) Lifecycle {
	l := Lifecycle{State: v1alpha1.LifecycleActive}
	l.readState(object.GetLabels())
	l.readReplacement(object)
	l.readEnd(object.GetAnnotations(), now)
	l.readMisplaced(object)
	return l
}

// readState reads both labels. KubeVirt documents only the value 'true' of its label; some catalogs write 'false'.
func (l *Lifecycle) readState(labels map[string]string) {
	if state, given := labels[v1alpha1.LabelLifecycle]; given {
		if !slices.Contains(lifecycleStates, state) {
			l.addMistake(newMistake("labels", v1alpha1.LabelLifecycle, state, "must be 'active', 'deprecated' or 'obsolete'").WithOrigin("catalog/lifecycle"))
		} else {
			l.atLeast(state)
		}
	}
	switch deprecated, given := labels[v1alpha1.LabelDeprecated]; {
	case deprecated == "true":
		l.atLeast(v1alpha1.LifecycleDeprecated)
	case given && deprecated != "false":
		l.addMistake(newMistake("labels", v1alpha1.LabelDeprecated, deprecated, "must be 'true' or 'false'").WithOrigin("catalog/deprecated"))
	}
}

func (l *Lifecycle) readReplacement(object metav1.Object) {
	name, given := object.GetAnnotations()[v1alpha1.AnnotationReplacedBy]
	switch {
	case !given:
	case len(validation.IsDNS1123Subdomain(name)) > 0:
		l.addMistake(newMistake("annotations", v1alpha1.AnnotationReplacedBy, name, "must be the name of an object of this kind").WithOrigin("catalog/replaced-by"))
	case name == object.GetName():
		l.addMistake(newMistake("annotations", v1alpha1.AnnotationReplacedBy, name, "must be another object").WithOrigin("catalog/replaced-by"))
	default:
		l.ReplacedBy = name
	}
}

// timeForm is the form of RFC 3339, as in the policy kiln-lifecycle. time.Parse also accepts hours of one digit and offsets of 24 hours.
var timeForm = regexp.MustCompile(
	`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`)

// readEnd reads the announced end. Before it the object is deprecated, even without a label, so that users are warned.
func (l *Lifecycle) readEnd(annotations map[string]string, now time.Time) {
	text, given := annotations[v1alpha1.AnnotationObsoleteAfter]
	if !given {
		return
	}
	end, err := time.Parse(time.RFC3339, text)
	if err != nil || !timeForm.MatchString(text) {
		l.addMistake(newMistake("annotations", v1alpha1.AnnotationObsoleteAfter, text,
			"must be a time as of RFC 3339, such as '2027-01-31T00:00:00Z'").WithOrigin("catalog/obsolete-after"))
		return
	}
	l.ObsoleteAfter = end
	if now.Before(end) {
		l.atLeast(v1alpha1.LifecycleDeprecated)
	} else {
		l.atLeast(v1alpha1.LifecycleObsolete)
	}
}

// readMisplaced finds labels that were written as annotations, and the reverse: they have no effect.
func (l *Lifecycle) readMisplaced(object metav1.Object) {
	for _, key := range []string{v1alpha1.LabelLifecycle, v1alpha1.LabelDeprecated} {
		if value, given := object.GetAnnotations()[key]; given {
			l.addMistake(newMistake("annotations", key, value, "must be a label").WithOrigin("catalog/misplaced"))
		}
	}
	for _, key := range []string{v1alpha1.AnnotationReplacedBy, v1alpha1.AnnotationObsoleteAfter} {
		if value, given := object.GetLabels()[key]; given {
			l.addMistake(newMistake("labels", key, value, "must be an annotation").WithOrigin("catalog/misplaced"))
		}
	}
}

func (l *Lifecycle) atLeast(state string) {
	if slices.Index(lifecycleStates, state) > slices.Index(lifecycleStates, l.State) {
		l.State = state
	}
}

// mostShown is the number of bytes to which a message cuts a value. Annotations may have 256 KiB.
const mostShown = 64

func (l *Lifecycle) addMistake(m *field.Error) { l.Mistakes = append(l.Mistakes, m) }

// newMistake returns the error about a value. of is 'labels' or 'annotations'.
func newMistake(of, key, value, detail string) *field.Error {
	return field.Invalid(field.NewPath("metadata", of).Key(key), shorten.Bytes(value, mostShown), detail)
}

// LifecycleMistakes returns errors about values in the metadata of an instancetype or preference that ReadLifecycle cannot read.
func LifecycleMistakes(object metav1.Object) field.ErrorList {
	return ReadLifecycle(object, time.Time{}).Mistakes
}

// Obsolete reports whether new VMs may not use the object.
func (l Lifecycle) Obsolete() bool { return l.State == v1alpha1.LifecycleObsolete }

// Notice returns the end of a sentence for users of the object, such as "is deprecated: use 'u2.small'". It is empty for an active object. The replacement
// comes first, because a warning may be cut after 256 characters.
func (l Lifecycle) Notice() string {
	if l.State == v1alpha1.LifecycleActive {
		return ""
	}
	text := "is " + l.State
	if l.ReplacedBy != "" {
		text += ": use '" + l.ReplacedBy + "'"
	} else {
		text += " without replacement: choose another"
	}
	if !l.Obsolete() && !l.ObsoleteAfter.IsZero() {
		text += "; obsolete after " + l.ObsoleteAfter.Format(time.RFC3339)
	}
	return text
}

// Warnings returns a sentence for each value that cannot be read, without the value, because the user who reads the warning did not write it.
func (l Lifecycle) Warnings() (warnings []string) {
	for _, m := range l.Mistakes {
		warnings = append(warnings, m.Field+" has no effect: illegible")
	}
	return warnings
}
