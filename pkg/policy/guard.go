package policy

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// Kubernetes' cost does not bound every step of an expression. It is asked after a step, and some steps cost next to nothing there: replace() of a long
// text by a long one takes terabytes, two lists that were doubled sixty times are compared for centuries, and size() of a text reads all of it for 1.
// What such a function reads and makes is computed here before it is called, and the sum is bounded for each policy and object. The result of every
// call is bounded, too. The interrupt is asked in loops alone, so that a step must end by itself.

// Bounds of what an expression makes and reads. The largest list of an object has 512 elements.
const (
	mostMadeElements = 4096
	mostMadeText     = 1 << 20
	// mostRead bounds what one call reads, in bytes of text. Each value counts as 16 more. The largest object that Kiln admits has 16384 values.
	mostRead   = 4 << 20
	partOfRead = 16
	// mostReadInAll bounds what the calls of one policy read: less than Kubernetes' budget takes, which is about a second.
	mostReadInAll = 64 << 20
	// mostPattern is the length of a regular expression that is not a constant: the memory of its program is a multiple.
	mostPattern = 1024
)

// check returns what a call would read or make, in bytes, or an error of CEL that refuses it.
type check func(args []ref.Val) (read int, refused ref.Val)

// checks are asked before a function is called.
var checks = map[string]check{
	operators.Equals:    equal,
	operators.NotEquals: equal,
	operators.In:        member,
	operators.OldIn:     member,
	"flatten":           whole,
	"format":            formatted,
	"join":              joined,
	"replace":           replaced,
	"distinct":          pairs,
	"sets.contains":     pairs,
	"sets.equivalent":   pairs,
	"sets.intersects":   pairs,
	"indexOf":           whole,
	"lastIndexOf":       whole,
	"matches":           pattern,
	"find":              pattern,
	"findAll":           pattern,
	"quantity":          parsable,
	"isQuantity":        parsable,
	"size":              firstText,
	"charAt":            firstText,
	"strings.quote":     firstText,
	"int":               firstText,
	"uint":              firstText,
	"double":            firstText,
	"duration":          firstText,
	"timestamp":         firstText,
}

// guard returns a program option that asks the checks, and bounds what each call returns.
func guard(env *cel.Env) (cel.ProgramOption, error) {
	implementations := map[string]functions.FunctionOp{}
	for name, declared := range env.Functions() {
		bindings, err := declared.Bindings()
		if err != nil {
			return nil, err
		}
		for _, binding := range bindings {
			if binding.Operator == name && checks[name] != nil {
				implementations[name] = implementation(binding)
			}
		}
	}
	// The planner knows these two by itself, and what follows is what it does.
	implementations[operators.Equals] = func(args ...ref.Val) ref.Val { return types.Equal(args[0], args[1]) }
	implementations[operators.NotEquals] = func(args ...ref.Val) ref.Val { return types.Bool(types.Equal(args[0], args[1]) != types.True) }
	return cel.CustomDecoratorV2(func(step interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		call, ok := step.(interpreter.InterpretableCall)
		if !ok {
			return step, nil
		}
		if run := implementations[call.Function()]; run != nil {
			return checked{call, checks[call.Function()], run}, nil
		}
		return bounded{call}, nil
	}), nil
}

// implementation returns a function of any number of arguments. The trait is asked as the planner of cel-go does: some functions of its standard library
// panic without it.
func implementation(binding *functions.Overload) functions.FunctionOp {
	return func(args ...ref.Val) ref.Val {
		switch {
		case binding.OperandTrait != 0 && !args[0].Type().HasTrait(binding.OperandTrait):
		case len(args) == 1 && binding.Unary != nil:
			return binding.Unary(args[0])
		case len(args) == 2 && binding.Binary != nil:
			return binding.Binary(args[0], args[1])
		case binding.Function != nil:
			return binding.Function(args...)
		}
		return types.NoSuchOverloadErr()
	}
}

// bounded is a call whose result is bounded.
type bounded struct{ interpreter.InterpretableCall }

// Exec implements interpreter.InterpretableV2.
func (b bounded) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	return bound(b.InterpretableCall.Exec(frame))
}

// Eval implements interpreter.Interpretable.
func (b bounded) Eval(vars interpreter.Activation) ref.Val { return b.Exec(interpreter.AsFrame(vars)) }

// checked is a call that is checked before its function is called.
type checked struct {
	interpreter.InterpretableCall
	check check
	run   functions.FunctionOp
}

// Exec implements interpreter.InterpretableV2. Every function with a check is strict: it has no result where an argument is an error.
func (c checked) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	args := make([]ref.Val, len(c.Args()))
	for i, arg := range c.Args() {
		if args[i] = arg.Exec(frame); types.IsUnknownOrError(args[i]) {
			return args[i]
		}
	}
	meter := meterOf(frame)
	refused := meter.exhausted()
	if refused == nil {
		var read int
		read, refused = c.check(args)
		*meter += reads(read)
	}
	if refused != nil {
		return types.LabelErrNode(c.ID(), refused)
	}
	return types.LabelErrNode(c.ID(), bound(c.run(args...)))
}

// Eval implements interpreter.Interpretable.
func (c checked) Eval(vars interpreter.Activation) ref.Val { return c.Exec(interpreter.AsFrame(vars)) }

// varReads is the name under which a call finds what its policy has read. No expression can spell it.
const varReads = "@reads"

// reads is what the calls of a policy have read, in bytes.
type reads int

// meterOf returns the sum of the evaluation that a frame belongs to. Constants are converted while a program is planned, without any.
func meterOf(frame *interpreter.ExecutionFrame) *reads {
	if meter, ok := frame.ResolveName(varReads); ok {
		return meter.(*reads)
	}
	return new(reads)
}

// exhausted returns an error when the limit is passed. Loops go on after an error, so that each further call must end at once.
func (r *reads) exhausted() ref.Val {
	if *r > mostReadInAll {
		return types.NewErr("the policy reads too much: at most %d bytes in all", mostReadInAll)
	}
	return nil
}

// bound returns a value, or an error if it is too large.
func bound(value ref.Val) ref.Val {
	switch v := value.(type) {
	case types.String:
		if len(v) > mostMadeText {
			return tooLarge()
		}
	case types.Bytes:
		if len(v) > mostMadeText {
			return tooLarge()
		}
	case traits.Lister:
		if n, ok := v.Size().(types.Int); ok && n > mostMadeElements {
			return tooLarge()
		}
	case traits.Mapper:
		if n, ok := v.Size().(types.Int); ok && n > mostMadeElements {
			return tooLarge()
		}
	}
	return value
}

// tooLarge returns the error of a value. Each use takes a new one: the evaluation writes into it where it happened.
func tooLarge() ref.Val {
	return types.NewErr("a value is too large: a list may have %d elements, a text %d bytes", mostMadeElements, mostMadeText)
}
