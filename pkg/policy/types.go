package policy

import (
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	celtypes "k8s.io/apiserver/pkg/cel"
)

// The types of CEL are read from the Go types, not from the 0.7 MB of the definitions in manifests/crds: that takes milliseconds and no YAML, and a
// Go type that stands at several places is one type of CEL, so that 'object.spec.template.spec.domain == guest.spec.domain' compiles. A test
// compares both: what the schema serves is what an expression may name.

// Bounds of what an expression reads, for the estimate of its cost. Counts of pkg/validate refuses longer lists and maps before anything is judged.
// The definitions bound one text, at 4096 characters; a longer one than this costs what it costs at run time, where the limits of a call hold.
const (
	mostElements = 512
	mostText     = 1024
	// A label of DNS, which most names are, has 63 bytes, and the key of a label or annotation 253 + 1 + 63.
	nameText = 64
	keyText  = 320
	// The longest quantity and time that Kubernetes writes are far shorter.
	mostScalar = 64
)

var (
	text   = boundedText(celtypes.StringType, mostText)
	name   = boundedText(celtypes.StringType, nameText)
	key    = boundedText(celtypes.StringType, keyText)
	scalar = boundedText(celtypes.StringType, mostScalar)
)

// boundedText returns the type of a text of bounded length.
func boundedText(of *celtypes.DeclType, most int64) *celtypes.DeclType {
	bounded := *of
	bounded.MaxElements = most
	return &bounded
}

// leaves are Go types that write themselves as JSON. A quantity and a time are texts at run time, as in a ValidatingAdmissionPolicy: quantity() and
// timestamp() read them.
var leaves = map[reflect.Type]*celtypes.DeclType{
	reflect.TypeFor[resource.Quantity]():    scalar,
	reflect.TypeFor[metav1.Time]():          scalar,
	reflect.TypeFor[metav1.MicroTime]():     scalar,
	reflect.TypeFor[metav1.Duration]():      scalar,
	reflect.TypeFor[intstr.IntOrString]():   celtypes.DynType,
	reflect.TypeFor[metav1.FieldsV1]():      celtypes.DynType,
	reflect.TypeFor[runtime.RawExtension](): celtypes.DynType,
}

// declarations are the types of CEL by the Go types that they are read from.
type declarations map[reflect.Type]*celtypes.DeclType

// declareType returns the type of CEL for a Go type, as its JSON reads.
func (d declarations) declareType(t reflect.Type) *celtypes.DeclType {
	if declared, ok := leaves[t]; ok {
		return declared
	}
	switch t.Kind() {
	case reflect.Pointer:
		return d.declareType(t.Elem())
	case reflect.Bool:
		return celtypes.BoolType
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return celtypes.IntType
	case reflect.Float32, reflect.Float64:
		return celtypes.DoubleType
	case reflect.String:
		return text
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return text // encoding/json writes bytes as base64
		}
		return celtypes.NewListType(d.declareType(t.Elem()), mostElements)
	case reflect.Map:
		return celtypes.NewMapType(key, d.declareType(t.Elem()), mostElements)
	case reflect.Struct:
		if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()) {
			panic(fmt.Sprintf("%s writes its own JSON: name its type among the leaves", t))
		}
		return d.declareStruct(t)
	}
	return celtypes.DynType
}

// declareStruct returns the type of a struct. It is known before its fields are read, because a struct may contain itself.
func (d declarations) declareStruct(t reflect.Type) *celtypes.DeclType {
	if declared, ok := d[t]; ok {
		return declared
	}
	fields := map[string]*celtypes.DeclField{}
	declared := celtypes.NewObjectType(typeName(t), fields)
	d[t] = declared
	d.declareFields(t, fields)
	return declared
}

// declareFields adds the fields of a struct and of those that stand inline in it, by their names in JSON.
func (d declarations) declareFields(t reflect.Type, fields map[string]*celtypes.DeclField) {
	for i := range t.NumField() {
		field := t.Field(i)
		called, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		inline := called == "" && (field.Anonymous || strings.Contains(options, "inline"))
		switch {
		case inline && field.Type.Kind() == reflect.Pointer:
			d.declareFields(field.Type.Elem(), fields)
		case inline:
			d.declareFields(field.Type, fields)
		case called != "-" && field.IsExported():
			declared := d.declareType(field.Type)
			if declared == text && (called == "name" || called == "namespace" || strings.HasSuffix(called, "Name")) {
				declared = name
			}
			fields[called] = celtypes.NewDeclField(called, declared, false, nil, nil)
		}
	}
}

// typeName returns the name of the type of a struct in errors: kubevirt.v1.CPU.
func typeName(t reflect.Type) string {
	folder, version := path.Split(t.PkgPath())
	owner := "kubernetes"
	switch {
	case strings.HasPrefix(folder, "kubevirt.io/containerized-data-importer-api/"):
		owner = "cdi"
	case strings.HasPrefix(folder, "kubevirt.io/api/instancetype/"):
		owner = "instancetype"
	case strings.HasPrefix(folder, "github.com/kilnvm/"):
		owner = "kiln"
	case strings.HasPrefix(folder, "kubevirt.io/"):
		owner = "kubevirt"
	case strings.HasPrefix(folder, "k8s.io/apimachinery/"):
		owner = "meta"
	case strings.HasPrefix(folder, "k8s.io/api/"):
		owner = path.Base(folder)
	}
	return owner + "." + version + "." + t.Name()
}
