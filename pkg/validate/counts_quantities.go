package validate

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// Quantities are parsed while an object is decoded. apimachinery computes the power of ten of an exponent: '1e-10000000' takes two seconds,
// '1e-1000000000' hours, and nothing can interrupt it. A number of a million digits takes four seconds. An amount of memory has at most 19 digits.
const (
	// longestNumber is in bytes, without exponent and suffix.
	longestNumber = 100
	// longestExponent is in digits.
	longestExponent = 3
)

// quantityFields are the JSON names of the fields that are quantities, and quantityMaps the names of maps and lists of quantities, such as resources.requests.
// Other fields are not checked: the status.guest.uid of a GuestHardware may begin like a number with an exponent, as memory.guest may not.
var quantityFields, quantityMaps = quantityNames(v1.VirtualMachine{}, v1.VirtualMachineInstance{}, v1.VirtualMachineInstancePreset{},
	v1beta1.VirtualMachineInstancetype{}, v1beta1.VirtualMachinePreference{})

// quantityNames returns quantityFields and quantityMaps of types. A type that contains itself is walked once.
func quantityNames(objects ...any) (fields, maps []string) {
	seen := map[reflect.Type]bool{}
	var walk func(of reflect.Type, name string)
	walk = func(of reflect.Type, name string) {
		names := &fields
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
			if of.Kind() != reflect.Pointer {
				names = &maps
			}
			of = of.Elem()
		}
		if of == reflect.TypeFor[resource.Quantity]() {
			*names = append(*names, name)
			return
		}
		if of.Kind() != reflect.Struct || seen[of] {
			return
		}
		seen[of] = true
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			walk(of.Field(i).Type, name)
		}
	}
	for _, object := range objects {
		walk(reflect.TypeOf(object), "")
	}
	slices.Sort(fields)
	slices.Sort(maps)
	return slices.Compact(fields), slices.Compact(maps)
}

// quantity refuses a quantity, a text or a number, that takes long to parse. key is the name of its field, at the object or map that it is in. Names are
// compared without regard to case, as encoding/json does.
func quantity(text string, at *place, key string) *field.Error {
	among := func(names []string, name string) bool {
		return slices.ContainsFunc(names, func(of string) bool { return strings.EqualFold(of, name) })
	}
	if !CostlyQuantity(text) || !among(quantityFields, key) && !among(quantityMaps, at.name) {
		return nil
	}
	return field.Invalid(at.path().Child(key), short(text), "must be a quantity of at most 100 digits, with an exponent of at most 3 digits; "+
		"nothing else was checked").WithOrigin("request/quantities")
}

// ofNumber are the characters of a number before its exponent.
const ofNumber = "+-.0123456789"

// startsQuantity are the bytes of JSON with which a quantity may start: the bytes of a number, and the beginning of an escape.
const startsQuantity = ofNumber + `\`

// CostlyQuantity reports whether a text starts like a number and has so many digits, before or in an exponent, that apimachinery would take long to parse it.
func CostlyQuantity(text string) bool {
	rest := strings.TrimLeft(text, ofNumber)
	number := len(text) - len(rest)
	if number == 0 {
		return false
	}
	exponent, found := strings.CutPrefix(strings.ToLower(rest[:min(len(rest), 2*longestNumber)]), "e")
	digits := strings.TrimLeft(exponent, "+-")
	return number > longestNumber || found && len(digits)-len(strings.TrimLeft(digits, "0123456789")) > longestExponent
}

// absent reports whether a quantity that is no pointer was not written. One that was parsed has a format, also '0'.
func absent(amount resource.Quantity) bool { return amount.IsZero() && amount.Format == "" }
