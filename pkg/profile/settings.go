package profile

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/kilnvm/kiln/pkg/internal/leaves"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// setting is one field that a template sets, or an object or an element of a list that shall exist. A template is a list of settings, so that
// bases, priorities and disagreements are decided field by field.
type setting struct {
	// path names the field as an error does, but elements by their names: spec.domain.devices.disks[root].cache.
	path  string
	steps []step
	// value is the value that is filled, of the field's own type. It is shared by all reviews and cloned before it is put.
	value reflect.Value
	// exists is set for an object that need only exist, for which value is a pointer to an empty one, and for an element, which has no value.
	exists bool
	// fields are fields of a struct that are set together; value is the struct then.
	fields []int
	// picks are the choices on the way to the field.
	picks []pick
	// toggle is set for 'enabled' of an object: a VMI that has the object, without the field, means true.
	toggle bool
	// device is set for what must exist before a preference gives devices their models. element is the path of the element that it is a part of.
	device  bool
	element string
	// model is the CPU model that a VMI must have for the setting; empty for any.
	model string
	// The rest is for the compiler. written is the path with indices. direct and member are fields of a device itself, and a member of a choice among
	// them.
	written        string
	direct, member bool
}

// step leads from a value to one inside.
type step struct {
	// index is a field of a struct; -1 for an element of a list or a key of a map.
	index int
	// others are the fields of the struct that must be unset.
	others []int
	// key is a key of a map, or the name of an element.
	key string
	// named is an element that has only its name; it is invalid for a key of a map.
	named reflect.Value
}

// pick is a member that a template picks of a choice.
type pick struct {
	// of names the choice: the path of the struct and its first member.
	of string
	// field is the path of the struct, member the JSON name of what was picked.
	field, member string
}

// compiler makes settings of a parsed template.
type compiler struct {
	settings []setting
	errs     field.ErrorList
	root     *field.Path
}

// compileTemplate returns the settings of a template, in the order of the API's types. root is the path of the template in the profile.
func compileTemplate(template *v1.VirtualMachineInstance, root *field.Path) ([]setting, field.ErrorList) {
	c := compiler{root: root}
	object := reflect.ValueOf(template).Elem()
	for _, part := range []struct{ name, path string }{{"ObjectMeta", "metadata"}, {"Spec", "spec"}} {
		f, _ := object.Type().FieldByName(part.name)
		c.compileValue(setting{}.withStep(step{index: f.Index[0]}, part.path), object.FieldByIndex(f.Index))
	}
	return c.settings, c.errs
}

// compileValue adds the settings at and below a value. A zero value sets nothing.
func (c *compiler) compileValue(at setting, v reflect.Value) {
	switch {
	case v.IsZero():
	case v.Kind() == reflect.Pointer && !isWhole(v.Type().Elem()):
		c.compileObject(at, v.Elem())
	case v.Kind() == reflect.Struct && !isWhole(v.Type()):
		c.compileFields(at, v)
	case v.Kind() == reflect.Slice && names[v.Type().Elem()] != nil:
		c.compileElements(at, v)
	case v.Kind() == reflect.Slice && v.Len() == 0:
	case v.Kind() == reflect.Map:
		for _, key := range leaves.SortedKeys(v, v) {
			entry := at.withStep(step{index: -1, key: key.String()}, "["+key.String()+"]")
			entry.value = v.MapIndex(key)
			c.settings = append(c.settings, entry)
		}
	default:
		at.value = v
		c.settings = append(c.settings, at)
	}
}

// compileObject adds the settings inside of an object, and the object itself if there are none: 'rng: {}' is a value. Preferences ask which member of
// a choice a device has, so that members stand for themselves too.
func (c *compiler) compileObject(at setting, v reflect.Value) {
	if name, on := toggleOf(v); name != "" {
		at.picks = append(slices.Clip(at.picks), pick{at.path + " " + name, at.path + "." + name, strconv.FormatBool(on)})
	}
	self, before := at, len(c.settings)
	at.device, at.direct, at.member = false, false, false
	c.compileFields(at, v)
	if self.device = self.device || self.member; self.device || len(c.settings) == before {
		self.value, self.exists = reflect.New(v.Type()), true
		c.settings = slices.Insert(c.settings, before, self)
	}
}

func (c *compiler) compileFields(at setting, v reflect.Value) {
	group := together[v.Type()]
	c.compileTogether(at, v, group)
	c.refuseTwoPicks(at, v)
	for _, f := range leaves.Fields(v.Type()) {
		if slices.Contains(group, v.Type().Field(f.Index).Name) || v.Field(f.Index).IsZero() {
			continue
		}
		others, name := rivalFields(v.Type(), f.Index)
		dotted := ""
		if f.Name != "" {
			dotted = "." + f.Name
		}
		below := at.withStep(step{index: f.Index, others: others}, dotted)
		below.direct = at.direct && f.Name == ""
		below.member = at.direct && f.Name != "" && name != ""
		below.device = early[below.path]
		below.toggle = slices.Contains(toggles, v.Type().Field(f.Index).Name)
		if name != "" {
			below.picks = append(slices.Clip(below.picks), pick{at.path + " " + name, at.path, cmp.Or(f.Name, "a binding")})
		}
		if part := v.Field(f.Index); f.Name == "" && part.Kind() == reflect.Struct {
			c.compileFields(below, part) // also of one that is whole elsewhere: the name of a configMap is a field of the volume's source
			continue
		}
		c.compileValue(below, v.Field(f.Index))
	}
}

// toggles are the Go fields that turn an object on or off: unset means on.
var toggles = []string{"Enabled", "Present"}

// toggleOf returns the JSON name of the field that turns an object on or off, and whether it is on; no name if it has no such field.
func toggleOf(v reflect.Value) (name string, on bool) {
	for _, toggle := range toggles {
		if f, found := v.Type().FieldByName(toggle); found && f.Type == reflect.TypeFor[*bool]() {
			value := v.FieldByIndex(f.Index)
			return jsonName(f), value.IsNil() || value.Elem().Bool()
		}
	}
	return "", false
}

// refuseTwoPicks refuses two members of a choice: of a VMI without either, the profile could fill only one.
func (c *compiler) refuseTwoPicks(at setting, v reflect.Value) {
	for _, of := range choices[v.Type()] {
		var picked []string
		for _, member := range of {
			f, _ := v.Type().FieldByName(member)
			if !v.FieldByIndex(f.Index).IsZero() {
				picked = append(picked, cmp.Or(jsonName(f), member))
			}
		}
		if len(picked) > 1 {
			c.errs = append(c.errs, field.Invalid(c.root.Child(at.written), strings.Join(picked, ", "),
				"may have one of them at most: remove the others").WithOrigin("profile/choice"))
		}
	}
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// withStep returns the setting one step further.
func (s setting) withStep(next step, path string) setting {
	s.steps = append(slices.Clip(s.steps), next)
	s.path, s.written = s.path+path, s.written+path
	return s
}

// early are the fields that say whether a VMI has a device, which preferences then give a model: they are filled before the preference is applied.
var early = map[string]bool{
	"spec.domain.devices.autoattachPodInterface": true,
	"spec.domain.devices.autoattachInputDevice":  true,
	"spec.domain.devices.sound":                  true,
}

// isDevice reports whether the elements of a list are devices, or volumes and networks of devices: a preference has a say in them once they exist. A CPU
// feature is not a device: the preference may have another policy for it.
func isDevice(list string) bool {
	return strings.HasPrefix(list, "spec.domain.devices.") || list == "spec.volumes" || list == "spec.networks"
}

// compileTogether adds the fields of a struct that are set together.
func (c *compiler) compileTogether(at setting, v reflect.Value, group []string) {
	set, keys := false, []string(nil)
	values := reflect.New(v.Type()).Elem()
	for _, name := range group {
		f, _ := v.Type().FieldByName(name)
		at.fields, keys = append(at.fields, f.Index[0]), append(keys, jsonName(f))
		if part := v.FieldByIndex(f.Index); !part.IsZero() {
			values.FieldByIndex(f.Index).Set(part)
			set = true
		}
	}
	if set {
		at.path += "." + strings.Join(keys, "+")
		at.value = values
		c.settings = append(c.settings, at)
	}
}

// labelKey returns the key of a setting that is a label of the VMI.
func (s *setting) labelKey() (key string, isLabel bool) {
	key, isLabel = strings.CutPrefix(s.path, "metadata.labels[")
	return strings.TrimSuffix(key, "]"), isLabel
}
