package validate

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/internal/leaves"
	"github.com/kilnvm/kiln/pkg/internal/message"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// What a decoder cannot read: the value and its path, and what was probably meant by an amount with another unit.

// Undecodable is a value that its type does not read.
type Undecodable struct {
	Raw  []byte
	Path *field.Path
	Err  error
	of   reflect.Type
}

// FirstUndecodable returns the first value within raw that its type does not read. err is the decoder's error about raw: the decoder does not name elements of
// lists, and no path at all for a type with its own decoder, such as a quantity.
func FirstUndecodable(raw []byte, of reflect.Type, at *field.Path, err error) Undecodable {
	found := Undecodable{raw, at, err, of}
	for {
		inner := found.firstInside()
		if inner == nil {
			return found
		}
		found = *inner
	}
}

// firstInside returns the first part of a value that its type does not read; nil if the value itself is of a wrong kind.
func (u Undecodable) firstInside() *Undecodable {
	of := u.of
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	var object map[string]json.RawMessage
	var list []json.RawMessage
	switch {
	case leaves.Whole(of):
	case of.Kind() == reflect.Struct && json.Unmarshal(u.Raw, &object) == nil:
		for _, f := range leaves.Fields(of) {
			of := of.Field(f.Index).Type
			if f.Name == "" { // its fields are in the same object
				if found := (Undecodable{u.Raw, u.Path, u.Err, of}).firstInside(); found != nil {
					return found
				}
			} else if err := canDecode(object[f.Name], of); err != nil {
				return &Undecodable{object[f.Name], u.Path.Child(f.Name), err, of}
			}
		}
	case of.Kind() == reflect.Map && json.Unmarshal(u.Raw, &object) == nil:
		for _, key := range slices.Sorted(maps.Keys(object)) {
			if err := canDecode(object[key], of.Elem()); err != nil {
				return &Undecodable{object[key], u.Path.Key(message.Short(key)), err, of.Elem()}
			}
		}
	case of.Kind() == reflect.Slice && json.Unmarshal(u.Raw, &list) == nil:
		for i := range list {
			if err := canDecode(list[i], of.Elem()); err != nil {
				return &Undecodable{list[i], u.Path.Index(i), err, of.Elem()}
			}
		}
	}
	return nil
}

func canDecode(raw json.RawMessage, of reflect.Type) error {
	if len(raw) == 0 {
		return nil
	}
	return json.Unmarshal(raw, reflect.New(of).Interface())
}

// IsQuantity reports whether the value should be a quantity.
func (u Undecodable) IsQuantity() bool {
	return u.of == reflect.TypeFor[resource.Quantity]() || u.of == reflect.TypeFor[*resource.Quantity]()
}

// NoQuantity returns the error about a value that should be a quantity.
func (u Undecodable) NoQuantity() *field.Error {
	text := strings.Trim(string(u.Raw), `"`)
	return &field.Error{Type: field.ErrorTypeInvalid, Field: u.Path.String(), BadValue: short(text), Detail: NoQuantity(text), Origin: "request/unreadable"}
}

// withUnit is an amount with the unit that people write: 128MB, 2 GiB, 1,5g.
var withUnit = regexp.MustCompile(`^([+-]?[0-9]{1,20})(?:[.,]([0-9]{1,20}))?\s*([a-zA-Z]{1,10})$`)

// NoQuantity returns the message about a text that is not a quantity of Kubernetes, with the quantity that was probably meant: "write 128M or 128Mi" for
// '128MB', because the unit may be meant as decimal or binary. Kubernetes' own message is a regular expression.
func NoQuantity(text string) string {
	const detail = "must be a quantity such as '500M' or '2Gi'"
	parts := withUnit.FindStringSubmatch(text)
	if parts == nil {
		return detail
	}
	number, unit := parts[1], strings.ToLower(parts[3])
	if parts[2] != "" {
		number += "." + parts[2]
	}
	if unit == "b" || unit == "byte" || unit == "bytes" {
		return "must be a quantity: write " + number
	}
	letter, rest := strings.ToUpper(unit[:1]), unit[1:]
	decimal := strings.Replace(letter, "K", "k", 1) // Kubernetes' only unit in lower case
	switch {
	case !strings.Contains("KMGTPE", letter):
		return detail
	case rest == "i" || rest == "ib" || strings.HasSuffix(rest, "bibyte") || strings.HasSuffix(rest, "bibytes"):
		return fmt.Sprintf("must be a quantity: write %s%si", number, letter)
	case rest == "" || rest == "b",
		slices.Contains([]string{"ilo", "ega", "iga", "era", "eta", "xa"}, strings.TrimSuffix(strings.TrimSuffix(rest, "s"), "byte")):
		return fmt.Sprintf("must be a quantity: write %s%s or %s%si", number, decimal, number, letter)
	}
	return detail
}
