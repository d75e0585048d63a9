package backend

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// policyPath returns the field of an error about a host profile.
func policyPath(names ...string) *field.Path { return field.NewPath("hostProfile", names...) }

var profileRoot = policyPath()

// Policy merges the profiles that select a VMI on a host, field by field: the value of the highest priority counts. Profiles with InvalidSelectors and fields
// in InvalidFields are left out: one mistake must not stop all VMIs. It returns an error for each field in which two profiles of one priority differ, because a
// choice between them would be arbitrary.
func Policy(profiles []v1alpha1.HostProfile, vmi *v1.VirtualMachineInstance, host Capabilities) (v1alpha1.HostPolicy, field.ErrorList) {
	var chosen []*v1alpha1.HostProfile
	m := policyMerge{setBy: map[string]*v1alpha1.HostProfile{}}
	for i := range profiles {
		p := &profiles[i]
		if selectorMatches(p.Spec.VMISelector, vmi.Labels) && selectorMatches(p.Spec.NodeSelector, host.Labels) && len(InvalidSelectors(&p.Spec, policyPath())) == 0 {
			chosen = append(chosen, p)
		}
	}
	slices.SortFunc(chosen, func(a, b *v1alpha1.HostProfile) int {
		return cmp.Or(cmp.Compare(b.Spec.Priority, a.Spec.Priority), strings.Compare(a.Name, b.Name))
	})
	var policy v1alpha1.HostPolicy
	for _, p := range chosen {
		m.fillUnset(reflect.ValueOf(&policy).Elem(), reflect.ValueOf(withoutInvalidFields(&p.Spec)).Elem(), origin{p, policyPath()})
	}
	return policy, m.errs
}

type policyMerge struct {
	setBy map[string]*v1alpha1.HostProfile // by the field's path: the profile that set it
	errs  field.ErrorList
}

// origin is a part of a profile.
type origin struct {
	*v1alpha1.HostProfile
	path *field.Path
}

// fillUnset copies the fields that are set in from and unset in to. Structs are merged; lists and quantities are taken as a whole. Profiles come in
// descending priority, so that a field that is set already has the same priority or a higher one.
func (m *policyMerge) fillUnset(to, from reflect.Value, at origin) {
	for i := range from.NumField() {
		value, target, path := from.Field(i), to.Field(i), at.path.Child(fieldName(from.Type().Field(i)))
		if value.IsZero() {
			continue
		}
		if isPart(value.Type()) {
			if target.IsNil() {
				target.Set(reflect.New(value.Type().Elem()))
			}
			m.fillUnset(target.Elem(), value.Elem(), origin{at.HostProfile, path})
			continue
		}
		switch first := m.setBy[path.String()]; {
		case first == nil:
			target.Set(value)
			m.setBy[path.String()] = at.HostProfile
		case first.Spec.Priority == at.Spec.Priority && !equality.Semantic.DeepEqual(target.Interface(), value.Interface()):
			m.errs = append(m.errs, field.Forbidden(path, fmt.Sprintf(
				"HostProfiles '%s' and '%s' have priority %d and set different values, %v and %v; change a priority",
				first.Name, at.Name, at.Spec.Priority, jsonText(target), jsonText(value))))
		}
	}
}

// applyPathTemplates replaces bound paths by the paths that hostProfile.pathTemplates gives.
func (h *host) applyPathTemplates() {
	t := h.policy.PathTemplates
	for _, p := range []struct {
		name, text string
		has        bool // whether the VMI has the device
		to         *string
	}{
		{"vnc", t.VNC, true, &h.Bindings.VNC}, {"serial", t.Serial, true, &h.Bindings.Serial},
		{"nvram", t.NVRAM, h.Frontend.OS.Firmware == "efi", &h.Bindings.NVRAM},
		{"swtpm", t.SWTPM, len(h.Frontend.Devices.TPMs) > 0, &h.Bindings.TPMState},
	} {
		if p.has && p.text != "" {
			*p.to = h.expandTemplate(policyPath("pathTemplates", p.name), p.text, "")
		}
	}
	if t.Channel == "" {
		return
	}
	h.Bindings.Channels = map[string]string{}
	for _, channel := range h.Frontend.Devices.Channels {
		name := abi.Name("channel", channel.Alias)
		h.Bindings.Channels[name] = h.expandTemplate(policyPath("pathTemplates", "channel"), t.Channel, name)
	}
}

// expandTemplate replaces the placeholders of a template. The result is checked again, because namespace and name are chosen by a tenant: it must be a
// clean path without '..'.
func (h *host) expandTemplate(at *field.Path, text, channel string) string {
	var pairs []string
	for name, value := range map[string]string{"Namespace": h.VMI.Namespace, "Name": h.VMI.Name, "UID": string(h.VMI.UID), "Channel": channel} {
		pairs = append(pairs, "{{."+name+"}}", value, "{{ ."+name+" }}", value)
	}
	out := strings.NewReplacer(pairs...).Replace(text)
	if format := formats[strings.TrimPrefix(at.String(), "hostProfile.")]; !format.valid(text) || path.Clean(out) != out {
		h.addError(field.Invalid(at, text, format.message))
	}
	return out
}

// jsonText returns a value as it stands in the profile, for errors.
func jsonText(value reflect.Value) string {
	text, err := json.Marshal(value.Interface())
	if err != nil {
		return err.Error()
	}
	return strings.Trim(string(text), `"`)
}

// PolicyChanges returns the fields in which two policies differ, such as cpu.shares. Lists count as a whole, as in merging.
func PolicyChanges(a, b v1alpha1.HostPolicy) []string {
	return changedFields(reflect.ValueOf(a), reflect.ValueOf(b), "")
}

func changedFields(a, b reflect.Value, at string) (fields []string) {
	for i := range a.NumField() {
		name, x, y := at+fieldName(a.Type().Field(i)), a.Field(i), b.Field(i)
		switch {
		case equality.Semantic.DeepEqual(x.Interface(), y.Interface()):
		case isPart(x.Type()):
			fields = append(fields, changedFields(structOrZero(x), structOrZero(y), name+".")...)
		default:
			fields = append(fields, name)
		}
	}
	return fields
}

// structOrZero returns the struct that a pointer points to, and the empty struct for nil.
func structOrZero(pointer reflect.Value) reflect.Value {
	if pointer.IsNil() {
		return reflect.Zero(pointer.Type().Elem())
	}
	return pointer.Elem()
}
