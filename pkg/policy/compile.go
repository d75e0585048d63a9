package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	celtypes "k8s.io/apiserver/pkg/cel"
)

// programs are the expressions of a policy, compiled for one resource.
type programs struct {
	conditions  []*program
	variables   []variable
	validations []validation
	annotations []*program
}

// program is a compiled expression; nil if it does not compile.
type program struct {
	cel.Program
	// loops reports whether the expression has a loop. No other asks whether it is interrupted, and giving it a context takes memory.
	loops bool
	// reads are the fields of the object and of the guest that the expression reads, also by variables.
	reads []fieldRead
}

// variable is a compiled variable of a policy.
type variable struct {
	name    string
	program *program
}

// validation is a compiled validation. message is nil without a messageExpression. field is the path of its errors in an object of the resource.
type validation struct {
	program, message *program
	field            string
}

// compiler compiles the expressions of a policy for one resource.
type compiler struct {
	*world
	env *cel.Env
	// variables is the type of 'variables'. It has those that are compiled already: a variable may use those before it.
	variables *celtypes.DeclType
	measures  measures
	// reads are the fields that the variables read.
	reads map[string][]fieldRead
	// total is the estimated cost of all expressions.
	total uint64
	// source is the expression that is compiled.
	source string
	errors field.ErrorList
}

// compileExpressions compiles the expressions for each resource that the policy judges. An error that occurs only for one of several resources names it.
func (p *Policy) compileExpressions(at *field.Path) {
	found := map[string]int{}
	var all []field.ErrorList
	for _, resource := range p.resources {
		compiled, errs := p.compileFor(resource, at)
		p.programs[resource] = compiled
		all = append(all, errs)
		for _, err := range errs {
			found[err.Error()]++
		}
	}
	for i, errs := range all {
		for _, err := range errs {
			switch n := found[err.Error()]; {
			case n == len(all) && i > 0:
				continue
			case n < len(all):
				err.Detail += " (of " + string(p.resources[i]) + ")"
			}
			p.Errors = append(p.Errors, err)
		}
	}
}

// compileFor compiles the expressions for one resource.
func (p *Policy) compileFor(resource v1alpha1.GuestPolicyResource, at *field.Path) (*programs, field.ErrorList) {
	world, err := worlds[resource]()
	if err == nil {
		world, err = world.withParams(p)
	}
	if err != nil {
		return nil, field.ErrorList{field.InternalError(at, err)}
	}
	c := &compiler{world: world, env: world.env, measures: measures{}, reads: map[string][]fieldRead{}}
	compiled := &programs{}
	for i, condition := range p.spec.MatchConditions {
		compiled.conditions = append(compiled.conditions,
			c.compileExpression(at.Child("matchConditions").Index(i).Child("expression"), condition.Expression, cel.BoolType))
	}
	// Conditions are evaluated before the variables, and know none, as in a ValidatingAdmissionPolicy.
	c.variables = celtypes.NewObjectType("policy.variables", map[string]*celtypes.DeclField{})
	c.env, err = extendEnvironment(world.env, []*celtypes.DeclType{c.variables}, cel.Variable(varVariables, c.variables.CelType()))
	if err != nil {
		return nil, field.ErrorList{field.InternalError(at, err)}
	}
	for i, v := range p.spec.Variables {
		compiled.variables = append(compiled.variables, variable{v.Name, c.compileVariable(at.Child("variables").Index(i).Child("expression"), v)})
	}
	for i, v := range p.spec.Validations {
		compiled.validations = append(compiled.validations, c.compileValidation(at.Child("validations").Index(i), v, resource))
	}
	for i, a := range p.spec.AuditAnnotations {
		compiled.annotations = append(compiled.annotations,
			c.compileExpression(at.Child("auditAnnotations").Index(i).Child("valueExpression"), a.ValueExpression, cel.StringType, cel.NullType))
	}
	if c.total > mostTotalCost && len(c.errors) == 0 {
		c.errors = append(c.errors, field.Forbidden(at, fmt.Sprintf("all expressions together may cost %s, at most %d is allowed: split the policy",
			formatCost(c.total), mostTotalCost)))
	}
	return compiled, c.errors
}

// compileValidation compiles a validation and its message.
func (c *compiler) compileValidation(at *field.Path, v v1alpha1.GuestPolicyValidation, resource v1alpha1.GuestPolicyResource) validation {
	compiled := validation{program: c.compileExpression(at.Child("expression"), v.Expression, cel.BoolType), field: causeInResource(v.Field, resource)}
	if v.MessageExpression != "" {
		compiled.message = c.compileExpression(at.Child("messageExpression"), v.MessageExpression, cel.StringType)
	}
	return compiled
}

// compileVariable compiles a variable. Later variables may use it.
func (c *compiler) compileVariable(at *field.Path, v v1alpha1.GuestPolicyVariable) *program {
	ast := c.checkTypes(at, v.Expression)
	declared := celtypes.DynType
	if ast != nil {
		if isNestedDeeper(ast.OutputType(), mostNested) {
			c.addInvalid(at, "1:1: the type of the variable is nested more than %d levels deep", mostNested)
			return nil
		}
		// The type as the checker found it: a field that the type does not have is an error where the variable is used. Kubernetes declares
		// objects in variables as dyn.
		declared = celtypes.NewSimpleTypeWithMinSize(v.Name, ast.OutputType(), nil, 1)
		c.measures[v.Name] = c.measureVariable(v.Expression, ast.OutputType())
		c.reads[v.Name] = findReads(ast.NativeRep().Expr(), c.reads)
	}
	c.variables.Fields[v.Name] = celtypes.NewDeclField(v.Name, declared, true, nil, nil)
	return c.planWithinLimit(at, ast)
}

// compileExpression compiles an expression of one of the given types.
func (c *compiler) compileExpression(at *field.Path, source string, types ...*cel.Type) *program {
	ast := c.checkTypes(at, source)
	if ast == nil {
		return nil
	}
	if !slices.ContainsFunc(types, ast.OutputType().IsExactType) {
		c.addInvalid(at, "1:1: must evaluate to %s, and evaluates to %s", types[0], ast.OutputType())
		return nil
	}
	return c.planWithinLimit(at, ast)
}

// checkTypes parses an expression and checks its types. It returns nil if there are errors. Trap: the checker takes time cubic to the nesting of a type.
func (c *compiler) checkTypes(at *field.Path, source string) *cel.Ast {
	c.source = source
	parsed, issues := c.env.Parse(source)
	if issues.Err() == nil {
		native := parsed.NativeRep()
		if deep := tooDeep(native.Expr(), 0); deep != nil {
			c.addInvalid(at, "%s: lists, maps and loops must not be nested more than %d levels deep",
				lineAndColumn(native.SourceInfo().GetStartLocation(deep.ID())), mostNested)
			return nil
		}
		var checked *cel.Ast
		if checked, issues = c.env.Check(parsed); issues.Err() == nil {
			return checked
		}
	}
	found := issues.Errors()
	slices.SortStableFunc(found, func(a, b *common.Error) int {
		return cmp.Or(cmp.Compare(a.Location.Line(), b.Location.Line()), cmp.Compare(a.Location.Column(), b.Location.Column()))
	})
	for _, err := range found[:min(len(found), mostIssues)] {
		c.addInvalid(at, "%s: %s", lineAndColumn(err.Location), printableLine(err.Message, mostIssue))
	}
	return nil
}

// planWithinLimit estimates what an expression costs, and returns its program if that is within the limit.
func (c *compiler) planWithinLimit(at *field.Path, ast *cel.Ast) *program {
	if ast == nil {
		return nil
	}
	if !c.addCost(at, ast) {
		return nil
	}
	planned, err := c.env.Program(ast, cel.InterruptCheckFrequency(celconfig.CheckFrequency))
	if err != nil {
		c.addInvalid(at, "1:1: %s", printableLine(err.Error(), mostIssue)) // a constant that cannot be converted: the planner does not say where
		return nil
	}
	return &program{planned, hasLoop(ast.NativeRep().Expr()), findReads(ast.NativeRep().Expr(), c.reads)}
}

// addInvalid adds an error about the expression that was checked last. Its value is shortened: an expression may have 16 KiB, and its position says more.
func (c *compiler) addInvalid(at *field.Path, format string, args ...any) {
	c.errors = append(c.errors, field.Invalid(at, printableLine(c.source, mostValue), fmt.Sprintf(format, args...)))
}

// Bounds of what is reported about one expression.
const (
	mostIssues = 10
	mostIssue  = 512
)

// lineAndColumn returns line and column, both counted from 1.
func lineAndColumn(at common.Location) string {
	return fmt.Sprintf("%d:%d", max(at.Line(), 1), max(at.Column(), 0)+1)
}

// trimSpace trims a text as a ValidatingAdmissionPolicy does.
func trimSpace(text string) string { return strings.TrimSpace(text) }
