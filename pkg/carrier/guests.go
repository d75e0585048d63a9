package carrier

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/validate"
	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Guest is what the owner of a kind would make of a template.
type Guest struct {
	// Path is the path of the template in the carrier, such as spec.machines[2].template.
	Path string
	// VM or VMI is set, unless Mistake says why the template cannot be read, with a path in the carrier.
	VM      *v1.VirtualMachine
	VMI     *v1.VirtualMachineInstance
	Mistake *field.Error
	// Raw is the JSON of the template, with the values of its parameters.
	Raw []byte
	// Open are the parameters without a value that the template refers to outside of metadata.name. Where it does, it is not known what would be made.
	Open []string
}

// MostGuests bounds the templates of one object.
const MostGuests = 32

// RuleTooMany is the Origin of the error about an object with more templates.
const RuleTooMany = "carrier/templates"

// Object is an object of a kind that has templates.
type Object struct {
	Kind
	// Version and Resource are the API version and the resource of the object, without the group.
	Version, Resource string
	Namespace         string
	// Raw is the JSON of the object, and Old the JSON before an update, else nil.
	Raw, Old []byte
}

// Guests returns what would be made of the templates of the object. An object without a template makes nothing.
func (o Object) Guests() ([]Guest, *field.Error) { return o.guestsOf(o.Raw) }

// OldGuests returns what was made of the templates before an update. It returns none if they cannot be judged.
func (o Object) OldGuests() []Guest {
	if o.Old == nil {
		return nil
	}
	guests, _ := o.guestsOf(o.Old)
	return guests
}

// Name returns the name of the object.
func (o Object) Name() string { return o.owner(o.Raw).Name }

func (o Object) guestsOf(raw []byte) ([]Guest, *field.Error) {
	k := o.Kind
	places, complete := findPlaces(nil, gjson.ParseBytes(raw), strings.Split(k.Path, "."), "")
	if !complete {
		list, _, _ := strings.Cut(k.Path, "[*]")
		return nil, field.Forbidden(field.NewPath(list), fmt.Sprintf("at most %d templates of one object can be judged: "+
			"use several objects", MostGuests)).WithOrigin(RuleTooMany)
	}
	owner := o.owner(raw)
	var guests []Guest
	for _, at := range places {
		guests = append(guests, k.guestOf(at, raw, owner, o.Namespace))
	}
	return guests, nil
}

// place is a template in an object.
type place struct {
	path string
	raw  string
}

// findPlaces adds the templates that the steps of a path lead to. It is false if there are more than MostGuests. A value of another type than the path expects
// has no template.
func findPlaces(found []place, at gjson.Result, steps []string, path string) (all []place, complete bool) {
	if len(steps) == 0 {
		if at.Type == gjson.Null {
			return found, true
		}
		return append(found, place{path, at.Raw}), len(found) < MostGuests
	}
	step, isList := strings.CutSuffix(steps[0], "[*]")
	if !at.IsObject() {
		return found, true
	}
	// The names of a path have no character that gjson gives a meaning to.
	at = at.Get(step)
	path = strings.TrimPrefix(path+"."+step, ".")
	if !isList {
		return findPlaces(found, at, steps[1:], path)
	}
	if !at.IsArray() {
		return found, true
	}
	complete, i := true, 0
	at.ForEach(func(_, element gjson.Result) bool {
		found, complete = findPlaces(found, element, steps[1:], fmt.Sprintf("%s[%d]", path, i))
		i++
		return complete
	})
	return found, complete
}

// owner returns the reference to a carrier. Its name is never empty: an API server generates one if the object has none.
func (o Object) owner(raw []byte) metav1.OwnerReference {
	metadata := gjson.GetBytes(raw, "metadata")
	name := textOf(metadata.Get("name"))
	if name == "" {
		name = textOf(metadata.Get("generateName")) + generated
	}
	return metav1.OwnerReference{APIVersion: schema.GroupVersion{Group: o.Group, Version: o.Version}.String(), Kind: o.Kind.Kind, Name: name,
		UID: types.UID(textOf(metadata.Get("uid"))), Controller: new(true)}
}

func textOf(value gjson.Result) string {
	if value.Type != gjson.String {
		return ""
	}
	return value.Str
}

// guestOf returns what would be made of a template.
func (k Kind) guestOf(at place, object []byte, owner metav1.OwnerReference, namespace string) Guest {
	guest := Guest{Path: at.path}
	raw := []byte(at.raw)
	if !gjson.ParseBytes(raw).IsObject() {
		guest.Mistake = &field.Error{Type: field.ErrorTypeForbidden, Field: at.path, Detail: "must be a template with metadata and spec",
			Origin: "request/unreadable"}
		return guest
	}
	if k.parameters {
		raw, guest.Open, guest.Mistake = readParameters(object).fillTemplate(raw, at.path)
	}
	if guest.Mistake == nil {
		guest.Raw, guest.Mistake = raw, guest.decode(k.Makes, raw)
	}
	if guest.Mistake != nil {
		guest.VM, guest.VMI = nil, nil
		return guest
	}
	var of *metav1.ObjectMeta
	if guest.VM != nil {
		guest.VM.SetGroupVersionKind(v1.VirtualMachineGroupVersionKind)
		guest.VM.Status, of = v1.VirtualMachineStatus{}, &guest.VM.ObjectMeta
	} else {
		guest.VMI.SetGroupVersionKind(v1.VirtualMachineInstanceGroupVersionKind)
		guest.VMI.Status, of = v1.VirtualMachineInstanceStatus{}, &guest.VMI.ObjectMeta
	}
	template := *of
	*of = metav1.ObjectMeta{Name: k.name(owner.Name, template), Namespace: namespace, Labels: template.Labels, Annotations: template.Annotations}
	for _, key := range ofAdmission {
		delete(of.Annotations, key)
	}
	if k.owns {
		of.OwnerReferences = []metav1.OwnerReference{owner}
	}
	return guest
}

// ofAdmission are the annotations that only admission and controllers write. In a template they mean nothing that could be judged: pins may name revisions that
// do not exist. What is made of the template is judged with them.
var ofAdmission = []string{v1alpha1.AnnotationPins, v1alpha1.AnnotationIdentity, v1alpha1.AnnotationArchitecture, v1alpha1.AnnotationInference,
	v1alpha1.AnnotationGeneration, v1alpha1.AnnotationFrontend, v1alpha1.AnnotationHardware, v1alpha1.AnnotationInterfaceAddresses, v1alpha1.AnnotationLostPins}

// decode reads a template into its type. Counts are judged before, because parameters may have made the template larger than what was sent.
func (g *Guest) decode(makes v1alpha1.GuestPolicyResource, raw []byte) *field.Error {
	if over := validate.Counts(raw); over != nil {
		return below(g.Path, over)
	}
	var into any
	if makes == v1alpha1.PolicyVirtualMachines {
		g.VM = &v1.VirtualMachine{}
		into = g.VM
	} else {
		g.VMI = &v1.VirtualMachineInstance{}
		into = g.VMI
	}
	err := json.Unmarshal(raw, into)
	if err == nil {
		return nil
	}
	mistake := &field.Error{Type: field.ErrorTypeForbidden, Detail: err.Error(), Origin: "request/unreadable"}
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		mistake = validate.Mistyped(wrong, raw)
	} else if found := validate.FirstUndecodable(raw, reflect.TypeOf(into).Elem(), nil, err); found.IsQuantity() {
		mistake = found.NoQuantity()
	}
	return below(g.Path, mistake)
}

// Below returns the path in the carrier of a path in what is made of the template.
func (g Guest) Below(path string) string {
	switch {
	case path == "" || path == "<nil>":
		return g.Path
	case path[0] == '[':
		return g.Path + path
	}
	return g.Path + "." + path
}

// below returns an error with its path in the carrier.
func below(path string, err *field.Error) *field.Error {
	moved := *err
	moved.Field = Guest{Path: path}.Below(err.Field)
	return &moved
}

// Same reports whether two templates make the same, so that an update of the carrier changes nothing that would be judged.
func (g Guest) Same(other Guest) bool {
	return g.Mistake == nil && other.Mistake == nil && bytes.Equal(g.Raw, other.Raw) && reflect.DeepEqual(g.VM, other.VM) && reflect.DeepEqual(g.VMI, other.VMI) &&
		reflect.DeepEqual(g.Open, other.Open)
}
