package profile

import (
	"reflect"

	"github.com/kilnvm/kiln/pkg/internal/filled"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// fillVMI puts the setting into a VMI that has not set it, and reports whether it did.
func (s *setting) fillVMI(v reflect.Value, log *filled.Log) bool {
	if s.model != "" {
		if cpu := v.Addr().Interface().(*v1.VirtualMachineInstance).Spec.Domain.CPU; cpu == nil || cpu.Model != s.model {
			return false
		}
	}
	existed := false
	for i, step := range s.steps {
		if v.Kind() == reflect.Pointer {
			if existed = !v.IsNil(); !existed {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		switch {
		case step.index >= 0:
			for _, other := range step.others {
				if !v.Field(other).IsZero() {
					return false
				}
			}
			v = v.Field(step.index)
		case step.named.IsValid():
			found := elementNamed(v, step.key)
			if !found.IsValid() {
				found = appendElement(v, step.named, log)
				if s.exists && i == len(s.steps)-1 {
					return true
				}
			}
			v = found
		default:
			return s.setMapKey(v, step.key, log)
		}
	}
	return (!existed || !s.toggle) && s.setField(v, log)
}

// elementNamed returns the first element of a list that has a name; an invalid value if no element has it.
func elementNamed(list reflect.Value, name string) reflect.Value {
	for i := range list.Len() {
		if nameOf(list.Index(i)) == name {
			return list.Index(i)
		}
	}
	return reflect.Value{}
}

// appendElement appends an element that has only its name. The list may be shared with the object that the VMI was made from, so that it is copied.
func appendElement(list, named reflect.Value, log *filled.Log) reflect.Value {
	grown := reflect.MakeSlice(list.Type(), list.Len()+1, list.Len()+1)
	reflect.Copy(grown, list)
	log.Moved(list, grown)
	list.Set(grown)
	last := list.Index(list.Len() - 1)
	last.Set(named)
	log.Note(last.Addr().Interface(), named.Interface())
	return last
}

// setMapKey sets a key of a map.
func (s *setting) setMapKey(m reflect.Value, key string, log *filled.Log) bool {
	name := reflect.ValueOf(key).Convert(m.Type().Key())
	if m.MapIndex(name).IsValid() {
		return false
	}
	if m.IsNil() {
		m.Set(reflect.MakeMap(m.Type()))
	}
	m.SetMapIndex(name, cloneValue(s.value))
	log.Key(s.path[:len(s.path)-len(key)-len("[]")], key)
	return true
}

// setField sets a field.
func (s *setting) setField(v reflect.Value, log *filled.Log) bool {
	switch {
	case s.fields != nil:
		return s.setFieldsTogether(v, log)
	case v.Kind() == reflect.Struct && s.exists:
		return false // an element that the VMI has
	case v.Kind() == reflect.Slice && v.Len() > 0 || v.Kind() != reflect.Slice && !v.IsZero():
		return false
	}
	v.Set(cloneValue(s.value))
	log.Note(v.Addr().Interface(), s.value.Interface())
	return true
}

func (s *setting) setFieldsTogether(v reflect.Value, log *filled.Log) bool {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		v = v.Elem()
	}
	for _, i := range s.fields {
		if !v.Field(i).IsZero() {
			return false
		}
	}
	for _, i := range s.fields {
		if !s.value.Field(i).IsZero() {
			v.Field(i).Set(cloneValue(s.value.Field(i)))
			log.Note(v.Field(i).Addr().Interface(), s.value.Field(i).Interface())
		}
	}
	return true
}

// cloneValue copies a value with all that it points to.
func cloneValue(v reflect.Value) reflect.Value {
	copied := reflect.New(v.Type()).Elem()
	if q, ok := v.Interface().(resource.Quantity); ok {
		copied.Set(reflect.ValueOf(q.DeepCopy()))
		return copied
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			copied.Set(reflect.New(v.Type().Elem()))
			copied.Elem().Set(cloneValue(v.Elem()))
		}
	case reflect.Slice:
		if !v.IsNil() {
			copied.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				copied.Index(i).Set(cloneValue(v.Index(i)))
			}
		}
	case reflect.Map:
		if !v.IsNil() {
			copied.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
			for entries := v.MapRange(); entries.Next(); {
				copied.SetMapIndex(entries.Key(), cloneValue(entries.Value()))
			}
		}
	case reflect.Struct:
		copied.Set(v) // with its unexported fields
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				copied.Field(i).Set(cloneValue(v.Field(i)))
			}
		}
	default:
		copied.Set(v)
	}
	return copied
}
