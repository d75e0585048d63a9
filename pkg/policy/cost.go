package policy

import (
	"fmt"
	"math"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celtypes "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/library"
)

// The cost of an expression is estimated when a policy is written, for the largest object that Kiln admits, as Kubernetes does for the rules of a
// CustomResourceDefinition. A ValidatingAdmissionPolicy is not estimated: its author learns of the cost when an object comes. The limits are
// StaticEstimatedCostLimit and StaticEstimatedCRDCostLimit of k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation.
const (
	mostCost      = 10_000_000
	mostTotalCost = 100_000_000
)

// mostParts is the number of parts of an object, nested ones included, that Counts of pkg/validate admits: so much does comparing two of them cost.
const mostParts = 16384

// size is a bound of a value: the elements of a list or map, and the bytes of a text.
type size = checker.SizeEstimate

// measures are the sizes of the variables of a policy, by name.
type measures map[string]measure

// measure is the size of a value and of its elements.
type measure struct{ own, element size }

// addCost adds the cost of an expression to the total. It returns false, and adds an error, if the cost is over the limit of one expression.
func (c *compiler) addCost(at *field.Path, compiled *cel.Ast) bool {
	estimate, err := c.env.EstimateCost(compiled, c.newEstimator(compiled.NativeRep(), nil))
	if err != nil {
		c.addInvalid(at, "the cost cannot be estimated: %s", printableLine(err.Error(), mostIssue))
		return false
	}
	if total := c.total + estimate.Max; total >= c.total {
		c.total = total
	} else {
		c.total = math.MaxUint64
	}
	if estimate.Max <= mostCost {
		return true
	}
	native := compiled.NativeRep()
	costly := costliestPart(native.Expr(), func(part ast.Expr) uint64 {
		sub := ast.NewCheckedAST(ast.NewAST(part, native.SourceInfo()), native.TypeMap(), native.ReferenceMap())
		cost, err := checker.Cost(sub, c.newEstimator(sub, nil), checker.PresenceTestHasCost(false))
		if err != nil {
			return 0
		}
		return cost.Max
	})
	c.addInvalid(at, "%s: may cost %s, at most %d is allowed: a list or map counts as %d elements, a name as %d bytes, another text as %d. "+
		"Nest fewer loops, or compare names instead of other texts", lineAndColumn(native.SourceInfo().GetStartLocation(costly.ID())), formatCost(estimate.Max),
		mostCost, mostElements, nameText, mostText)
	return false
}

// formatCost prints a cost. The largest number means that the estimate has no bound.
func formatCost(cost uint64) string {
	if cost >= math.MaxInt64 {
		return "any amount"
	}
	return fmt.Sprint(cost)
}

// costliestPart returns the innermost part of an expression that alone costs more than the limit. For nested loops it returns the outermost one, which makes
// the others too expensive. checker.Cost returns only a sum, so each part is estimated as an expression of its own. A variable of a loop outside of the part
// then has no path, and counts by its type.
func costliestPart(of ast.Expr, cost func(ast.Expr) uint64) ast.Expr {
	var worst ast.Expr
	most := uint64(mostCost)
	for _, part := range subexpressions(of) {
		if paid := cost(part); paid > most {
			worst, most = part, paid
		}
	}
	if worst == nil {
		return of
	}
	return costliestPart(worst, cost)
}

// measureVariable returns the size of the value of an expression that compiles, and the size of its elements, as size() would read them.
func (c *compiler) measureVariable(source string, of *cel.Type) measure {
	inner := c.estimateSize("("+source+"\n)", of)
	switch of.Kind() {
	case types.ListKind:
		return measure{inner, c.estimateSize("("+source+"\n)[0]", of.Parameters()[0])}
	case types.MapKind:
		if of.Parameters()[0].IsExactType(cel.StringType) {
			return measure{inner, c.estimateSize("("+source+"\n)['']", of.Parameters()[1])}
		}
	}
	return measure{inner, typicalSize(nil)}
}

// estimateSize returns the estimated size of an expression.
func (c *compiler) estimateSize(source string, of *cel.Type) size {
	fallback := typicalSize(of)
	switch of.Kind() {
	case types.ListKind, types.MapKind, types.StringKind, types.BytesKind:
	default:
		return fallback
	}
	compiled, issues := c.env.Compile("size(" + source + ")")
	if issues != nil && issues.Err() != nil {
		return fallback
	}
	seen := &fallback
	if _, err := c.env.EstimateCost(compiled, c.newEstimator(compiled.NativeRep(), seen)); err != nil {
		return fallback
	}
	return *seen
}

// estimator estimates sizes by the types, and costs as Kubernetes does.
type estimator struct {
	library.CostEstimator
	sizes *sizes
	// seen receives the size of the argument of the last call of size(), which is the outermost one; nil if it is not needed.
	seen *size
}

// newEstimator returns an estimator for an expression. See its field for seen.
func (c *compiler) newEstimator(checked *ast.AST, seen *size) *estimator {
	s := &sizes{world: c.world, measures: c.measures, checked: checked}
	return &estimator{CostEstimator: library.CostEstimator{SizeEstimator: s}, sizes: s, seen: seen}
}

// EstimateSize implements checker.CostEstimator.
func (e *estimator) EstimateSize(node checker.AstNode) *size { return e.sizes.EstimateSize(node) }

// EstimateCallCost implements checker.CostEstimator.
func (e *estimator) EstimateCallCost(function, overload string, target *checker.AstNode, args []checker.AstNode) *checker.CallEstimate {
	if e.seen != nil && function == "size" && len(args) == 1 {
		if known := args[0].ComputedSize(); known != nil {
			*e.seen = *known
		}
	}
	return e.CostEstimator.EstimateCallCost(function, overload, target, args)
}

// sizes bounds values by their types.
type sizes struct {
	*world
	measures measures
	checked  *ast.AST
}

// EstimateCallCost implements checker.CostEstimator.
func (s *sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

// EstimateSize implements checker.CostEstimator. Every value has a bound, as if nobody wrote a longer one: the limits of a call hold at run time.
func (s *sizes) EstimateSize(node checker.AstNode) *size {
	if at := node.Path(); len(at) > 0 {
		if at[0] == varVariables && len(at) == 2 {
			if known, ok := s.measures[at[1]]; ok {
				return &known.own
			}
		}
		if at[0] == varVariables && len(at) == 3 && (at[2] == "@items" || at[2] == "@values") {
			if known, ok := s.measures[at[1]]; ok {
				return &known.element
			}
		}
		if declared := typeAtPath(s.types[at[0]], at[1:]); declared != nil && declared.MaxElements > 0 {
			return &size{Max: uint64(declared.MaxElements)}
		}
	}
	// The elements of a variable, and of a list that a loop makes, have no path. Their fields are known by their types.
	if of := node.Expr(); of != nil && of.Kind() == ast.SelectKind {
		if declared := s.byName[s.checked.GetType(of.AsSelect().Operand().ID()).TypeName()]; declared != nil {
			if field := declared.Fields[of.AsSelect().FieldName()]; field != nil && field.Type.MaxElements > 0 {
				return &size{Max: uint64(field.Type.MaxElements)}
			}
		}
	}
	known := typicalSize(node.Type())
	return &known
}

// typeAtPath returns the type at a path below a type, or nil.
func typeAtPath(declared *celtypes.DeclType, at []string) *celtypes.DeclType {
	for _, name := range at {
		switch {
		case declared == nil:
			return nil
		case name == "@items" || name == "@values":
			declared = declared.ElemType
		case name == "@keys":
			declared = declared.KeyType
		case declared.Fields[name] != nil:
			declared = declared.Fields[name].Type
		default:
			return nil
		}
	}
	return declared
}

// typicalSize returns the size of a value of which only the type is known.
func typicalSize(of *cel.Type) size {
	if of == nil {
		return size{Max: mostText}
	}
	switch of.Kind() {
	case types.StringKind, types.BytesKind:
		return size{Max: mostText}
	case types.ListKind, types.MapKind:
		return size{Max: mostElements}
	case types.StructKind:
		return size{Max: mostParts}
	case types.OpaqueKind:
		if parameters := of.Parameters(); len(parameters) == 1 {
			return typicalSize(parameters[0])
		}
	case types.BoolKind, types.DoubleKind, types.DurationKind, types.IntKind, types.TimestampKind, types.UintKind, types.NullTypeKind:
		return size{Min: 1, Max: 1}
	}
	return size{Max: mostText}
}
