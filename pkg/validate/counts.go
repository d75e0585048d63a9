package validate

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Elements are counted in the JSON, before it is decoded: a list of 3 MiB of '{}' has a million elements, for which encoding/json allocates
// a gigabyte, and every rule would judge each. Counting needs no types, so it bounds fields of newer APIs too.

var countRules = []judgement[func([]byte) *field.Error]{
	{Counts, []Rule{
		{Name: "request/depth", KubeVirt: KubeVirtAdmits},
		{Name: "request/elements", KubeVirt: KubeVirtAdmits},
		{Name: "request/parts", KubeVirt: KubeVirtAdmits},
		{Name: "request/quantities", KubeVirt: KubeVirtAdmits},
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

// Counts bounds an object before it is decoded. raw is valid JSON. The error names the path of the first list, map, object or quantity that
// exceeds a limit. It is nil if everything is within its limit.
func Counts(raw []byte) *field.Error { return written.judge(raw) }

// StoredCounts is Counts for the old object of an update. It limits only the sum of its parts and its quantities.
func StoredCounts(raw []byte) *field.Error { return stored.judge(raw) }

func (c counts) judge(raw []byte) *field.Error {
	if c.surelyFew(raw) {
		return nil
	}
	return c.walk(raw)
}

// walk judges an object by reading it.
func (c counts) walk(raw []byte) *field.Error {
	walk := counter{counts: c, text: jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
	if !opens(walk.text.PeekKind()) {
		return nil
	}
	_, over := walk.countParts(place{})
	if over == nil && walk.err != nil { // what cannot be counted is not taken for few
		over = &field.Error{Type: field.ErrorTypeForbidden, Detail: walk.err.Error(), Origin: "request/unreadable"}
	}
	return over
}

// surelyFew reports whether an object has so few brackets, commas and digits that it exceeds no limit, whatever they mean: most objects need no walk.
func (c counts) surelyFew(raw []byte) bool {
	opened, commas := bytes.Count(raw, []byte{'{'})+bytes.Count(raw, []byte{'['}), bytes.Count(raw, []byte{','})
	// A list of n elements has n-1 commas, and no limit of lists is lower than the limit of templates. An escape such as \u0031 may hide a digit; the other
	// escapes, such as the \n of user data, never hide one.
	if opened > maxDepth || commas >= c.templates || opened+commas > c.parts || bytes.Contains(raw, []byte(`\u`)) {
		return false
	}
	run := 0
	for i, b := range raw {
		if !numeric[b] {
			run = 0
			continue
		}
		run++
		exponent := run > longestExponent && i >= run && raw[i-run]|0x20 == 'e'
		if exponent || run > longestNumber {
			return false
		}
	}
	return true
}

// numeric has the bytes of ofNumber.
var numeric = func() (is [256]bool) {
	for _, b := range []byte(ofNumber) {
		is[b] = true
	}
	return is
}()

// counter counts the parts of an object while it reads the object's JSON, each byte once.
type counter struct {
	counts
	// text takes what encoding/json takes: names that are there twice, and bytes that are not UTF-8.
	text *jsontext.Decoder
	// err is the first error of text. Trap: a read that fails does not move on, so that a loop must end with it.
	err error
}

// place is where a value is in the object. Its path is built for an error alone: each object and list of a request has a place.
type place struct {
	above *place
	// name is the last name of the path, empty for an element of a list, which has index.
	name  string
	index int
	depth int
}

// path is nil for the object itself.
func (p *place) path() *field.Path {
	switch {
	case p.above == nil:
		return nil
	case p.name == "" && p.index >= 0:
		return p.above.path().Index(p.index)
	}
	// A clone: if the name itself went into an error, the compiler would put each place on the heap.
	return p.above.path().Child(strings.Clone(p.name))
}

// countParts reads a list or an object, and counts its parts. It goes on counting after an error in one part, because the error about the list itself is more
// useful than an error about an element.
func (c *counter) countParts(at place) (parts int, over *field.Error) {
	if at.depth > maxDepth {
		c.skip()
		return 0, field.Forbidden(at.path(), fmt.Sprintf("must not be nested more than %d levels deep", maxDepth)).WithOrigin("request/depth")
	}
	own, most, list := 0, c.most(&at), c.text.PeekKind() == '['
	for c.bracket(); !c.ends(); {
		own++
		key := ""
		if !list {
			key = c.name()
		}
		switch {
		case over != nil || own > most:
			c.skip()
		case !opens(c.text.PeekKind()):
			over = quantity(c.scalar(), &at, key)
		case !list && key == "fieldsV1": // of managedFields: it has a key for each field of the object, and is never decoded
			c.skip()
		default:
			below := place{above: &at, name: key, index: notInList, depth: at.depth + 1}
			if list {
				below.index = own - 1
			}
			var inside int
			inside, over = c.countParts(below)
			parts += inside
		}
	}
	c.bracket()
	switch parts += own; {
	case own > most:
		over = tooMany(&at, fmt.Sprintf("has %d elements, at most %d are allowed", own, most)).WithOrigin("request/elements")
	case over == nil && parts > c.parts:
		over = tooMany(&at, fmt.Sprintf("has %d elements and fields including nested ones, at most %d are allowed", parts, c.parts)).WithOrigin("request/parts")
	}
	return parts, over
}

// notInList is the index of the field of an object, whose name may be empty as well.
const notInList = -1

// most is the limit of a list or map. It compares names without regard to case, as encoding/json does. The text of a path takes memory: it is built only if
// the last name is right.
func (c counts) most(at *place) int {
	is := func(path, last string) bool {
		return strings.EqualFold(at.name, last) && strings.EqualFold(at.path().String(), path)
	}
	if at.depth == 2 && is("spec.dataVolumeTemplates", "dataVolumeTemplates") {
		return c.templates
	}
	if at.depth == 3 && is("spec.hardware.devices", "devices") { // of GuestHardware: record.Check judges it
		return max(c.elements, recordedDevices)
	}
	return c.elements
}

// tooMany is field.TooMany with the number in its text.
func tooMany(at *place, detail string) *field.Error {
	err := &field.Error{Type: field.ErrorTypeTooMany, BadValue: field.OmitValueType{}, Detail: detail + ": remove some. Nothing else was checked"}
	if path := at.path(); path != nil { // else it is the object itself
		err.Field = path.String()
	}
	return err
}

// MostErrors is the largest number of errors about one object: each error takes memory, and no user reads more.
const MostErrors = 1000

// Most returns the first MostErrors errors.
func Most(errs field.ErrorList) field.ErrorList { return errs[:min(len(errs), MostErrors)] }

// opens reports whether a list or an object begins.
func opens(next jsontext.Kind) bool { return next == '[' || next == '{' }

// ends reports whether the list or object ends here, or cannot be read on.
func (c *counter) ends() bool {
	next := c.text.PeekKind()
	return c.err != nil || next == ']' || next == '}' || next == 0
}

// bracket reads the bracket that begins or ends a list or object.
func (c *counter) bracket() { c.token() }

// name reads the name of a field.
func (c *counter) name() string { return c.token().String() }

func (c *counter) token() jsontext.Token {
	token, err := c.text.ReadToken()
	c.err = cmp.Or(c.err, err)
	return token
}

// scalar reads a text, a number, true, false or null, and returns it if it may be a quantity: without quotes and escapes.
func (c *counter) scalar() string {
	value, err := c.text.ReadValue()
	if c.err = cmp.Or(c.err, err); err != nil || strings.IndexByte(startsQuantity, bytes.TrimPrefix(value, []byte{'"'})[0]) < 0 {
		return ""
	}
	if value.Kind() != '"' {
		return string(value)
	}
	text, _ := jsontext.AppendUnquote(nil, value) // the error is that a byte is not UTF-8
	return string(text)
}

func (c *counter) skip() { c.err = cmp.Or(c.err, c.text.SkipValue()) }
