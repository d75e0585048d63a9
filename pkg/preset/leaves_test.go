package preset

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// covered are the fields that presets fill.
var covered = []string{
	"spec.domain.cpu", "spec.domain.firmware", "spec.domain.clock", "spec.domain.features", "spec.domain.ioThreadsPolicy",
	"spec.domain.resources.requests", "spec.domain.devices.watchdog",
}

// TestEveryFieldIsFilledOrReported: each field of a preset, even a field of a newer API, is filled into an empty VMI, or reported as not applied.
func TestEveryFieldIsFilledOrReported(t *testing.T) {
	tested, filled := 0, 0
	for _, path := range paths() {
		var domain v1.DomainSpec
		something(at(reflect.ValueOf(&domain).Elem(), path))
		vmi := web()
		skipped, errs := Fill([]v1.VirtualMachineInstancePreset{preset("a", domain)}, vmi, Observer{})
		reported := slices.ContainsFunc(skipped, func(s Skipped) bool { return s.Field == path && s.Reason == uncovered })
		applied := reflect.DeepEqual(vmi.Spec.Domain, domain)
		tested++
		switch fills := slices.Contains(covered, path); {
		case len(errs) > 0 || fills && (!applied || reported) || !fills && (applied || !reported):
			t.Errorf("%s: filled %t, reported %t %v %v", path, applied, reported, skipped, errs)
		case fills:
			filled++
		}
	}
	if filled != len(covered) {
		t.Errorf("%d of %d fields are filled", filled, len(covered))
	}
	t.Logf("%d fields: %d filled, %d reported", tested, filled, tested-filled)
}

// A VMI that is admitted again has the preset's values with defaults added: nothing is reported as not applied.
func TestAppliedBefore(t *testing.T) {
	vmi, presets := web(), []v1.VirtualMachineInstancePreset{preset("a", v1.DomainSpec{Features: &v1.Features{SMM: &v1.FeatureState{}}})}
	apply(presets, vmi)
	vmi.Spec.Domain.Features.ACPI.Enabled = new(true)
	again := vmi.DeepCopy()
	if warnings, errs := apply(presets, again); len(warnings)+len(errs) > 0 || !reflect.DeepEqual(vmi, again) {
		t.Errorf("reported %v %v", warnings, errs)
	}
}

// paths are the fields of a domain, and the fields of its devices and of its resources one by one.
func paths() (all []string) {
	for i := range reflect.TypeFor[v1.DomainSpec]().NumField() {
		f := reflect.TypeFor[v1.DomainSpec]().Field(i)
		if name := jsonName(f); !partlyCovered[name] {
			all = append(all, "spec.domain."+name)
			continue
		}
		for j := range f.Type.NumField() {
			all = append(all, "spec.domain."+jsonName(f)+"."+jsonName(f.Type.Field(j)))
		}
	}
	return all
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// at is the field of a path of paths.
func at(domain reflect.Value, path string) reflect.Value {
	for _, name := range strings.Split(strings.TrimPrefix(path, "spec.domain."), ".") {
		for i := range domain.NumField() {
			if jsonName(domain.Type().Field(i)) == name {
				domain = domain.Field(i)
				break
			}
		}
	}
	return domain
}

// something sets a value that JSON does not leave out.
func something(v reflect.Value) {
	if quantity, ok := v.Addr().Interface().(*resource.Quantity); ok {
		*quantity = resource.MustParse("1")
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		something(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			something(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		something(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		something(key)
		something(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint, reflect.Uint32:
		v.SetUint(1)
	}
}
