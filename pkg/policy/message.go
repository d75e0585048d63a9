package policy

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kilnvm/kiln/pkg/shorten"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// mostAnnotation is the length of an audit annotation's value, as in a ValidatingAdmissionPolicy.
const mostAnnotation = 10 * 1024

// violationMessage returns the message for the owner of an object: of the messageExpression, else the message, else the expression. A messageExpression does
// not count if it fails, is empty, is longer than 5 KiB or has several lines, as in a ValidatingAdmissionPolicy.
func (e *evaluation) violationMessage(i int) string {
	if expression := e.validations[i].message; expression != nil {
		if value, err := e.runProgram(expression); err == nil {
			if text, ok := value.Value().(string); ok {
				text = trimSpace(text)
				if text != "" && len(text) <= celconfig.MaxEvaluatedMessageExpressionSizeBytes && !strings.Contains(text, "\n") {
					return printableLine(text, celconfig.MaxEvaluatedMessageExpressionSizeBytes)
				}
			}
		}
	}
	written := e.policy.spec.Validations[i]
	if text := trimSpace(written.Message); text != "" {
		return printableLine(text, celconfig.MaxEvaluatedMessageExpressionSizeBytes)
	}
	return "failed expression: " + printableLine(trimSpace(written.Expression), celconfig.MaxEvaluatedMessageExpressionSizeBytes)
}

// printableLine returns a text of at most so many bytes, on one line, without characters that a terminal obeys or that reorder what is read: a message
// may contain what a tenant wrote.
func printableLine(text string, most int) string {
	if len(text) > most {
		text = shorten.Prefix(text, most-len("...")) + "..."
	}
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == utf8.RuneError:
			return '?'
		}
		return r
	}, text)
}
