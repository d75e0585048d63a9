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

// policyPath is where errors of host profiles start.
func policyPath(names ...string) *field.Path { return field.NewPath("hostProfile", names...) }

var profileRoot = policyPath()

// Policy merges the profiles that select a VMI on a host, field by field: the highest priority counts. Profiles that are Unreadable and fields that
// are Illegible are left out: one mistake must not stop the guests of all. The errors are fields in which two profiles of one priority differ:
// which of them counts would be chance.
func Policy(profiles []v1alpha1.HostProfile, vmi *v1.VirtualMachineInstance, host Capabilities) (v1alpha1.HostPolicy, field.ErrorList) {
	var chosen []*v1alpha1.HostProfile
	m := merge{from: map[string]*v1alpha1.HostProfile{}}
	for i := range profiles {
		p := &profiles[i]
		if selects(p.Spec.VMISelector, vmi.Labels) && selects(p.Spec.NodeSelector, host.Labels) && len(Unreadable(&p.Spec, policyPath())) == 0 {
			chosen = append(chosen, p)
		}
	}
	slices.SortFunc(chosen, func(a, b *v1alpha1.HostProfile) int {
		return cmp.Or(cmp.Compare(b.Spec.Priority, a.Spec.Priority), strings.Compare(a.Name, b.Name))
	})
	var policy v1alpha1.HostPolicy
	for _, p := range chosen {
		m.fill(reflect.ValueOf(&policy).Elem(), reflect.ValueOf(legible(&p.Spec)).Elem(), place{p, policyPath()})
	}
	return policy, m.errs
}

type merge struct {
	from map[string]*v1alpha1.HostProfile // by path: who set it
	errs field.ErrorList
}

// place is a part of a profile.
type place struct {
	*v1alpha1.HostProfile
	path *field.Path
}

// fill sets what is unset. Structs are merged, everything else is taken as a whole.
func (m *merge) fill(to, from reflect.Value, at place) {
	for i := range from.NumField() {
		value, target, path := from.Field(i), to.Field(i), at.path.Child(fieldName(from.Type().Field(i)))
		if value.IsZero() {
			continue
		}
		if isPart(value.Type()) {
			if target.IsNil() {
				target.Set(reflect.New(value.Type().Elem()))
			}
			m.fill(target.Elem(), value.Elem(), place{at.HostProfile, path})
			continue
		}
		switch first := m.from[path.String()]; {
		case first == nil:
			target.Set(value)
			m.from[path.String()] = at.HostProfile
		case first.Spec.Priority == at.Spec.Priority && !equality.Semantic.DeepEqual(target.Interface(), value.Interface()):
			m.errs = append(m.errs, field.Forbidden(path, fmt.Sprintf(
				"HostProfiles '%s' and '%s' have priority %d and set different values, %v and %v; change a priority",
				first.Name, at.Name, at.Spec.Priority, printed(target), printed(value))))
		}
	}
}

// paths puts the administrator's paths in the place of the bound ones.
func (h *host) paths() {
	t := h.policy.PathTemplates
	for _, p := range []struct {
		name, text string
		has        bool // what the path is for
		to         *string
	}{
		{"vnc", t.VNC, true, &h.Bindings.VNC}, {"serial", t.Serial, true, &h.Bindings.Serial},
		{"nvram", t.NVRAM, h.Frontend.OS.Firmware == "efi", &h.Bindings.NVRAM},
		{"swtpm", t.SWTPM, len(h.Frontend.Devices.TPMs) > 0, &h.Bindings.TPMState},
	} {
		if p.has && p.text != "" {
			*p.to = h.expand(policyPath("pathTemplates", p.name), p.text, "")
		}
	}
	if t.Channel == "" {
		return
	}
	h.Bindings.Channels = map[string]string{}
	for _, channel := range h.Frontend.Devices.Channels {
		name := abi.Name("channel", channel.Alias)
		h.Bindings.Channels[name] = h.expand(policyPath("pathTemplates", "channel"), t.Channel, name)
	}
}

// expand puts the VMI's names in the place of a template's. What they lead to is judged again: a name is a tenant's.
func (h *host) expand(at *field.Path, text, channel string) string {
	var pairs []string
	for name, value := range map[string]string{"Namespace": h.VMI.Namespace, "Name": h.VMI.Name, "UID": string(h.VMI.UID), "Channel": channel} {
		pairs = append(pairs, "{{."+name+"}}", value, "{{ ."+name+" }}", value)
	}
	out := strings.NewReplacer(pairs...).Replace(text)
	if form := forms[strings.TrimPrefix(at.String(), "hostProfile.")]; !form.fits(text) || path.Clean(out) != out {
		h.fail(field.Invalid(at, text, form.words))
	}
	return out
}

// printed is a value as a user writes it.
func printed(value reflect.Value) string {
	text, err := json.Marshal(value.Interface())
	if err != nil {
		return err.Error()
	}
	return strings.Trim(string(text), `"`)
}

// PolicyChanges returns the fields in which two policies differ, such as cpu.shares. Lists count as a whole, as in merging.
func PolicyChanges(a, b v1alpha1.HostPolicy) []string {
	return changes(reflect.ValueOf(a), reflect.ValueOf(b), "")
}

func changes(a, b reflect.Value, at string) (fields []string) {
	for i := range a.NumField() {
		name, x, y := at+fieldName(a.Type().Field(i)), a.Field(i), b.Field(i)
		switch {
		case equality.Semantic.DeepEqual(x.Interface(), y.Interface()):
		case isPart(x.Type()):
			fields = append(fields, changes(pointed(x), pointed(y), name+".")...)
		default:
			fields = append(fields, name)
		}
	}
	return fields
}

// pointed is what a pointer to a struct points to; the empty struct for nil.
func pointed(pointer reflect.Value) reflect.Value {
	if pointer.IsNil() {
		return reflect.Zero(pointer.Type().Elem())
	}
	return pointer.Elem()
}
