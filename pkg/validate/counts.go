package validate

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// An object is counted in its JSON, before it is decoded. A list of 3 MiB of '{}' has a million elements: encoding/json allocates a
// gigabyte to decode them, and each would be judged by every rule. JSON is counted without types, so that a field of a newer API is
// bounded too.

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
	// parts are all elements and all fields of an object, or of a part of it, together.
	parts int
}

var (
	// written is for objects that are going to be judged. QEMU has slots for fewer devices of a kind than 512, and each data
	// volume is a disk. The largest object of the recorded answers has 290 parts and a list of 24.
	written = counts{elements: 512, templates: 64, parts: 16384}
	// stored is for the old object of an update. A list of it may be longer than one may be now, so that an object that is older
	// than these limits can be mended.
	stored = counts{elements: 16384, templates: 16384, parts: 16384}
)

// recordedDevices is how many entries a record of hardware has at most: controllers and PCI ports are devices too.
const recordedDevices = 1024

// maxDepth is the number of lists and objects inside of each other. The API has 15.
const maxDepth = 64

// Counts judges the size of an object that is to be decoded and judged. raw is valid JSON. The error is for the first list, map or
// object that has more than a machine can use, at its path in raw; nil if there is none.
func Counts(raw []byte) *field.Error { return written.judge(raw) }

// StoredCounts is Counts for the old object of an update, of which only the parts together are limited.
func StoredCounts(raw []byte) *field.Error { return stored.judge(raw) }

func (c counts) judge(raw []byte) *field.Error {
	_, over := c.part(gjson.ParseBytes(raw), nil, 0)
	return over
}

// part counts the parts of a value. It goes on counting after an error in one of them: that a list is too long by itself is the better
// answer.
func (c counts) part(value gjson.Result, at *field.Path, depth int) (parts int, over *field.Error) {
	if depth > maxDepth {
		return 0, field.Invalid(at, field.OmitValueType{}, fmt.Sprintf("is inside of more than %d others, which no field of the API is", maxDepth)).WithOrigin("request/depth")
	}
	own, most, list := 0, c.most(at, depth), value.IsArray()
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
		inside, over = c.part(element, below, depth+1)
		parts += inside
		return true
	})
	switch parts += own; {
	case own > most:
		over = tooMany(at, fmt.Sprintf("has %d elements, at most %d are served", own, most)).WithOrigin("request/elements")
	case over == nil && parts > c.parts:
		over = tooMany(at, fmt.Sprintf("has %d elements and fields with those inside of them, at most %d are served", parts, c.parts)).WithOrigin("request/parts")
	}
	return parts, over
}

// most is the limit of a list or map.
func (c counts) most(at *field.Path, depth int) int {
	if depth == 2 && strings.EqualFold(at.String(), "spec.dataVolumeTemplates") { // encoding/json compares names like this
		return c.templates
	}
	if depth == 3 && strings.EqualFold(at.String(), "spec.hardware.devices") { // of GuestHardware: record.Check judges it
		return max(c.elements, recordedDevices)
	}
	return c.elements
}

// tooMany is field.TooMany with the number in its text.
func tooMany(at *field.Path, detail string) *field.Error {
	err := &field.Error{Type: field.ErrorTypeTooMany, BadValue: field.OmitValueType{}, Detail: detail + ": remove some, no machine uses as many. Nothing else was judged"}
	if at != nil { // else it is the object itself
		err.Field = at.String()
	}
	return err
}

// MostErrors is the number of errors at which an object is judged no further: nobody reads so many, and each takes memory.
const MostErrors = 1000

// Most is the list without what is beyond MostErrors.
func Most(errs field.ErrorList) field.ErrorList { return errs[:min(len(errs), MostErrors)] }
