package policy

import (
	"fmt"
	"reflect"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/validate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/version"
	celtypes "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// The variables of an expression.
const (
	varObject       = "object"
	varOldObject    = "oldObject"
	varGuest        = "guest"
	varInstancetype = "instancetype"
	varPreference   = "preference"
	varNamespace    = "namespaceObject"
	varRequest      = "request"
	varHardware     = "hardware"
	varParams       = "params"
	varVariables    = "variables"
)

// language is the version of Kubernetes whose CEL policies are written in: the oldest that Kiln runs on, so that an expression means the same in a
// ValidatingAdmissionPolicy of each of these clusters.
var language = version.MajorMinor(1, 34)

// world is what expressions about one resource may name.
type world struct {
	env *cel.Env
	// types are the types of the variables.
	types map[string]*celtypes.DeclType
	// byName are the types of structs by their names.
	byName map[string]*celtypes.DeclType
	// declared are the types of Go types. An environment must not have two types of one name.
	declared declarations
}

// worlds are made when the first policy is compiled, and shared by all.
var worlds = map[v1alpha1.GuestPolicyResource]func() (*world, error){
	v1alpha1.PolicyVirtualMachines: sync.OnceValues(func() (*world, error) {
		return newWorld(reflect.TypeFor[v1.VirtualMachine]())
	}),
	v1alpha1.PolicyVirtualMachineInstances: sync.OnceValues(func() (*world, error) {
		return newWorld(reflect.TypeFor[v1.VirtualMachineInstance]())
	}),
}

// newWorld returns what expressions about a Go type may name.
func newWorld(object reflect.Type) (*world, error) {
	declared := declarations{}
	w := &world{types: map[string]*celtypes.DeclType{
		varObject:       declared.declareType(object),
		varOldObject:    declared.declareType(object),
		varGuest:        declared.declareType(reflect.TypeFor[v1.VirtualMachineInstance]()),
		varInstancetype: declared.declareType(reflect.TypeFor[v1beta1.VirtualMachineInstancetype]()),
		varPreference:   declared.declareType(reflect.TypeFor[v1beta1.VirtualMachinePreference]()),
		varNamespace:    declared.declareType(reflect.TypeFor[corev1.Namespace]()),
		varRequest:      declared.declareType(reflect.TypeFor[request]()),
		varHardware:     declared.declareType(reflect.TypeFor[hardware]()),
	}, byName: map[string]*celtypes.DeclType{}, declared: declared}
	for t, declared := range declared {
		if twin, ok := w.byName[declared.TypeName()]; ok && twin != declared {
			return nil, fmt.Errorf("two types are called %s, one of them %s", declared.TypeName(), t)
		}
		w.byName[declared.TypeName()] = declared
	}
	return w, w.makeEnvironment()
}

// makeEnvironment makes the environment of the types and variables of the world. It is not an extension of another world's environment, because an
// extension must not have a type that its base has.
func (w *world) makeEnvironment() (err error) {
	var options []cel.EnvOption
	var roots []*celtypes.DeclType
	for name, declared := range w.types {
		options = append(options, cel.Variable(name, declared.CelType()))
		if declared != celtypes.DynType {
			roots = append(roots, declared)
		}
	}
	base := environment.MustBaseEnvSet(language).NewExpressionsEnv()
	w.env, err = extendEnvironment(base, roots, append(options, boundedQuantities...)...)
	return err
}

// boundedQuantities are quantity() and isQuantity() of Kubernetes with an error for a text that takes hours to parse, such as 1e1000000000. A policy may read
// it from an annotation, which a tenant writes, and no deadline interrupts the parser.
var boundedQuantities = []cel.EnvOption{
	cel.Function("quantity", cel.Overload("string_to_quantity", []*cel.Type{cel.StringType}, celtypes.QuantityType, cel.UnaryBinding(func(text ref.Val) ref.Val {
		written := string(text.(types.String))
		if validate.CostlyQuantity(written) {
			return costlyQuantity()
		}
		parsed, err := resource.ParseQuantity(written)
		if err != nil {
			return types.WrapErr(err)
		}
		return celtypes.Quantity{Quantity: &parsed}
	}))),
	cel.Function("isQuantity", cel.Overload("is_quantity_string", []*cel.Type{cel.StringType}, cel.BoolType, cel.UnaryBinding(func(text ref.Val) ref.Val {
		written := string(text.(types.String))
		if validate.CostlyQuantity(written) {
			return costlyQuantity()
		}
		_, err := resource.ParseQuantity(written)
		return types.Bool(err == nil)
	}))),
}

// costlyQuantity returns a new error for each use: an evaluation writes into the error where it happened.
func costlyQuantity() ref.Val {
	return types.NewErr("a quantity may have at most 100 digits, and an exponent of at most 3 digits")
}

// extendEnvironment returns an environment with further types and variables. EnvSet.Extend does the same for new expressions, and also makes an environment
// for stored expressions besides, which nobody uses here.
func extendEnvironment(base *cel.Env, roots []*celtypes.DeclType, options ...cel.EnvOption) (*cel.Env, error) {
	provider := celtypes.NewDeclTypeProvider(roots...)
	provider.SetRecognizeKeywordAsFieldName(true)
	types, err := provider.EnvOptions(base.CELTypeProvider())
	if err != nil {
		return nil, err
	}
	return base.Extend(append(types, options...)...)
}
