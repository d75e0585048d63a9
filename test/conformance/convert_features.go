package main

import (
	"reflect"
	"strings"

	"libvirt.org/go/libvirtxml"
)

// seenFeatures lists switches by the name of their element. The switches of HyperV and KVM stand below these names.
func seenFeatures(f *libvirtxml.DomainFeatureList, note fact) {
	if f == nil {
		return
	}
	if f.HyperV != nil && f.HyperV.Mode == "passthrough" {
		note("feature hyperv", "passthrough")
	}
	noteSwitches("feature ", reflect.ValueOf(f).Elem(), note)
}

// noteSwitches notes the switches of a struct of pointers to libvirt's feature types.
func noteSwitches(prefix string, list reflect.Value, note fact) {
	for i := range list.NumField() {
		// libvirtxml has a struct with a pointer for each feature, whose tag is the name of its element. Reflection finds those too that libvirt may add.
		name, _, _ := strings.Cut(list.Type().Field(i).Tag.Get("xml"), ",")
		field := list.Field(i)
		if field.Kind() != reflect.Pointer || field.IsNil() {
			continue
		}
		switch f := field.Interface().(type) {
		case *libvirtxml.DomainFeatureHyperV:
			noteSwitches(prefix+"hyperv ", field.Elem(), note)
		case *libvirtxml.DomainFeatureKVM:
			noteSwitches(prefix+"kvm ", field.Elem(), note)
		// Its one attribute is written without a name.
		case *libvirtxml.DomainFeatureAPIC:
			note(prefix+name, "on", f.EOI)
		case *libvirtxml.DomainFeature:
			note(prefix+name, "on")
		default:
			note(prefix+name, featureWords(field.Elem())...)
		}
	}
}

// featureWords returns the texts and numbers of a feature, and of its parts with their names. A switch that is mentioned without a state is on.
func featureWords(v reflect.Value) (list []any) {
	for i := range v.NumField() {
		field, name := v.Field(i), v.Type().Field(i).Name
		switch field.Kind() {
		case reflect.String:
			if name == "State" && field.String() == "" {
				list = append(list, "on")
			} else if field.String() != "" {
				list = append(list, field.String())
			}
		case reflect.Uint:
			if field.Uint() > 0 {
				list = append(list, name, field.Uint())
			}
		case reflect.Struct:
			list = append(list, featureWords(field)...)
		case reflect.Pointer:
			if !field.IsNil() && field.Elem().Kind() == reflect.Struct {
				list = append(append(list, name), featureWords(field.Elem())...)
			}
		}
	}
	return list
}
