package snapshot

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clone "kubevirt.io/api/clone/v1beta1"
	v1 "kubevirt.io/api/core/v1"
)

// ClonePatches returns the patches of the restore that makes a clone: the clone's filters, MAC addresses, serial number and patches. The restore itself renews
// the rest of the identity. Filters do not remove Kiln's annotations: without its pins the clone would be made from other objects.
func ClonePatches(vm *v1.VirtualMachine, spec *clone.VirtualMachineCloneSpec) ([]string, error) {
	p := &patchList{}
	p.removeUnselected(vm.Labels, spec.LabelFilters, "/metadata/labels/")
	p.removeUnselected(withoutOwnAnnotations(vm.Annotations), spec.AnnotationFilters, "/metadata/annotations/")
	p.removeUnselected(vm.Spec.Template.ObjectMeta.Labels, spec.Template.LabelFilters, "/spec/template/metadata/labels/")
	p.removeUnselected(vm.Spec.Template.ObjectMeta.Annotations, spec.Template.AnnotationFilters, "/spec/template/metadata/annotations/")
	for i, nic := range vm.Spec.Template.Spec.Domain.Devices.Interfaces {
		if mac := spec.NewMacAddresses[nic.Name]; mac != "" {
			p.addValue(fmt.Sprintf("/spec/template/spec/domain/devices/interfaces/%d/macAddress", i), mac)
		}
	}
	if serial := spec.NewSMBiosSerial; serial != nil && *serial != "" {
		const firmware = "/spec/template/spec/domain/firmware"
		if vm.Spec.Template.Spec.Domain.Firmware == nil {
			p.addValue(firmware, map[string]any{})
		}
		p.addValue(firmware+"/serial", *serial)
	}
	return append(p.all, spec.Patches...), p.err
}

// patchList are operations of RFC 6902.
type patchList struct {
	all []string
	err error
}

func (p *patchList) addOperation(operation map[string]any) {
	text, err := json.Marshal(operation)
	if p.err == nil {
		p.err = err
	}
	p.all = append(p.all, string(text))
}

func (p *patchList) addValue(path string, value any) {
	p.addOperation(map[string]any{"op": "add", "path": path, "value": value})
}

// removeUnselected removes the keys that filters do not select. Nil filters select all keys. As in KubeVirt, a filter is a regular expression that matches a
// part of the key; the filter '*' selects all keys, and the keys of filters that begin with '!' are taken away last. An invalid expression selects nothing.
func (p *patchList) removeUnselected(keys map[string]string, filters []string, base string) {
	if filters == nil {
		return
	}
	var wanted, unwanted []*regexp.Regexp
	for _, filter := range filters {
		text, negated := strings.CutPrefix(filter, "!")
		if text == "*" {
			text = ".*"
		}
		expression, err := regexp.Compile(text)
		switch {
		case err != nil:
		case negated:
			unwanted = append(unwanted, expression)
		default:
			wanted = append(wanted, expression)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		found := func(of *regexp.Regexp) bool { return of.MatchString(key) }
		if !slices.ContainsFunc(wanted, found) || slices.ContainsFunc(unwanted, found) {
			p.addOperation(map[string]any{"op": "remove", "path": base + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)})
		}
	}
}

// withoutOwnAnnotations returns annotations without Kiln's own and without the mark of a restore.
func withoutOwnAnnotations(all map[string]string) map[string]string {
	rest := maps.Clone(all)
	maps.DeleteFunc(rest, func(key, _ string) bool { return key == Mark || strings.HasPrefix(key, v1alpha1.Prefix) })
	return rest
}

// checkFilters returns the mistakes in filters, by KubeVirt's rules.
func checkFilters(filters []string, at *field.Path) (errs field.ErrorList) {
	for i, filter := range filters {
		of := at.Index(i)
		switch {
		case filter == "":
			errs = append(errs, field.Required(of, "a filter selects keys, such as 'example.com/*'"))
		case filter == "!":
			errs = append(errs, field.Invalid(of, filter, "must name what is not selected, such as '!example.com/*'"))
		case strings.Contains(filter[1:], "!"):
			errs = append(errs, field.Invalid(of, filter, "'!' may only be its first character"))
		case strings.Contains(filter[:len(filter)-1], "*"):
			errs = append(errs, field.Invalid(of, filter, "'*' may only be its last character"))
		default:
			if _, err := regexp.Compile(strings.TrimPrefix(strings.TrimPrefix(filter, "!"), "*")); err != nil {
				errs = append(errs, field.Invalid(of, filter, err.Error()))
			}
		}
	}
	return errs
}
