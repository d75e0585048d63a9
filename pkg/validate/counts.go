package validate

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Elements are counted in the JSON, before it is decoded: a list of 3 MiB of '{}' has a million elements, for which encoding/json allocates
// a gigabyte, and every rule would judge each. Counting needs no types, so it bounds fields of newer APIs too.

var countRules = []judgement[func([]byte) *field.Error]{
	{Counts, []Rule{
		{Name: "request/depth"},
		{Name: "request/elements"},
		{Name: "request/parts"},
	}},
}

// counts are limits on the parts of an object.
type counts struct {
	// elements of one list, and entries of one map.
	elements int
	// templates are the elements of dataVolumeTemplates.
	templates int
	// parts is the sum of all elements and fields of an object, nested ones included.
	parts int
}

var (
	// written is for objects that the rules judge. QEMU has fewer than 512 slots for devices of a kind, and each data volume is a
	// disk. The largest object of the recorded answers has 290 parts and a list of 24.
	written = counts{elements: 512, templates: 64, parts: 16384}
	// stored is for the old object of an update. Its lists may be longer, because an object that is older than these limits must
	// stay editable.
	stored = counts{elements: 16384, templates: 16384, parts: 16384}
)

// recordedDevices is how many entries a record of hardware has at most: controllers and PCI ports are devices too.
const recordedDevices = 1024

// maxDepth is the number of nested lists and objects. The API has 15.
const maxDepth = 64

// Counts bounds an object before it is decoded. raw is valid JSON. The error names the path of the first list, map or object that exceeds a
// limit; it is nil if there is none.
func Counts(raw []byte) *field.Error { return written.judge(raw) }

// StoredCounts is Counts for the old object of an update: only the sum of its parts is limited.
func StoredCounts(raw []byte) *field.Error { return stored.judge(raw) }

func (c counts) judge(raw []byte) *field.Error {
	_, over := c.part(gjson.ParseBytes(raw), nil, "", 0)
	return over
}

// part counts the parts of a value. It goes on counting after an error in one of them, because the error about the list itself is more
// useful than one about an element. name is the last name of the path, empty for an element of a list.
func (c counts) part(value gjson.Result, at *field.Path, name string, depth int) (parts int, over *field.Error) {
	if depth > maxDepth {
		return 0, field.Invalid(at, field.OmitValueType{}, fmt.Sprintf("must not be nested more than %d levels deep", maxDepth)).WithOrigin("request/depth")
	}
	own, most, list := 0, c.most(at, name, depth), value.IsArray()
	value.ForEach(func(key, element gjson.Result) bool {
		own++
		if over != nil || own > most || !element.IsArray() && !element.IsObject() {
			return true
		}
		var below *field.Path
		switch {
		case list:
			below = at.Index(own - 1)
		case key.Str == "fieldsV1": // of managedFields: it has a key for each field of the object, and is never decoded
			return true
		default:
			below = at.Child(key.Str)
		}
		var inside int
		inside, over = c.part(element, below, key.Str, depth+1)
		parts += inside
		return true
	})
	switch parts += own; {
	case own > most:
		over = tooMany(at, fmt.Sprintf("has %d elements, at most %d are allowed", own, most)).WithOrigin("request/elements")
	case over == nil && parts > c.parts:
		over = tooMany(at, fmt.Sprintf("has %d elements and fields including nested ones, at most %d are allowed", parts, c.parts)).WithOrigin("request/parts")
	}
	return parts, over
}

// most is the limit of a list or map. encoding/json compares names without regard to case, and so does this. The text of a path takes memory: it is
// asked for where the last name is right.
func (c counts) most(at *field.Path, name string, depth int) int {
	is := func(path, last string) bool {
		return strings.EqualFold(name, last) && strings.EqualFold(at.String(), path)
	}
	if depth == 2 && is("spec.dataVolumeTemplates", "dataVolumeTemplates") {
		return c.templates
	}
	if depth == 3 && is("spec.hardware.devices", "devices") { // of GuestHardware: record.Check judges it
		return max(c.elements, recordedDevices)
	}
	return c.elements
}

// tooMany is field.TooMany with the number in its text.
func tooMany(at *field.Path, detail string) *field.Error {
	err := &field.Error{Type: field.ErrorTypeTooMany, BadValue: field.OmitValueType{}, Detail: detail + ": remove some. Nothing else was checked"}
	if at != nil { // else it is the object itself
		err.Field = at.String()
	}
	return err
}

// MostErrors bounds the errors of an object: each takes memory, and no user reads more.
const MostErrors = 1000

// Most returns the first MostErrors errors.
func Most(errs field.ErrorList) field.ErrorList { return errs[:min(len(errs), MostErrors)] }
