package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/fieldpath"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celtypes "k8s.io/apiserver/pkg/cel"
)

// Bounds of a policy. The definition has them too; offline, and for a policy that was stored before, this is the only place that asks.
const (
	mostExpression  = 16384
	mostExpressions = 64
	mostAnnotations = 20
	// mostName is how much of a name an error repeats.
	mostName = 64
	// mostSource bounds all expressions together: compiling one of 16 KiB may take a tenth of a second.
	mostSource = 256 << 10
)

// identifier is the form of a variable's name.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// reserved are words that CEL reads as something else than a name.
var reserved = strings.Fields("true false null in as break const continue else for function if import let loop package namespace return var void while")

// checkForm checks what must be right before the expressions of a policy are compiled.
func (p *Policy) checkForm(at *field.Path) (errs field.ErrorList) {
	s := p.spec
	counted := func(name string, n, most int) {
		if n > most {
			errs = append(errs, field.TooMany(at.Child(name), n, most))
		}
	}
	counted("matchConditions", len(s.MatchConditions), mostExpressions)
	counted("variables", len(s.Variables), mostExpressions)
	counted("validations", len(s.Validations), mostExpressions)
	counted("auditAnnotations", len(s.AuditAnnotations), mostAnnotations)
	if len(s.Validations) == 0 {
		errs = append(errs, field.Required(at.Child("validations"), "name what must be true"))
	}
	if len(errs) > 0 {
		return errs
	}
	f := formChecks{errors: p.checkWords(at)}
	for i, c := range s.MatchConditions {
		f.checkName(at.Child("matchConditions").Index(i).Child("name"), c.Name)
		f.checkLength(at.Child("matchConditions").Index(i).Child("expression"), c.Expression)
	}
	for i, v := range s.Variables {
		below := at.Child("variables").Index(i)
		f.checkName(below.Child("name"), v.Name)
		if !identifier.MatchString(v.Name) || slices.Contains(reserved, v.Name) {
			f.errors = append(f.errors, field.Invalid(below.Child("name"), printableLine(v.Name, mostName),
				"must be an identifier of CEL, and none of its reserved words"))
		}
		f.checkLength(below.Child("expression"), v.Expression)
	}
	for i, v := range s.Validations {
		below := at.Child("validations").Index(i)
		if v.Name != "" {
			f.checkName(below.Child("name"), v.Name)
		}
		f.checkLength(below.Child("expression"), v.Expression)
		if v.MessageExpression != "" {
			f.checkLength(below.Child("messageExpression"), v.MessageExpression)
		}
		f.checkCause(below.Child("field"), v.Field, p.resources)
	}
	for i, a := range s.AuditAnnotations {
		below := at.Child("auditAnnotations").Index(i)
		f.checkName(below.Child("key"), a.Key)
		f.checkAuditKey(below.Child("key"), p.Name+"_"+a.Key)
		f.checkLength(below.Child("valueExpression"), a.ValueExpression)
	}
	if f.source > mostSource {
		f.errors = append(f.errors, field.TooLong(at, "", mostSource))
	}
	return f.errors
}

// formChecks checks names and expressions.
type formChecks struct {
	seen map[string]bool
	// source is the length of all expressions.
	source int
	errors field.ErrorList
}

// checkName checks a name that must be unique in its list.
func (f *formChecks) checkName(at *field.Path, name string) {
	if f.seen == nil {
		f.seen = map[string]bool{}
	}
	list := strings.SplitN(at.String(), "[", 2)[0]
	switch key := list + "\x00" + name; {
	case name == "":
		f.errors = append(f.errors, field.Required(at, ""))
	case f.seen[key]:
		f.errors = append(f.errors, field.Duplicate(at, printableLine(name, mostName)))
	default:
		f.seen[key] = true
	}
}

// checkAuditKey checks the name that an annotation gets in the audit event: the API server leaves out an annotation whose key is not legal.
func (f *formChecks) checkAuditKey(at *field.Path, name string) {
	for _, wrong := range content.IsLabelKey(name) {
		f.errors = append(f.errors, field.Invalid(at, printableLine(name, 64), "the policy's name, an underscore and the key must be a legal key: "+wrong))
	}
}

// checkLength checks the length of an expression.
func (f *formChecks) checkLength(at *field.Path, source string) {
	f.source += len(source)
	switch {
	case trimSpace(source) == "":
		f.errors = append(f.errors, field.Required(at, ""))
	case len(source) > mostExpression:
		f.errors = append(f.errors, field.TooLong(at, "", mostExpression))
	}
}

// checkCause checks the path of the cause: it must be a field of one of the resources.
func (f *formChecks) checkCause(at *field.Path, path string, resources []v1alpha1.GuestPolicyResource) {
	if path == "" {
		return
	}
	for _, resource := range resources {
		if at := causeInResource(path, resource); at != "spec" || path == "spec" {
			return
		}
	}
	f.errors = append(f.errors, field.Invalid(at, printableLine(path, mostName),
		fmt.Sprintf("must be the path of a field of %s, such as spec.domain.cpu.cores", joinResources(resources))))
}

// joinResources lists resources for a sentence.
func joinResources(resources []v1alpha1.GuestPolicyResource) string {
	var all []string
	for _, resource := range resources {
		all = append(all, string(resource))
	}
	return strings.Join(all, " or ")
}

// causeInResource returns the path of a cause in an object of a resource. The path of a field of a VMI stands for that field in the template of a VM, and the
// other way round. A path that the resource does not have is 'spec'.
func causeInResource(path string, resource v1alpha1.GuestPolicyResource) string {
	const template = "spec.template."
	if path == "" {
		return "spec"
	}
	candidates := []string{path}
	if below, ok := strings.CutPrefix(path, "spec."); ok && resource == v1alpha1.PolicyVirtualMachines {
		candidates = append(candidates, template+"spec."+below)
	}
	if below, ok := strings.CutPrefix(path, template); ok && resource == v1alpha1.PolicyVirtualMachineInstances {
		candidates = append(candidates, below)
	}
	world, err := worlds[resource]()
	if err != nil {
		return "spec"
	}
	for _, candidate := range candidates {
		if hasField(world.types[varObject], candidate) {
			return candidate
		}
	}
	return "spec"
}

// hasField reports whether a type has a field at a path.
func hasField(declared *celtypes.DeclType, path string) bool {
	for _, step := range fieldpath.Parse(path) {
		switch {
		case declared == nil:
			return false
		case step.Element:
			if _, isIndex := step.Index(); declared.IsList() && !isIndex {
				return false
			}
			declared = declared.ElemType
		case declared.Fields[step.Text] != nil:
			declared = declared.Fields[step.Text].Type
		default:
			return false
		}
	}
	return declared != nil
}
