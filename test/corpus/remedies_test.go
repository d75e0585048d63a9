package corpus

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	jsonpatch4 "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Remedies. Who does what an error says must not get the same error again.

var (
	supportedValues = regexp.MustCompile(`supported values: ((?:"[^"]*"(?:, )?)+)`)
	quotedValue     = regexp.MustCompile(`"([^"]*)"`)
	pathIndex       = regexp.MustCompile(`\[(\d+)\]`)
)

// mostTried bounds the errors of one subject whose remedies are tried.
const mostTried = 3

// remedied tries the remedies of errors that name a supported value, or say that the field is to be removed, where nothing fills the field again that the user
// removes.
func remedied(s subject, errs field.ErrorList) (broken findings) {
	if s.in.Set.Instancetype != nil || s.in.Set.Preference != nil || len(s.in.Presets)+len(s.in.Profiles) > 0 {
		return nil
	}
	tried := 0
	for _, err := range errs {
		pointer, ok := pointerOf(err.Field)
		if !ok || tried == mostTried {
			continue
		}
		var remedies []string
		if found := supportedValues.FindStringSubmatch(err.ErrorBody()); err.Type == field.ErrorTypeNotSupported && found != nil {
			for _, value := range quotedValue.FindAllStringSubmatch(found[1], -1) {
				remedies = append(remedies, fmt.Sprintf(`[{"op":"replace","path":%q,"value":%q}]`, pointer, value[1]))
			}
		} else if strings.HasSuffix(err.Detail, ": remove it") {
			remedies = append(remedies, fmt.Sprintf(`[{"op":"remove","path":%q}]`, pointer))
		}
		for _, remedy := range remedies {
			next, applied := s.with(remedy)
			if !applied {
				break // the field is not the user's: the error is about what was filled in
			}
			tried++
			_, verdict := stage1(next)
			for _, again := range verdict.Errors {
				same := again.Origin == err.Origin && again.Field == err.Field
				if same && (err.Type != field.ErrorTypeNotSupported || strings.Contains(remedy, fmt.Sprintf("%q", again.BadValue))) {
					broken.add("a remedy that is followed helps", "%v; after %s: %v", err, remedy, again)
				}
			}
		}
	}
	return broken
}

// pointerOf returns the JSON pointer of a path whose keys have no brackets.
func pointerOf(path string) (string, bool) {
	plain := pathIndex.ReplaceAllString(path, "/$1")
	if strings.ContainsAny(plain, "[]") || plain == "" {
		return "", false
	}
	return "/" + strings.ReplaceAll(plain, ".", "/"), true
}

// with returns a subject with a JSON patch applied to what was sent.
func (s subject) with(operations string) (subject, bool) {
	decoded, err := jsonpatch4.DecodePatch([]byte(operations))
	if err != nil {
		return s, false
	}
	raw, err := decoded.Apply([]byte(text(s.sent())))
	if err != nil {
		return s, false
	}
	next := subject{name: s.name, raw: raw, in: s.in}
	var object any
	if json.Unmarshal(raw, &object) != nil || next.read(s.vm != nil) != nil {
		return s, false
	}
	return next, true
}
