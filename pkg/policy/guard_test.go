package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/policy"
)

// TestGuardedFunctions: a function with a check does what it does without.
func TestGuardedFunctions(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{
		"1 == 1 && 'a' != 'b' && [1, 2] == [1, 2] && {'a': [1]} != {'a': [2]} && null == null && dyn(1) == dyn(1.0)",
		"object == object && object.metadata != guest.metadata && object.metadata.labels == {'app': 'web'}",
		"1 in [1, 2] && !('x' in object.metadata.labels) && 'app' in object.metadata.labels && dyn('a') in ['a']",
		"[[1], [2]].flatten() == [1, 2] && [[[1]], [[2]]].flatten(2) == [1, 2]",
		"'%s has %d, %.3f'.format(['a', 1, 1.5]) == 'a has 1, 1.500' && '%s'.format([[1, 2]]) == '[1, 2]'",
		"['a', 'b'].join() == 'ab' && ['a', 'b'].join(', ') == 'a, b' && [].join('x') == ''",
		"'aXbX'.replace('X', 'YY') == 'aYYbYY' && 'aXbX'.replace('X', '', 1) == 'abX' && 'ab'.replace('', '-') == '-a-b-'",
		"[1, 1, 2].distinct() == [1, 2] && sets.contains([1, 2], [1]) && sets.equivalent([1], [1, 1]) && !sets.intersects([1], [2])",
		"[1, 2, 1].indexOf(2) == 1 && [1, 2, 1].lastIndexOf(1) == 2 && 'abc'.indexOf('c') == 2 && 'abca'.lastIndexOf('a') == 3",
		"'abc'.matches('^a.c$') && 'abc'.matches('a' + 'b') && 'a1b2'.find('[0-9]') == '1' && 'a1b2'.findAll('[0-9]') == ['1', '2']",
		"quantity('1Gi').isGreaterThan(quantity('1M')) && isQuantity('1e3') && !isQuantity('x')",
		"size('äb') == 2 && size([1]) == 1 && 'ab'.size() == 2 && {'a': 1}.size() == 1 && size(b'abc') == 3",
		"'abc'.charAt(1) == 'b' && strings.quote('a') == '\"a\"' && int('12') == 12 && uint('3') == 3u && double('1.5') == 1.5 && int(2.0) == 2",
		"duration('1h') > duration('59m') && timestamp('2026-11-22T13:00:00Z') < timestamp('2026-11-22T13:00:01Z') && int(dyn('7')) == 7",
		"timestamp('2026-11-22T13:00:00.123456789Z').getFullYear() == 2026 && double('0.12345678901234567890') > 0.1",
		"optional.of(1) == optional.of(1) && optional.none() != optional.of(1)",
	} {
		p := compile(t, "true", fmt.Sprintf("{validations: [{expression: %q}]}", expression))
		if result := policy.Judge(nil, []*policy.Policy{p}, small()); len(result.Errors) > 0 {
			t.Errorf("%s: %v", expression, result.Errors)
		}
	}
	for expression, want := range map[string]string{
		"size(dyn(1)) == 1":               "no such overload",
		"dyn(1).matches('a')":             "no such overload",
		"int(object.metadata.name) == 1":  "type conversion error",
		"1 in dyn(1)":                     "no such overload",
		"size(guest.metadata.labels) > 0": "no such key: labels",
	} {
		p := compile(t, "fails", fmt.Sprintf("{validations: [{expression: %q}]}", expression))
		result := policy.Judge(nil, []*policy.Policy{p}, small())
		if len(result.Errors) != 1 || !strings.Contains(result.Errors[0].Detail, want) {
			t.Errorf("%s: %v, want '%s'", expression, result.Errors, want)
		}
	}
}
