package policy

import (
	"regexp"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/kilnvm/kiln/pkg/validate"
)

// whole is the check of a function that reads its arguments in full. Lists may contain one list many times over.
func whole(args []ref.Val) (int, ref.Val) {
	read := 0
	for _, arg := range args {
		if read = add(arg, read); read > mostRead {
			return read, types.NewErr("a function is given too much to read: at most %d bytes", mostRead)
		}
	}
	return read, nil
}

// add adds what there is to read in a value to a sum. It stops where that exceeds the limit.
func add(value ref.Val, read int) int {
	read += partOfRead
	switch v := value.(type) {
	case types.String:
		return read + len(v)
	case types.Bytes:
		return read + len(v)
	case traits.Lister:
		for each := v.Iterator(); each.HasNext() == types.True && read <= mostRead; {
			read = add(each.Next(), read)
		}
	case *types.Optional:
		if v.HasValue() {
			return add(v.GetValue(), read)
		}
	case traits.Mapper:
		for each := v.Iterator(); each.HasNext() == types.True && read <= mostRead; {
			key := each.Next()
			read = add(v.Get(key), add(key, read))
		}
	}
	return read
}

// equal checks a comparison. Most are of texts and numbers, or with null: two values are read in full only where both have parts.
func equal(args []ref.Val) (int, ref.Val) {
	for _, arg := range args {
		switch arg.(type) {
		case traits.Lister, traits.Mapper, *types.Optional:
		default:
			return 0, nil
		}
	}
	return whole(args)
}

// member checks 'in', which looks up a key of a map, and reads a list.
func member(args []ref.Val) (int, ref.Val) {
	if _, ok := args[1].(traits.Lister); ok {
		return whole(args)
	}
	return 0, nil
}

// firstText checks a function that reads the text in its first argument. Its cost does not depend on the length.
func firstText(args []ref.Val) (int, ref.Val) {
	if written, ok := args[0].(types.String); ok {
		return len(written), nil
	}
	return 0, nil
}

// precision finds the clause of a format that prints thousands of digits.
var precision = regexp.MustCompile(`%\.[0-9]{4}`)

// formatted checks format(), which prints each argument once.
func formatted(args []ref.Val) (int, ref.Val) {
	if layout, ok := args[0].(types.String); ok && precision.MatchString(string(layout)) {
		return 0, types.NewErr("format: a precision may have at most 3 digits")
	}
	return whole(args)
}

// joined checks join(), whose result has every element and as many separators.
func joined(args []ref.Val) (int, ref.Val) {
	read, refused := whole(args[:1])
	list, isList := args[0].(traits.Lister)
	if refused != nil || len(args) < 2 || !isList {
		return read, refused
	}
	separator, isText := args[1].(types.String)
	n, isInt := list.Size().(types.Int)
	if isText && isInt {
		read += len(separator) * int(min(n, mostRead))
	}
	if read > mostRead {
		return read, tooLarge()
	}
	return read, nil
}

// replaced checks replace(), whose result may be as long as the product of text and replacement.
func replaced(args []ref.Val) (int, ref.Val) {
	if len(args) < 3 {
		return 0, nil
	}
	source, isText := args[0].(types.String)
	old, isOld := args[1].(types.String)
	by, isNew := args[2].(types.String)
	if !isText || !isOld || !isNew {
		return 0, nil
	}
	size := len(source) + strings.Count(string(source), string(old))*len(by)
	if size > mostMadeText {
		return size, tooLarge()
	}
	return size, nil
}

// pairs checks functions that compare each element with each.
func pairs(args []ref.Val) (int, ref.Val) {
	read, refused := whole(args)
	product := partOfRead
	for i := range 2 {
		if list, ok := args[min(i, len(args)-1)].(traits.Lister); ok {
			n, _ := list.Size().(types.Int)
			product *= int(min(n, mostMadeElements))
		}
	}
	if refused == nil && product > mostReadInAll/4 {
		refused = types.NewErr("a function compares too many pairs: at most %d", mostReadInAll/4/partOfRead)
	}
	return read + product, refused
}

// pattern checks regular expressions. Go's take time linear to the text, and are compiled at each call if they are no constants.
func pattern(args []ref.Val) (int, ref.Val) {
	if len(args) > 1 {
		if expression, ok := args[1].(types.String); ok && len(expression) > mostPattern {
			return 0, types.NewErr("a regular expression may have at most %d bytes", mostPattern)
		}
	}
	return 0, nil
}

// parsable checks quantity(): Kubernetes' parser computes an exponent of a billion for hours.
func parsable(args []ref.Val) (int, ref.Val) {
	if written, ok := args[0].(types.String); ok && validate.CostlyQuantity(string(written)) {
		return 0, types.NewErr("a quantity may have at most 100 digits, and an exponent of at most 3 digits")
	}
	return 0, nil
}
