package policy

import (
	"reflect"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/fieldpath"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	celcommon "k8s.io/apiserver/pkg/cel/common"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// Request is the input of policies. They change nothing in it.
type Request struct {
	Operation v1alpha1.GuestPolicyOperation
	Resource  v1alpha1.GuestPolicyResource
	// Object is the VirtualMachine or VirtualMachineInstance of the request. OldObject is the object before an update, else nil.
	Object, OldObject metav1.Object
	// Guest is the VMI that boots, with every default; nil if the instancetype or preference does not exist.
	Guest *v1.VirtualMachineInstance
	// Instancetype and Preference are what the object refers to, or nil. Objects of cluster kinds are converted: they have the same fields.
	Instancetype *v1beta1.VirtualMachineInstancetype
	Preference   *v1beta1.VirtualMachinePreference
	// Namespace is the namespace of the object. If it is nil, a policy with a namespaceSelector does not match.
	Namespace *corev1.Namespace
	User      authenticationv1.UserInfo
	DryRun    bool
	// Params reads the params of policies; nil if they cannot be read. A policy with params fails then.
	Params ParamSource
	// Exceptions returns the exceptions of a namespace; nil if there are none. It is called at most once. Now is the time by which they end.
	Exceptions ExceptionSource
	Now        time.Time
	// Hardware returns the hardware record of the guest, or nil if nothing is recorded; nil if there can be no record. It is called at most once, and only if
	// a policy reads the record.
	Hardware func() (*v1alpha1.HardwareRecord, error)
	// Carrier is what a user writes if Object would be made of a template; nil if the user writes Object.
	Carrier *Carrier
}

// Carrier is an object with a template, such as a VirtualMachinePool.
type Carrier struct {
	Kind     metav1.GroupVersionKind
	Resource metav1.GroupVersionResource
	Name     string
}

// hardware is the variable 'hardware': a HardwareRecord without its methods, because types are read from fields. It lacks the fields of later versions of Kiln.
type hardware v1alpha1.HardwareRecord

// request is the variable 'request', with the fields that a ValidatingAdmissionPolicy declares, except 'options'.
type request struct {
	Kind               metav1.GroupVersionKind     `json:"kind"`
	Resource           metav1.GroupVersionResource `json:"resource"`
	SubResource        string                      `json:"subResource,omitempty"`
	RequestKind        metav1.GroupVersionKind     `json:"requestKind"`
	RequestResource    metav1.GroupVersionResource `json:"requestResource"`
	RequestSubResource string                      `json:"requestSubResource,omitempty"`
	Name               string                      `json:"name"`
	Namespace          string                      `json:"namespace,omitempty"`
	Operation          string                      `json:"operation"`
	UserInfo           authenticationv1.UserInfo   `json:"userInfo"`
	DryRun             bool                        `json:"dryRun"`
}

// requestVariable returns the value of variable 'request'.
func (r *Request) requestVariable() *request {
	kind := v1.VirtualMachineGroupVersionKind
	if r.Resource == v1alpha1.PolicyVirtualMachineInstances {
		kind = v1.VirtualMachineInstanceGroupVersionKind
	}
	gvk := metav1.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind}
	gvr := metav1.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: string(r.Resource)}
	variable := &request{
		Kind: gvk, RequestKind: gvk, Resource: gvr, RequestResource: gvr,
		Name: r.Object.GetName(), Namespace: r.Object.GetNamespace(), Operation: string(r.Operation),
		UserInfo: r.User, DryRun: r.DryRun,
	}
	if of := r.Carrier; of != nil {
		variable.RequestKind, variable.RequestResource, variable.Name = of.Kind, of.Resource, of.Name
	}
	return variable
}

// input is what all policies read of one request. Go values become values of CEL when they are read, field by field, and are kept: a policy finds what
// the one before it has read. Trap: SchemalessTypedToVal of Kubernetes keeps fields without a lock, so that an input belongs to one goroutine.
type input struct {
	request *Request
	values  map[string]ref.Val
	// noHardware is why the hardware record could not be read.
	noHardware error
}

// newInput returns the input of a request.
func newInput(r *Request) *input { return &input{request: r, values: make(map[string]ref.Val, 8)} }

// builtinVariable returns a variable that the policy does not define itself.
func (in *input) builtinVariable(name string) (ref.Val, bool) {
	if value, ok := in.values[name]; ok {
		return value, true
	}
	var read any
	switch name {
	case varObject:
		read = in.request.Object
	case varOldObject:
		read = in.request.OldObject
	case varGuest:
		read = in.request.Guest
	case varInstancetype:
		read = in.request.Instancetype
	case varPreference:
		read = in.request.Preference
	case varNamespace:
		read = in.request.Namespace
	case varRequest:
		read = in.request.requestVariable()
	case varHardware:
		recorded, err := in.readHardware()
		if err != nil { // a new one for each use: an evaluation writes into the error where it happened
			return types.NewErr("hardware: %v", err), true
		}
		read = recorded
	default:
		return nil, false
	}
	// As ValidatingAdmissionPolicy reads objects since 1.37: like the JSON of the object, without converting it. A nil pointer is null.
	value := celcommon.SchemalessTypedToVal(read)
	in.values[name] = value
	return value, true
}

// readHardware returns the hardware record of the guest; nil if nothing is recorded.
func (in *input) readHardware() (*hardware, error) {
	if in.noHardware != nil || in.request.Hardware == nil {
		return nil, in.noHardware
	}
	recorded, err := in.request.Hardware()
	in.noHardware = err
	return (*hardware)(recorded), err
}

// deepestExistingPath returns the part of a path whose parent the object has: the owner of the object can find it. spec.domain.cpu.cores of an object without
// spec.domain.cpu is spec.domain.cpu. scalar is the value there, if it is a number, a short text, true or false; else nil.
func (in *input) deepestExistingPath(path string) (deepest string, scalar any) {
	value, _ := in.builtinVariable(varObject)
	steps := fieldpath.Parse(path)
	for i, step := range steps {
		var found bool
		index, isIndex := step.Index()
		switch of := value.(type) {
		case traits.Lister:
			if n, ok := of.Size().(types.Int); !isIndex || !ok || int64(index) >= int64(n) {
				return fieldpath.Join(steps[:i]), nil
			}
			value, found = of.Get(types.Int(index)), true
		case traits.Mapper:
			value, found = of.Find(types.String(step.Text))
		}
		if !found {
			return fieldpath.Join(steps[:i+1]), nil
		}
	}
	switch scalar := value.Value().(type) {
	case bool, int64, uint64, float64:
		return path, scalar
	case string:
		if len(scalar) <= mostValue {
			return path, scalar
		}
	}
	return path, nil
}

// mostValue is the length in bytes of the longest text that a denial shows as the value of its field.
const mostValue = 64

// ResolveName implements cel.Activation.
func (e *evaluation) ResolveName(name string) (any, bool) {
	switch name {
	case varVariables:
		return (*scope)(e), true
	case varParams:
		return e.paramValue, e.paramValue != nil
	}
	return e.input.builtinVariable(name)
}

// Parent implements cel.Activation.
func (e *evaluation) Parent() cel.Activation { return nil }

// scope is variable 'variables' of one evaluation. Each is computed when it is first read, and its cost is spent once.
type scope evaluation

var (
	_         traits.Mapper = (*scope)(nil)
	scopeType               = types.NewObjectType("policy.variables", traits.ContainerType|traits.IndexerType|traits.FieldTesterType)
)

// Find implements traits.Mapper.
func (s *scope) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key), true
	}
	for i, v := range s.variables {
		if v.name == string(name) {
			return s.computeVariable(i), true
		}
	}
	return nil, false
}

// computeVariable returns the value of a variable. An error is kept too: a variable that fails costs its price once.
func (s *scope) computeVariable(i int) ref.Val {
	if s.values == nil {
		s.values = make([]ref.Val, len(s.variables))
	}
	if s.values[i] == nil {
		value, err := (*evaluation)(s).runProgram(s.variables[i].program)
		if err != nil {
			value = types.NewErr("variable '%s': %v", s.variables[i].name, err)
		}
		s.values[i] = value
	}
	return s.values[i]
}

// Get implements traits.Indexer.
func (s *scope) Get(key ref.Val) ref.Val {
	if value, ok := s.Find(key); ok {
		return value
	}
	return types.NewErr("no such variable: %v", key)
}

// IsSet implements traits.FieldTester.
func (s *scope) IsSet(key ref.Val) ref.Val { return s.Contains(key) }

// Contains implements traits.Container.
func (s *scope) Contains(key ref.Val) ref.Val {
	name, ok := key.(types.String)
	for _, v := range s.variables {
		if ok && v.name == string(name) {
			return types.True
		}
	}
	return types.False
}

// Size implements traits.Sizer.
func (s *scope) Size() ref.Val { return types.Int(len(s.variables)) }

// Iterator implements traits.Iterable. 'variables' is of a type that has fields, so that no expression iterates over it.
func (s *scope) Iterator() traits.Iterator {
	return types.NewDynamicList(types.DefaultTypeAdapter, []string{}).Iterator()
}

// ConvertToNative implements ref.Val.
func (s *scope) ConvertToNative(reflect.Type) (any, error) {
	return nil, types.NoSuchOverloadErr().(*types.Err)
}

// ConvertToType implements ref.Val.
func (s *scope) ConvertToType(ref.Type) ref.Val { return types.NoSuchOverloadErr() }

// Equal implements ref.Val.
func (s *scope) Equal(other ref.Val) ref.Val { return types.Bool(other == ref.Val(s)) }

// Type implements ref.Val.
func (s *scope) Type() ref.Type { return scopeType }

// Value implements ref.Val.
func (s *scope) Value() any { return s }
