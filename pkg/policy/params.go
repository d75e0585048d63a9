package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celtypes "k8s.io/apiserver/pkg/cel"
)

// mostParams is how many params may judge one object. Each of them is an evaluation of the policy.
const mostParams = 64

// ParamSource returns the objects that a paramRef selects for an object of a namespace, in the order of their names. It returns an error if they cannot be
// read. The objects must not be changed.
type ParamSource func(kind v1alpha1.GuestPolicyParamKind, ref v1alpha1.GuestPolicyParamRef, namespace string) ([]*unstructured.Unstructured, error)

// Params returns which params the policy reads; nil if it reads none.
func (p *Policy) Params() (*v1alpha1.GuestPolicyParamKind, *v1alpha1.GuestPolicyParamRef) {
	return p.spec.ParamKind, p.spec.ParamRef
}

// noParamsError is the failure of a policy whose params do not exist, if its parameterNotFoundAction is Deny. Two of them are the same error if their texts
// are the same, see Failure.SameAs.
type noParamsError struct {
	kind, name, namespace string
	// judged is the namespace of the object, in which the params of a namespaced kind are if paramRef has no namespace.
	judged string
}

func (e noParamsError) Error() string {
	text := "spec.paramRef: there is no " + e.kind
	if e.name != "" {
		text += " '" + e.name + "'"
	} else {
		text += " with the labels of its selector"
	}
	if e.namespace != "" {
		text += " in namespace '" + e.namespace + "'"
	} else {
		text += " for an object of namespace '" + e.judged + "'"
	}
	return text + ", and its parameterNotFoundAction is Deny"
}

// noParams returns the error of a policy whose params do not exist for an object of a namespace.
func (p *Policy) noParams(namespace string) error {
	ref := p.spec.ParamRef
	return noParamsError{p.spec.ParamKind.Kind, ref.Name, ref.Namespace, namespace}
}

// params returns the params with which the policy judges an object: one that is nil if the policy has none, and none if the policy does not judge the object.
func (p *Policy) params(r *Request) ([]*unstructured.Unstructured, error) {
	if p.spec.ParamKind == nil {
		return []*unstructured.Unstructured{nil}, nil
	}
	if r.Params == nil {
		return nil, errors.New("spec.paramRef: the params cannot be read here")
	}
	found, err := r.Params(*p.spec.ParamKind, *p.spec.ParamRef, r.Object.GetNamespace())
	switch {
	case err != nil:
		return nil, fmt.Errorf("spec.paramRef: %w", err)
	case len(found) == 0 && p.spec.ParamRef.ParameterNotFoundAction != v1alpha1.PolicyAllowNotFound:
		return nil, p.noParams(r.Object.GetNamespace())
	case len(found) > mostParams:
		return nil, fmt.Errorf("spec.paramRef: it selects %d objects, at most %d may judge one VM: select fewer by labels", len(found), mostParams)
	}
	return found, nil
}

// paramName returns the name of a param for messages: 'ConfigMap team/limits'. It is empty for nil.
func paramName(param *unstructured.Unstructured) string {
	switch {
	case param == nil:
		return ""
	case param.GetNamespace() == "":
		return param.GetKind() + " " + param.GetName()
	}
	return param.GetKind() + " " + param.GetNamespace() + "/" + param.GetName()
}

// checkParams checks paramKind and paramRef.
func (p *Policy) checkParams(at *field.Path) (errs field.ErrorList) {
	kind, ref := p.spec.ParamKind, p.spec.ParamRef
	switch {
	case kind == nil && ref == nil:
		return nil
	case kind == nil:
		return field.ErrorList{field.Required(at.Child("paramKind"), "spec.paramRef needs the kind of the params")}
	case ref == nil:
		return field.ErrorList{field.Required(at.Child("paramRef"), "spec.paramKind needs a selection of the params")}
	}
	read, err := schema.ParseGroupVersion(kind.APIVersion)
	switch {
	case err != nil || read.Version == "":
		errs = append(errs, field.Invalid(at.Child("paramKind", "apiVersion"), printableLine(kind.APIVersion, mostName), "must be GROUP/VERSION, or v1"))
	case kind.Kind == "":
		errs = append(errs, field.Required(at.Child("paramKind", "kind"), ""))
	case read.Group == "" && kind.Kind == "Secret":
		errs = append(errs, field.Forbidden(at.Child("paramKind", "kind"),
			"a Secret is no param, because everyone may read a policy and its messages: use a ConfigMap or a kind of your own"))
	}
	ofRef := at.Child("paramRef")
	if (ref.Name == "") == (ref.Selector == nil) {
		errs = append(errs, field.Invalid(ofRef, "", "one of name and selector must be set"))
	}
	if ref.Selector != nil {
		if _, err := metav1.LabelSelectorAsSelector(ref.Selector); err != nil {
			errs = append(errs, field.Forbidden(ofRef.Child("selector"), err.Error()))
		}
	}
	actions := []v1alpha1.GuestPolicyNotFoundAction{v1alpha1.PolicyAllowNotFound, v1alpha1.PolicyDenyNotFound}
	return append(errs, checkWord(ofRef.Child("parameterNotFoundAction"), ref.ParameterNotFoundAction, actions)...)
}

// withParams returns a world in which expressions may also name params. It returns the world itself if the policy has no params.
func (w *world) withParams(p *Policy) (*world, error) {
	if p.spec.ParamKind == nil {
		return w, nil
	}
	declared := maps.Clone(w.declared).declareParams(*p.spec.ParamKind, p.schema)
	extended := &world{types: maps.Clone(w.types), byName: maps.Clone(w.byName), declared: w.declared}
	extended.types[varParams] = declared
	if declared.IsObject() {
		for _, of := range celtypes.FieldTypeMap(declared.TypeName(), declared) {
			if of.IsObject() && extended.byName[of.TypeName()] == nil {
				extended.byName[of.TypeName()] = of
			}
		}
	}
	return extended, extended.makeEnvironment()
}

// joinAudited adds the value of an audit annotation for another param, as a ValidatingAdmissionPolicy does: each value once.
func joinAudited(before, value string) string {
	if before == "" || slices.Contains(strings.Split(before, ", "), value) {
		return value
	}
	return printableLine(before+", "+value, mostAnnotation)
}
