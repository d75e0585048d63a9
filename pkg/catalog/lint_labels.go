package catalog

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"kubevirt.io/api/instancetype"
)

// Metadata: the labels and annotations below 'instancetype.kubevirt.io/'. They are a contract with dashboards and with 'kubectl get -l'. Its
// source is docs/labels.md of kubevirt/common-instancetypes, and what the published catalog has beyond that page.

// prefix of the contract's keys.
const prefix = instancetype.GroupName + "/"

// guestOS is the annotation by which KubeVirt's dashboards and metrics know the operating system of a VMI.
const guestOS = "vm.kubevirt.io/os"

// The keys of the contract whose values the spec does not determine. Some keys are in several lists.
var (
	anyLabels          = []string{"vendor", "icon-pf", "deprecated", "common-instancetypes-version"}
	instancetypeLabels = []string{"version", "class", "size"}
	preferenceLabels   = []string{"os-type", "arch"}
	annotations        = []string{"displayName", "description"}
	volumeLabels       = []string{"default-instancetype", "default-instancetype-kind", "default-preference", "default-preference-kind"}
)

// osTypes are the values of os-type that dashboards group by.
var osTypes = []string{"linux", "windows", "legacy"}

var labelRules = []Rule{
	{"label/value", Error, "a label has the value that the spec determines", ""},
	{"label/missing", Warning, "labels repeat the values that the spec determines", "add the labels: 'kubectl get -l' and dashboards select by them"},
	{"label/unknown", Warning, "labels and annotations below 'instancetype.kubevirt.io/' are in the contract", "correct the key, or remove it"},
	{"label/misplaced", Warning, "a key of the contract is set where tools read it", ""},
	{"label/name", Warning, "labels 'size' and 'version' agree with a name of the form SERIES+VERSION.SIZE, such as u1.medium", ""},
	{"label/os-type", Warning, "label 'os-type' is 'linux', 'windows' or 'legacy', and agrees with the annotation '" + guestOS + "' of the spec", ""},
	{"label/architecture", Warning, "the architecture of label 'arch' is also in the spec",
		"set spec.preferredArchitecture and spec.requirements.architecture: a label gives no VM an architecture"},
}

// lintLabels judges the keys of the contract on each object. The objects have passed their schemas, so that an API server accepts the labels.
func (l *linter) lintLabels() {
	for _, o := range l.objects {
		promises := instancetypePromises
		if o.Preference != nil {
			promises = preferencePromises
		}
		l.comparePromises(o, promises)
		l.lintKeys(o)
		if o.Preference != nil {
			l.lintOSType(o)
			l.lintArchLabel(o)
		} else {
			l.compareNameWithLabels(o)
		}
	}
}

// comparePromises compares labels with the spec. All missing labels are one finding, which has the lines to add.
func (l *linter) comparePromises(o *Object, promises []labelPromise) {
	var missing []string
	for _, p := range promises {
		key, spec := prefix+p.key, p.of(o)
		label, given := o.Labels[key]
		same := p.same
		if same == nil {
			same = func(label, spec string) bool { return label == spec }
		}
		switch {
		case !given && spec != "":
			missing = append(missing, fmt.Sprintf("%s: %q", key, spec))
		case !given || spec != "" && same(label, spec) || spec == "" && label == "false":
		case spec == "":
			l.addWithRemedy("label/value", location{o, labelPath(key)}, fmt.Sprintf("label '%s' is '%s', and the spec has nothing of it", key, label),
				"remove the label")
		default:
			l.addWithRemedy("label/value", location{o, labelPath(key)}, fmt.Sprintf("label '%s' is '%s', and the spec has '%s'", key, label, spec),
				fmt.Sprintf("write %s: %q", key, spec))
		}
	}
	if len(missing) > 0 {
		l.addFinding("label/missing", location{o, "metadata.labels"}, "labels are missing: "+strings.Join(missing, ", "))
	}
}

// lintKeys finds keys with the contract's prefix that are not in the contract, or not for this kind of object.
func (l *linter) lintKeys(o *Object) {
	own, others := keysOf(instancetypePromises, instancetypeLabels), keysOf(preferencePromises, preferenceLabels)
	what := "preferences"
	if o.Preference != nil {
		own, others, what = others, own, "instancetypes"
	}
	for _, full := range slices.Sorted(maps.Keys(o.Labels)) {
		key, ours := strings.CutPrefix(full, prefix)
		switch at := (location{o, labelPath(full)}); {
		case !ours || slices.Contains(own, key):
		case slices.Contains(annotations, key):
			l.addWithRemedy("label/misplaced", at, fmt.Sprintf("'%s' is a label", full), "make it an annotation")
		case slices.Contains(volumeLabels, key):
			l.addWithRemedy("label/misplaced", at, fmt.Sprintf("label '%s' has an effect only on volumes", full), "remove it here; put it on the PVC or DataSource")
		case slices.Contains(others, key):
			l.addWithRemedy("label/misplaced", at, fmt.Sprintf("label '%s' has a meaning only on %s", full, what), "remove the label")
		default:
			l.addUnknownKey(at, full, own)
		}
	}
	for _, full := range slices.Sorted(maps.Keys(o.Annotations)) {
		key, ours := strings.CutPrefix(full, prefix)
		switch at := (location{o, annotationPath(full)}); {
		case !ours || slices.Contains(annotations, key) || key == "deprecated": // of which the lifecycle speaks
		case slices.Contains(own, key):
			l.addWithRemedy("label/misplaced", at, fmt.Sprintf("'%s' is an annotation", full), "make it a label")
		default:
			l.addUnknownKey(at, full, annotations)
		}
	}
}

func keysOf(promises []labelPromise, further []string) []string {
	keys := slices.Concat(anyLabels, further)
	for _, p := range promises {
		keys = append(keys, p.key)
	}
	return keys
}

// addUnknownKey adds a finding about a key that is not in the contract, with the key that was probably meant.
func (l *linter) addUnknownKey(at location, full string, known []string) {
	key := strings.TrimPrefix(full, prefix)
	best, least := "", (len(key)+2)/3+1
	for _, other := range known {
		if distance := levenshtein.ComputeDistance(key, other); distance < least {
			best, least = other, distance
		}
	}
	message := fmt.Sprintf("'%s' is no key of the contract", full)
	if best != "" {
		message += fmt.Sprintf("; did you mean '%s%s'?", prefix, best)
	}
	l.addFinding("label/unknown", at, message)
}

// lintOSType judges the label 'os-type' of a preference: dashboards group by the label, and KubeVirt's metrics by the annotation.
func (l *linter) lintOSType(o *Object) {
	key, at := prefix+"os-type", location{o, labelPath(prefix + "os-type")}
	label, given := o.Labels[key]
	inside := o.Preference.Annotations[guestOS]
	switch {
	case !given:
	case !slices.Contains(osTypes, label):
		l.addWithRemedy("label/os-type", at, fmt.Sprintf("label '%s' is '%s', which dashboards do not know", key, label), "use 'linux', 'windows' or 'legacy'")
	case inside != "" && inside != label:
		l.addWithRemedy("label/os-type", at, fmt.Sprintf("label '%s' is '%s', and VMIs get the annotation '%s: %s'", key, label, guestOS, inside), "make both equal")
	}
}

// lintArchLabel judges the label 'arch' of a preference. tryClaimedArchitectures tries whether the preference boots there.
func (l *linter) lintArchLabel(o *Object) {
	key := prefix + "arch"
	label, given := o.Labels[key]
	claims := o.claimedArchitectures()
	at := location{o, labelPath(key)}
	switch {
	case !given:
	case claims[0].path == labelPath(key):
		l.addFinding("label/architecture", at, fmt.Sprintf("label '%s' is '%s', and a VM with this preference gets the architecture of its cluster", key, label))
	case claims[0].architecture != label:
		l.addWithRemedy("label/value", at, fmt.Sprintf("label '%s' is '%s', and %s is '%s'", key, label, claims[0].path, claims[0].architecture), "make both equal")
	}
}

// publishedName is the form of the names of the published catalog: series, version, a dot and the size. Its source is the grammar in the README of
// kubevirt/common-instancetypes.
var publishedName = regexp.MustCompile(`^[a-z]+([0-9]+)\.([a-z0-9]+)$`)

// compareNameWithLabels compares labels with a name of the published form. Other names say nothing of version or size.
func (l *linter) compareNameWithLabels(o *Object) {
	parts := publishedName.FindStringSubmatch(o.Name)
	if parts == nil {
		return
	}
	for i, key := range []string{"version", "size"} {
		full := prefix + key
		if label, given := o.Labels[full]; given && label != parts[i+1] {
			l.addWithRemedy("label/name", location{o, labelPath(full)}, fmt.Sprintf("label '%s' is '%s', and the name says '%s'", full, label, parts[i+1]),
				fmt.Sprintf("write %s: %q, or choose another name", full, parts[i+1]))
		}
	}
}
