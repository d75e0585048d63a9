package validate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/validate"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// nodeTerm is a VMI that requires this of its node.
func nodeTerm(term string) given {
	return spec("affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{" + term + "}]}}}")
}

// weighted is a VMI that prefers this, in a kind of affinity.
func weighted(kind, term string) given {
	return spec("affinity: {" + kind + ": {preferredDuringSchedulingIgnoredDuringExecution: [" + term + "]}}")
}

// searches is a VMI with search domains of these lengths.
func searches(lengths ...int) given {
	var names []string
	for _, length := range lengths {
		names = append(names, strings.Repeat("a.", (length-1)/2)+strings.Repeat("b", 1+(length-1)%2))
	}
	return spec("dnsConfig: {searches: [" + strings.Join(names, ", ") + "]}")
}

// raw is an object before it is decoded, storedRaw the old one of an update.
func raw(text string) given {
	return func(testing.TB, config.Limits) field.ErrorList { return one(validate.Counts([]byte(text))) }
}

func storedRaw(text string) given {
	return func(testing.TB, config.Limits) field.ErrorList { return one(validate.StoredCounts([]byte(text))) }
}

func one(err *field.Error) field.ErrorList {
	if err == nil {
		return nil
	}
	return field.ErrorList{err}
}

// elements of a list in JSON.
func elements(count int) string { return strings.TrimSuffix(strings.Repeat("0,", count), ",") }

// entries are the fields of a map with as many.
func entries(count int) string {
	fields := make([]string, count)
	for i := range fields {
		fields[i] = fmt.Sprintf(`"e%d":0`, i)
	}
	return strings.Join(fields, ",")
}

// parts is an object of as many elements and fields, in lists of 512 at most.
func parts(count int) string {
	var lists []string
	for count > 0 {
		inside := min(count-1, 512) // and one for the list itself
		lists, count = append(lists, fmt.Sprintf(`"l%d":[%s]`, len(lists), elements(inside))), count-1-inside
	}
	return "{" + strings.Join(lists, ",") + "}"
}
