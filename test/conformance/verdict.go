package main

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// crashes is the deviation of cases in which the reference panics.
const crashes = "Crashes"

// servedCauses is how many causes the reference serves at most.
const servedCauses = 10

// judged is Kiln's answer to a case, with the object that it was about.
type judged struct {
	record
	object map[string]any
	// base is the path of the VMI's spec.
	base    string
	errs    field.ErrorList
	all     field.ErrorList
	unknown unknown
	// guest is the VMI that was judged, nil if there was no VMI to judge.
	guest *v1.VirtualMachineInstance
}

// compareVerdicts compares: the same verdict, and every field that the reference names among Kiln's, at that field or below it.
func compareVerdicts(c record, raw json.RawMessage, given answer) outcome {
	j := judged{record: c, base: "spec", errs: errorsAtCauses(given.errs), all: given.all, unknown: given.unknown, guest: given.explicit}
	if c.VM != nil {
		j.base = "spec.template.spec"
	}
	var err error
	if j.object, err = objectOf(raw); err != nil && len(given.errs) == 0 {
		return differingOutcome("read, and it is no object: %v", err)
	}
	if c.Expect.Panic != nil {
		return outcome{listed: crashes}
	}
	missing, added := j.missingCauses(), j.addedErrors()
	if len(missing)+len(added) == 0 {
		return outcome{agrees: true}
	}
	listed, missing, added := explainByDeviations(j, missing, added)
	if len(missing)+len(added) == 0 {
		return outcome{listed: listed}
	}
	return j.firstDifference(missing, added)
}

// set is what Kiln says of a field that the manifest does not have: who set it.
var set = regexp.MustCompile(`^(?:instancetype|preference|preset) '[^']*' sets (\S+?):? `)

// arranged is what Kiln says of a preference that gives the vCPUs of an instancetype too many threads per core.
var arranged = regexp.MustCompile(`^preference '[^']*' arranges .*dedicatedCpuPlacement allows`)

// errorsAtCauses returns the errors at the fields that are wrong. Kiln points at the reference to the instancetype, preference or preset that set a
// field; the reference names the field, which nobody finds in the manifest.
func errorsAtCauses(errs field.ErrorList) field.ErrorList {
	moved := make(field.ErrorList, 0, len(errs))
	for _, err := range errs {
		if found := set.FindStringSubmatch(err.Detail); found != nil {
			again := *err
			again.Field, err = "spec.template."+found[1], &again
		}
		if arranged.MatchString(err.Detail) {
			again := *err
			again.Field, err = "spec.template.spec.domain.cpu.dedicatedCpuPlacement", &again
		}
		moved = append(moved, err)
	}
	return moved
}

// firstDifference returns the first difference that no deviation explains, as text for a developer: a wrong verdict before a wrong field.
func (j judged) firstDifference(missing []cause, added field.ErrorList) outcome {
	switch {
	case j.Expect.Allowed:
		return differingOutcome("refused: %s %s", added[0].Field, added[0].Detail)
	case len(j.errs) == 0:
		return differingOutcome("admitted: %s %s", missing[0].Field, missing[0].Message)
	case len(missing) > 0:
		return differingOutcome("field missing: %s: %s (Kiln: %s)", missing[0].Field, missing[0].Message, pathsOfErrors(j.errs))
	}
	return differingOutcome("field added: %s %s", added[0].Field, added[0].Detail)
}

// pathsOfErrors returns the paths of errors, each once, in the order of the errors.
func pathsOfErrors(errs field.ErrorList) string {
	var list []string
	for _, err := range errs {
		if !slices.Contains(list, err.Field) {
			list = append(list, err.Field)
		}
	}
	return strings.Join(list, " ")
}

// missingCauses returns causes of the reference of which Kiln has none. Of an object that does not fit the schema, and of other
// rejections without a cause, only the verdict counts.
// A case that is refused by the schema or by decoding has no causes that could be compared.
func (j judged) missingCauses() (list []cause) {
	expect := j.Expect
	if expect.Stage == "schema" || expect.Stage == "decode" || !expect.Allowed && (len(expect.Causes) == 0 || expect.Causes[0].Type == "") {
		if len(j.errs) > 0 {
			return nil
		}
		return append(expect.Causes, cause{Message: expect.Stage + " " + expect.Message})[:max(len(expect.Causes), 1)]
	}
	// What the schema requires, the API server refuses before any webhook is asked.
	errs := append(j.schema.refusedFields(j.object), j.errs...)
	for _, c := range expect.Causes {
		path := truePath(c, j.base, j.object)
		if !slices.ContainsFunc(errs, func(err *field.Error) bool { return withinPath(err.Field, path) || j.namesCause(err, c) }) {
			list = append(list, c)
		}
	}
	return list
}

// addedErrors returns errors of Kiln that the reference would have named too, had it seen a mistake: it has reached all rules, and
// its ten causes have room.
func (j judged) addedErrors() (list field.ErrorList) {
	if j.Expect.Allowed {
		return j.errs
	}
	if len(j.Expect.Causes) == 0 || j.Expect.Stage != "semantic" || len(j.Expect.Causes) >= servedCauses || j.Expect.More > 0 || j.VM != nil && !j.reachedGuest() {
		return nil
	}
	for _, err := range j.errs {
		if !j.isBeyondReference(err) && !slices.ContainsFunc(j.Expect.Causes, func(c cause) bool {
			path := truePath(c, j.base, j.object)
			return withinPath(err.Field, path) || j.namesCause(err, c) || subjectOfRule(path, j.base) == subjectOfRule(err.Field, j.base)
		}) {
			list = append(list, err)
		}
	}
	return list
}

// afterwards are rules of the stages that the reference comes to only when it has found nothing in the VMI.
var afterwards = []string{"vm/restore-running", "vm/snapshot-running", "vm/snapshot-volumes", "disks/template-namespace"}

// isBeyondReference reports whether the reference did not come as far as an error. It stops at the rules of the VMI if these fail, and it has no rules for an
// architecture that it does not know.
func (j judged) isBeyondReference(err *field.Error) bool {
	if err.Origin == "devices/video-type-given" && slices.ContainsFunc(j.Expect.Causes,
		func(c cause) bool { return strings.HasPrefix(c.Message, "unsupported architecture") }) {
		return true
	}
	return j.VM != nil && (slices.Contains(afterwards, err.Origin) || withinPath(err.Field, "status.volumeRequests"))
}

// namesCause reports whether Kiln means the field of a cause whose path the manifest does not have: the field itself, its first part
// that is not there, the volume for which a disk was made that nobody wrote, or another of the fields that can give the memory.
func (j judged) namesCause(err *field.Error, c cause) bool {
	memory := strings.Contains(c.Message, "memory.guest should be provided") || strings.Contains(c.Message, "page size")
	// The reference names domain.memory.guest or hugepages, and each field below domain.memory can be the one to correct.
	if memory && withinPath(err.Field, j.base+".domain.memory") {
		return true
	}
	there := existingPath(c.Field, j.object)
	if there == c.Field {
		return false
	}
	unwritten := strings.Contains(c.Field, "domain.devices.disks") && withinPath(err.Field, j.base+".volumes")
	return err.Field == c.Field || unwritten || withinPath(c.Field, err.Field) && withinPath(err.Field, there)
}

// claims are judged by one rule of the reference, whichever list they are in.
var claims = []string{"domain.devices.gpus", "domain.devices.hostDevices", "networks", "resourceClaims"}

// subjectOfRule returns what one rule of the reference judges: a device, a volume, a part of the domain. It returns from it at its
// first finding, so that further fields of the same subject were not reached.
// An element of a list counts as a subject of its own. All of dataVolumeTemplates is one.
func subjectOfRule(path, base string) string {
	if templates := "spec.dataVolumeTemplates"; withinPath(path, templates) {
		return templates
	}
	relative, found := strings.CutPrefix(path, base+".")
	if !found {
		return path
	}
	for _, list := range claims {
		if withinPath(relative, list) {
			return "claims"
		}
	}
	parts := pathSegments(relative)
	switch {
	case parts[0] == "domain" && len(parts) > 3 && parts[1] == "devices" && strings.HasPrefix(parts[3], "["):
		parts = parts[:4]
	case parts[0] == "domain" && len(parts) > 1:
		parts = parts[:2]
	case len(parts) > 1 && strings.HasPrefix(parts[1], "["):
		parts = parts[:2]
	default:
		parts = parts[:1]
	}
	return strings.Join(parts, ".")
}

// reachedGuest reports whether the reference came to the rules of the VMI: it returns at the first stage that finds
// something, and the rules of the VMI are the fourth.
func (j judged) reachedGuest() bool {
	if slices.ContainsFunc(j.Expect.Causes, func(c cause) bool {
		return strings.Contains(c.Message, "has been discontinued") || strings.Contains(c.Message, retiredBinding)
	}) {
		return false // the stages before
	}
	return slices.ContainsFunc(j.Expect.Causes, func(c cause) bool {
		path := truePath(c, j.base, j.object)
		return withinPath(path, j.base) && !strings.Contains(c.Message, "conflicts with selected instance type") &&
			!strings.Contains(c.Message, "preference requirements")
	})
}
