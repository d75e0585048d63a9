package backend

import (
	"cmp"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"
	"text/template"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// policyPath is where errors of host profiles start.
func policyPath(names ...string) *field.Path { return field.NewPath("hostProfile", names...) }

var profileRoot = policyPath()

// Unreadable are the mistakes in a profile's selectors, below the path of its spec. Nobody can tell whom such a profile is for.
func Unreadable(spec *v1alpha1.HostProfileSpec, path *field.Path) field.ErrorList {
	strict := metavalidation.LabelSelectorValidationOptions{}
	return append(metavalidation.ValidateLabelSelector(spec.VMSelector, strict, path.Child("vmSelector")),
		metavalidation.ValidateLabelSelector(spec.NodeSelector, strict, path.Child("nodeSelector"))...)
}

// Policy merges the profiles that select a guest on a host, field by field: the highest priority counts. Profiles that are Unreadable are
// left out: one mistake must not stop the guests of all. Its errors are fields in which two profiles of one priority differ: which of
// them counts would be chance.
func Policy(profiles []v1alpha1.HostProfile, vmi *v1.VirtualMachineInstance, host Capabilities) (v1alpha1.HostPolicy, field.ErrorList) {
	var chosen []*v1alpha1.HostProfile
	m := merge{from: map[string]*v1alpha1.HostProfile{}}
	for i := range profiles {
		p := &profiles[i]
		if selects(p.Spec.VMSelector, vmi.Labels) && selects(p.Spec.NodeSelector, host.Labels) && len(Unreadable(&p.Spec, policyPath())) == 0 {
			chosen = append(chosen, p)
		}
	}
	slices.SortFunc(chosen, func(a, b *v1alpha1.HostProfile) int {
		return cmp.Or(cmp.Compare(b.Spec.Priority, a.Spec.Priority), strings.Compare(a.Name, b.Name))
	})
	var policy v1alpha1.HostPolicy
	for _, p := range chosen {
		m.fill(reflect.ValueOf(&policy).Elem(), reflect.ValueOf(p.Spec.HostPolicy.DeepCopy()).Elem(), place{p, policyPath()})
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

// selects by labels; an absent selector selects all, and one that cannot be read none.
func selects(selector *metav1.LabelSelector, of map[string]string) bool {
	if selector == nil {
		return true
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && parsed.Matches(labels.Set(of))
}

// fill sets what is unset. Structs are merged, everything else is taken as a whole.
func (m *merge) fill(to, from reflect.Value, at place) {
	for i := range from.NumField() {
		name, _, _ := strings.Cut(from.Type().Field(i).Tag.Get("json"), ",")
		value, target, path := from.Field(i), to.Field(i), at.path.Child(name)
		if value.IsZero() {
			continue
		}
		if value.Kind() == reflect.Pointer && value.Elem().Kind() == reflect.Struct {
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
		case first.Spec.Priority == at.Spec.Priority && !reflect.DeepEqual(target.Interface(), value.Interface()):
			m.errs = append(m.errs, field.Forbidden(path, fmt.Sprintf("host profiles '%s' and '%s' of priority %d differ here: %v and %v",
				first.Name, at.Name, at.Spec.Priority, reflect.Indirect(target), reflect.Indirect(value))))
		}
	}
}

// complete has a struct for each part, so that readers need not ask.
func complete(p v1alpha1.HostPolicy) v1alpha1.HostPolicy {
	if p == (v1alpha1.HostPolicy{}) {
		return noPolicy
	}
	return filled(p)
}

var noPolicy = filled(v1alpha1.HostPolicy{}) // read by all, written by none

func filled(p v1alpha1.HostPolicy) v1alpha1.HostPolicy {
	value := reflect.ValueOf(&p).Elem()
	for i := range value.NumField() {
		if part := value.Field(i); part.IsNil() {
			part.Set(reflect.New(part.Type().Elem()))
		}
	}
	return p
}

// paths puts the administrator's paths in the place of the bound ones.
func (h *host) paths() {
	t := h.policy.PathTemplates
	for _, p := range []struct {
		name, text string
		to         *string
	}{{"vnc", t.VNC, &h.Bindings.VNC}, {"serial", t.Serial, &h.Bindings.Serial}, {"nvram", t.NVRAM, &h.Bindings.NVRAM}, {"swtpm", t.SWTPM, &h.Bindings.TPMState}} {
		if p.text != "" {
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

func (h *host) expand(at *field.Path, text, channel string) string {
	var out strings.Builder
	parsed, err := template.New("").Parse(text)
	if err == nil {
		err = parsed.Execute(&out, struct{ Namespace, Name, UID, Channel string }{h.VMI.Namespace, h.VMI.Name, string(h.VMI.UID), channel})
	}
	if err == nil && path.Clean(out.String()) != out.String() || err == nil && !path.IsAbs(out.String()) {
		err = fmt.Errorf("leads to '%s', want an absolute path without '..'", out.String())
	}
	if err != nil {
		h.fail(field.Invalid(at, text, err.Error()))
	}
	return out.String()
}
