package catalog

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/validate"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var legalRules = []Rule{
	{"catalog/legal", Error, "the webhook accepts each object", "correct the field: docs/reference/rules.md has the rule"},
	{"catalog/doubtful-value", Warning, "libvirt knows the CPU model of an instancetype, and dedicated CPUs are not combined with overcommitment",
		"correct or remove the field that the message names"},
	{"catalog/deprecated-value", Warning, "values of fields are not deprecated in KubeVirt", "use the value that the message names"},
}

// lintWithWebhookRules runs the rules of the webhook. Objects that it refuses are not tried further.
func (l *linter) lintWithWebhookRules() {
	at := field.NewPath("spec")
	for _, o := range l.objects {
		var errs field.ErrorList
		warnings, rule := []string(nil), "catalog/deprecated-value"
		if o.Instancetype != nil {
			errs, warnings, rule = validate.Instancetype(o.Instancetype, at), validate.InstancetypeWarnings(o.Instancetype), "catalog/doubtful-value"
		} else {
			errs, warnings = validate.Preference(o.Preference, at), validate.PreferenceWarnings(o.Preference)
		}
		for _, err := range errs {
			l.broken[o] = true
			message := err.ErrorBody()
			if err.Origin != "" {
				message += " (" + err.Origin + ")"
			}
			l.addFinding("catalog/legal", location{o, err.Field}, message)
		}
		for _, warning := range warnings {
			path, _, _ := strings.Cut(warning, " ")
			l.addFinding(rule, location{o, strings.TrimSuffix(path, ":")}, warning)
		}
	}
}

// A folder may contain one object in two files. 'kubectl apply' and GitOps tools send both, in the order of the files, and report success.

var twiceRules = []Rule{
	{"catalog/twice", Error, "a catalog contains an object only once", "remove one of them: if the catalog is applied, the last one wins"},
}

// findDuplicates finds several objects of one key. Only the first one is tried: another one would hide the mistakes in the first.
func (l *linter) findDuplicates() {
	first := map[Key]bool{}
	for _, o := range l.objects {
		if first[o.Key()] {
			l.addFinding("catalog/twice", location{o, "metadata.name"}, fmt.Sprintf("%s stands in the catalog before", o.Key()))
			l.broken[o] = true
		}
		first[o.Key()] = true
	}
}

var nameRules = []Rule{
	{"catalog/name-length", Warning, "a name has at most 63 characters, like the value of a label",
		"choose a shorter name: revisions are labelled with it, and KubeVirt cannot create one for this name"},
}

// findLongNames finds names that an API server accepts, and that are too long for KubeVirt's label instancetype.kubevirt.io/object-name.
func (l *linter) findLongNames() {
	for _, o := range l.objects {
		if n := len(o.Name); n > validation.LabelValueMaxLength {
			l.addFinding("catalog/name-length", location{o, "metadata.name"}, fmt.Sprintf("the name has %d characters", n))
		}
	}
}

var describedRules = []Rule{
	{"label/description", Note, "labels and annotations of an object contain its vendor, display name and purpose",
		"add the keys: dashboards and the catalog's page show them"},
}

// descriptions are the keys by which people choose an object. Preferences have the names of OpenShift's console, which reads no others.
var descriptions = map[string]struct{ labels, annotations []string }{
	"instancetype": {[]string{prefix + "vendor", prefix + "class"}, []string{prefix + "displayName", prefix + "description"}},
	"preference":   {[]string{prefix + "vendor", prefix + "os-type"}, []string{displayName}},
}

const displayName = "openshift.io/display-name"

// findMissingDescriptions finds objects without descriptions for people. All missing keys of an object are one finding.
func (l *linter) findMissingDescriptions() {
	for _, o := range l.objects {
		wanted := descriptions["instancetype"]
		if o.Preference != nil {
			wanted = descriptions["preference"]
		}
		var missing []string
		for _, key := range wanted.labels {
			if strings.TrimSpace(o.Labels[key]) == "" {
				missing = append(missing, "label '"+key+"'")
			}
		}
		for _, key := range wanted.annotations {
			if strings.TrimSpace(o.Annotations[key]) == "" {
				missing = append(missing, "annotation '"+key+"'")
			}
		}
		if len(missing) > 0 {
			l.addFinding("label/description", location{o, "metadata"}, "missing or empty: "+strings.Join(missing, ", "))
		}
	}
}

var lifecycleRules = []Rule{
	{"catalog/lifecycle", Error, "label 'kilnvm.io/lifecycle' can be read", "correct the value: it has no effect"},
	{"catalog/deprecated", Error, "label 'instancetype.kubevirt.io/deprecated' can be read", "correct the value: it has no effect"},
	{"catalog/replaced-by", Error, "annotation 'kilnvm.io/replaced-by' can be read", "correct the value: it has no effect"},
	{"catalog/obsolete-after", Error, "annotation 'kilnvm.io/obsolete-after' can be read", "correct the value: it has no effect"},
	{"catalog/misplaced", Error, "a key of the lifecycle is set where Kiln reads it", "move the key: it has no effect where it is"},
	{"catalog/no-replacement", Warning, "a deprecated or obsolete object refers to its replacement",
		"add the annotation kilnvm.io/replaced-by with the name of another object of this kind"},
	{"catalog/replacement", Warning, "a replacement is in the catalog, and is neither deprecated nor obsolete", "name an active object of this kind"},
}

// lintLifecycles judges the keys of the lifecycle. instancetype.ReadLifecycle names the rules of values that it cannot read.
func (l *linter) lintLifecycles() {
	all := make(map[Key]instancetype.Lifecycle, len(l.objects))
	for _, o := range l.objects {
		all[o.Key()] = instancetype.ReadLifecycle(o, l.Now)
	}
	for _, o := range l.objects {
		life := all[o.Key()]
		for _, mistake := range life.Mistakes {
			l.addFinding(mistake.Origin, location{o, mistake.Field}, mistake.ErrorBody())
		}
		at := location{o, annotationPath(v1alpha1.AnnotationReplacedBy)}
		if life.ReplacedBy == "" {
			if life.State != v1alpha1.LifecycleActive {
				l.addFinding("catalog/no-replacement", location{o, "metadata"}, life.Notice())
			}
			continue
		}
		// The replacement has the same kind and namespace: the message of admission has only its name.
		successor, found := all[Key{o.Kind, o.Namespace, life.ReplacedBy}]
		switch {
		case !found:
			l.addFinding("catalog/replacement", at, fmt.Sprintf("its replacement '%s' is not in the catalog", life.ReplacedBy))
		case successor.State != v1alpha1.LifecycleActive:
			l.addFinding("catalog/replacement", at, fmt.Sprintf("its replacement '%s' is %s itself", life.ReplacedBy, successor.State))
		}
	}
}

var sameSpecRules = []Rule{
	{"catalog/same-spec", Warning, "the specs of two instancetypes differ", "remove one of them, or make it the replacement of the other"},
}

// findSameSpecs finds instancetypes that differ only in their names. After a renaming both names stay for a while, one with kilnvm.io/replaced-by, which is no
// mistake. Preferences with the same spec are no mistake either: the published catalog has them for releases of one operating system.
func (l *linter) findSameSpecs() {
	type content struct{ kind, namespace, spec string }
	first := map[content]*Object{}
	for _, o := range l.objects {
		if o.Instancetype == nil || l.broken[o] {
			continue
		}
		key := content{o.Kind, o.Namespace, o.specContent()}
		other := first[key]
		switch {
		case other == nil:
			first[key] = o
		case !slices.Contains([]string{o.Annotations[v1alpha1.AnnotationReplacedBy], ""}, other.Name) && other.Annotations[v1alpha1.AnnotationReplacedBy] != o.Name:
			l.addFinding("catalog/same-spec", location{o, "spec"}, fmt.Sprintf("it has the spec of '%s'", other.Name))
		}
	}
}
