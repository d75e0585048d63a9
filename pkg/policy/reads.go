package policy

import (
	"fmt"
	"slices"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// fieldRead is a field of an object that an expression reads.
type fieldRead struct {
	// variable is varObject, varGuest or varHardware: an update changes no other variable.
	variable string
	// steps are the names of fields and the keys of maps on the way to the field; none for the whole object.
	steps []string
	// presence means that the expression reads only whether the field is set.
	presence bool
}

// changeable are the parts of an object that an update may change. The rest, such as resourceVersion and managedFields, is not its author's.
var changeable = [][]string{{"spec"}, {"metadata", "labels"}, {"metadata", "annotations"}, {"metadata", "ownerReferences"}}

// findReads returns the fields that an expression reads, each once. A field that is read by a computed key counts with all its siblings. variables are the
// reads of the variables of the policy.
func findReads(of ast.Expr, variables map[string][]fieldRead) (all []fieldRead) {
	seen := map[string]bool{}
	add := func(read fieldRead) {
		if key := fmt.Sprintf("%s %q %t", read.variable, read.steps, read.presence); !seen[key] {
			seen[key] = true
			all = append(all, read)
		}
	}
	var visit func(ast.Expr)
	visit = func(of ast.Expr) {
		read, ok := readOf(of)
		switch {
		case ok && read.variable != varVariables:
			add(read)
		case ok && len(read.steps) > 0:
			for _, read := range variables[read.steps[0]] {
				add(read)
			}
		default:
			for _, part := range subexpressions(of) {
				visit(part)
			}
		}
	}
	visit(of)
	if len(all) > mostReads {
		whole := []fieldRead{{variable: varObject}, {variable: varGuest}}
		if slices.ContainsFunc(all, func(read fieldRead) bool { return read.variable == varHardware }) { // who does not read it pays no read
			whole = append(whole, fieldRead{variable: varHardware})
		}
		return whole
	}
	return all
}

// mostReads is how many fields of an expression are compared one by one. An expression that reads more of them counts as one that reads the whole object.
const mostReads = 256

// readOf returns the field that an expression reads, if it does nothing else.
func readOf(of ast.Expr) (read fieldRead, ok bool) {
	switch of.Kind() {
	case ast.IdentKind:
		name := of.AsIdent()
		return fieldRead{variable: name}, name == varObject || name == varGuest || name == varHardware || name == varVariables
	case ast.SelectKind:
		read, ok = readOf(of.AsSelect().Operand())
		return read.below(of.AsSelect().FieldName(), of.AsSelect().IsTestOnly()), ok
	case ast.CallKind:
		args := of.AsCall().Args()
		if of.AsCall().IsMemberFunction() || len(args) != 2 {
			return read, false
		}
		container, key, presence := args[0], args[1], false
		switch of.AsCall().FunctionName() {
		case operators.Index, operators.OptIndex, operators.OptSelect:
		case operators.In:
			container, key, presence = key, container, true
		default:
			return read, false
		}
		if key.Kind() != ast.LiteralKind {
			return read, false
		}
		name, isText := key.AsLiteral().Value().(string)
		read, ok = readOf(container)
		return read.below(name, presence), ok && isText
	}
	return read, false
}

// below returns the read of a field of what r reads.
func (r fieldRead) below(name string, presence bool) fieldRead {
	return fieldRead{r.variable, append(slices.Clip(r.steps), name), presence}
}

// ReadsChange reports whether an update changes what a validation reads, also by its variables: then a violation is not the one that the object had before.
// The requests are of the object before the update and after it.
func (p *Policy) ReadsChange(validation int, before, now *Request) bool {
	compiled := p.programs[now.Resource]
	if compiled == nil || validation >= len(compiled.validations) || compiled.validations[validation].program == nil {
		return false
	}
	was, is := newInput(before), newInput(now)
	return slices.ContainsFunc(compiled.validations[validation].program.reads, func(read fieldRead) bool { return read.differs(was, is) })
}

// differs reports whether a field has another value.
func (r fieldRead) differs(before, now *input) bool {
	for _, part := range changeable {
		if r.variable == varHardware {
			break
		}
		if n := len(r.steps); n < len(part) && slices.Equal(r.steps, part[:n]) { // the expression reads more than the part
			if (fieldRead{r.variable, part, r.presence}).differs(before, now) {
				return true
			}
		}
	}
	if r.variable != varHardware && (len(r.steps) == 0 || len(r.steps) == 1 && r.steps[0] == "metadata") {
		return false
	}
	was, had := before.find(r.variable, r.steps)
	is, has := now.find(r.variable, r.steps)
	switch {
	case had != has:
		return true
	case !has || r.presence:
		return false
	}
	return was.Equal(is) != types.True
}

// find returns the value of a field of a variable.
func (in *input) find(variable string, steps []string) (ref.Val, bool) {
	value, found := in.builtinVariable(variable)
	for _, step := range steps {
		of, ok := value.(traits.Mapper)
		if !ok {
			return nil, false
		}
		if value, found = of.Find(types.String(step)); !found {
			return nil, false
		}
	}
	return value, found
}
