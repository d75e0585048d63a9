package admission

import (
	"fmt"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// judgedTypes are the types that admission decodes, with the webhooks that do.
var judgedTypes = []struct {
	name  string
	of    reflect.Type
	hooks []string
}{
	{"VirtualMachine", reflect.TypeFor[v1.VirtualMachine](), []string{MutateVM, ValidateVM, ValidateStatus}},
	{"VirtualMachineInstance", reflect.TypeFor[v1.VirtualMachineInstance](), []string{MutateVMI, ValidateVMI, ValidateStatus}},
	{"VirtualMachineInstancePreset", reflect.TypeFor[v1.VirtualMachineInstancePreset](), []string{ValidatePreset}},
	{"VirtualMachineInstancetype", reflect.TypeFor[v1beta1.VirtualMachineInstancetype](), []string{ValidateInstancetype}},
	{"VirtualMachinePreference", reflect.TypeFor[v1beta1.VirtualMachinePreference](), []string{ValidatePreference}},
	{"GuestHardware", reflect.TypeFor[v1alpha1.GuestHardware](), []string{ValidateHardware}},
	{"GuestProfile", reflect.TypeFor[filling](), []string{ValidateProfile}},
}

// filling is a GuestProfile with the lists of its template, which the type of the kind leaves open.
type filling struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector *metav1.LabelSelector       `json:"selector"`
		Extends  []v1alpha1.ProfileReference `json:"extends"`
		Template struct {
			Metadata v1alpha1.GuestProfileMetadata `json:"metadata"`
			Spec     v1.VirtualMachineInstanceSpec `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

// list is a list or map of a type: its path, the JSON of an object around it with %s for what is in it, and an element.
type list struct{ path, object, element string }

// most is how many elements fit into size bytes.
func (l list) most(size int) int {
	if strings.Contains(l.element, "%d") {
		return size / (len(l.element) + len("9999,"))
	}
	return size / (len(l.element) + len(","))
}

// many is an object with n elements in the list.
func (l list) many(n int) string {
	elements := strings.Repeat(l.element+",", n)
	if strings.Contains(l.element, "%d") { // a map: keys differ
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, l.element+",", i)
		}
		elements = b.String()
	}
	return fmt.Sprintf(l.object, strings.TrimSuffix(elements, ","))
}

// opaque are types that have a JSON of their own.
var opaque = []reflect.Type{
	reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[resource.Quantity](), reflect.TypeFor[intstr.IntOrString](),
	reflect.TypeFor[metav1.FieldsV1](), reflect.TypeFor[kruntime.RawExtension](), reflect.TypeFor[metav1.Duration](),
}

// listsOf finds every list and map below a type.
func listsOf(t reflect.Type, path, object string) (all []list) {
	for _, o := range opaque {
		if t == o {
			return nil
		}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return listsOf(t.Elem(), path, object)
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return nil
		}
		all = append(all, list{path, fmt.Sprintf(object, "[%s]"), minimal(t.Elem())})
		return append(all, listsOf(t.Elem(), path+"[0]", fmt.Sprintf(object, "[%s]"))...)
	case reflect.Map:
		all = append(all, list{path, fmt.Sprintf(object, "{%s}"), `"k%d":` + minimal(t.Elem())})
		return append(all, listsOf(t.Elem(), path+".k", fmt.Sprintf(object, `{"k":%s}`))...)
	case reflect.Struct:
		for i := range t.NumField() {
			all = append(all, listsOfField(t.Field(i), path, object)...)
		}
	}
	return all
}

func listsOfField(f reflect.StructField, path, object string) []list {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	switch {
	case name == "" && f.Anonymous:
		return listsOf(f.Type, path, object)
	case name == "" || name == "-":
		return nil
	}
	return listsOf(f.Type, strings.TrimPrefix(path+"."+name, "."), fmt.Sprintf(object, `{`+strconv.Quote(name)+`:%s}`))
}

// minimal is the shortest JSON of a type.
func minimal(t reflect.Type) string {
	for _, o := range opaque {
		if t == o {
			return "null"
		}
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "{}"
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 {
			return "[]"
		}
		return `""`
	case reflect.String:
		return `""`
	case reflect.Bool:
		return "true"
	}
	return "0"
}
