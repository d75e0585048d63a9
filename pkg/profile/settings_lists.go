package profile

import (
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// compileElements adds the elements of a list by their names.
func (c *compiler) compileElements(at setting, v reflect.Value) {
	seen := map[string]bool{}
	for i := range v.Len() {
		key := nameOf(v.Index(i))
		if key == "" || seen[key] {
			c.errs = append(c.errs, elementNameError(c.root.Child(at.written).Index(i), key))
			continue
		}
		seen[key] = true
		named, rest := reflect.New(v.Type().Elem()).Elem(), reflect.New(v.Type().Elem()).Elem()
		rest.Set(v.Index(i))
		for _, name := range names[v.Type().Elem()] {
			named.FieldByName(name).Set(rest.FieldByName(name))
			rest.FieldByName(name).SetZero()
		}
		element := at.withStep(step{index: -1, key: key, named: named}, "["+key+"]")
		element.element, element.direct, element.written = element.path, isDevice(at.path), at.written+"["+strconv.Itoa(i)+"]"
		self := element
		self.exists, self.device = true, element.direct
		c.settings = append(c.settings, self)
		c.compileFields(element, rest)
	}
}

func elementNameError(at *field.Path, key string) *field.Error {
	if key != "" {
		return field.Duplicate(at, key).WithOrigin("profile/element")
	}
	return field.Required(at, "must have a name: the elements of this list are merged by their names").WithOrigin("profile/element")
}

// nameOf returns what names an element of a list; empty if a part of the name is missing.
func nameOf(v reflect.Value) string {
	var parts []string
	for _, name := range names[v.Type()] {
		part := v.FieldByName(name).String()
		if part == "" {
			return ""
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ",")
}
