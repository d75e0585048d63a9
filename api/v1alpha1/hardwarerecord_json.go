package v1alpha1

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// HardwareRecordVersion is the highest schemaVersion whose fields this version of Kiln knows. Version 2 added cpu and firmware, version 3 omittedDefaults,
// version 4 bios.
const HardwareRecordVersion = 4

// knownFields is HardwareRecord without its methods.
type knownFields HardwareRecord

// knownNames are the JSON names of HardwareRecord's fields.
var knownNames = func() map[string]bool {
	names := map[string]bool{}
	for of, i := reflect.TypeFor[knownFields](), 0; i < of.NumField(); i++ {
		name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		names[name] = name != "-"
	}
	return names
}()

// UnmarshalJSON reads a record. Fields that this version does not know become Unknown. As in the API server, letter case matters.
func (r *HardwareRecord) UnmarshalJSON(text []byte) error {
	var known knownFields
	if err := utiljson.Unmarshal(text, &known); err != nil {
		return err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	for name, value := range all {
		if knownNames[name] {
			continue
		}
		if known.Unknown == nil {
			known.Unknown = map[string]json.RawMessage{}
		}
		// As MarshalJSON writes it: two reads of one record are equal.
		written, err := json.Marshal(value)
		if err != nil {
			return err
		}
		known.Unknown[name] = written
	}
	*r = HardwareRecord(known)
	return nil
}

// MarshalJSON writes the record with the fields in Unknown behind the others. It returns an error if Unknown contains the name of a field, or invalid JSON.
func (r HardwareRecord) MarshalJSON() ([]byte, error) {
	text, err := json.Marshal(knownFields(r))
	if err != nil || len(r.Unknown) == 0 {
		return text, err
	}
	for name := range r.Unknown {
		if knownNames[name] {
			return nil, fmt.Errorf("unknown has the field '%s', which is known", name)
		}
	}
	more, err := json.Marshal(r.Unknown)
	if err != nil {
		return nil, err
	}
	return append(append(text[:len(text)-1], ','), more[1:]...), nil // 'defaults' is always there
}
