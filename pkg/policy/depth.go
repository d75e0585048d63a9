package policy

import (
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
)

// mostNested is how deep lists, maps and loops may be nested. A macro counts as the loop and the list that it makes.
const mostNested = 32

// wrapping are the functions whose result has the type of their argument in it: optional.of(x), optional.ofNonZeroValue(x) and type(x).
var wrapping = []string{"of", "ofNonZeroValue", "type"}

// tooDeep returns the first part of an expression that is nested too deep, or nil.
func tooDeep(of ast.Expr, depth int) ast.Expr {
	switch of.Kind() {
	case ast.ListKind, ast.MapKind, ast.ComprehensionKind:
		depth++
	case ast.CallKind:
		if slices.Contains(wrapping, of.AsCall().FunctionName()) {
			depth++
		}
	}
	if depth > mostNested {
		return of
	}
	for _, part := range subexpressions(of) {
		if deep := tooDeep(part, depth); deep != nil {
			return deep
		}
	}
	return nil
}

// hasLoop reports whether an expression has a loop.
func hasLoop(of ast.Expr) bool {
	return of.Kind() == ast.ComprehensionKind || slices.ContainsFunc(subexpressions(of), hasLoop)
}

// isNestedDeeper reports whether a type is nested more than so many levels deep.
func isNestedDeeper(of *cel.Type, most int) bool {
	return most < 0 || slices.ContainsFunc(of.Parameters(), func(inner *cel.Type) bool { return isNestedDeeper(inner, most-1) })
}

// subexpressions returns the expressions that an expression consists of.
func subexpressions(of ast.Expr) (all []ast.Expr) {
	switch of.Kind() {
	case ast.CallKind:
		all = of.AsCall().Args()
		if of.AsCall().IsMemberFunction() {
			all = append([]ast.Expr{of.AsCall().Target()}, all...)
		}
	case ast.SelectKind:
		all = []ast.Expr{of.AsSelect().Operand()}
	case ast.ListKind:
		all = of.AsList().Elements()
	case ast.MapKind:
		for _, entry := range of.AsMap().Entries() {
			all = append(all, entry.AsMapEntry().Key(), entry.AsMapEntry().Value())
		}
	case ast.ComprehensionKind:
		loop := of.AsComprehension()
		all = []ast.Expr{loop.IterRange(), loop.AccuInit(), loop.LoopCondition(), loop.LoopStep(), loop.Result()}
	}
	return all
}
