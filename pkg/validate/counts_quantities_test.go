package validate_test

import (
	"strings"
)

var countsQuantitiesCases = []testCase{
	{
		why:   "a quantity whose power of ten takes hours, in any case",
		rule:  "request/quantities",
		given: raw(`{"spec":{"domain":{"memory":{"GUEST":"1e-1000"}}}}`),
		want:  invalid("spec.domain.memory.GUEST"),
	},
	{
		why:   "an exponent of three digits",
		rule:  "request/quantities",
		given: raw(`{"spec":{"domain":{"memory":{"guest":"1e-999"}}}}`),
	},
	{
		why:   "an entry of a map of quantities, as a number",
		rule:  "request/quantities",
		given: raw(`{"spec":{"resources":{"requests":{"memory":-1.0E+1000}}}}`),
		want:  invalid("spec.resources.requests.memory"),
	},
	{
		why:   "a UID of the guest's record that begins like a number: no map of quantities has that name",
		rule:  "request/quantities",
		given: raw(`{"status":{"guest":{"uid":"26e45678-94b6-4be6-80b2-c5a773cb95da"}}}`),
	},
	{
		why:   "101 digits, and a suffix",
		rule:  "request/quantities",
		given: raw(`{"spec":{"capacity":"` + strings.Repeat("9", 101) + `Gi"}}`),
		want:  invalid("spec.capacity"),
	},
	{
		why:   "100 digits",
		rule:  "request/quantities",
		given: raw(`{"spec":{"capacity":"` + strings.Repeat("9", 100) + `Gi"}}`),
	},
	{
		why:   "100 digits, in an object whose digits say nothing: an escape may hide one",
		rule:  "request/quantities",
		given: raw(`{"metadata":{"name":"\u0061"},"spec":{"capacity":"` + strings.Repeat("9", 100) + `Gi"}}`),
	},
	{
		why:   "no number, which decoding refuses",
		rule:  "request/quantities",
		given: raw(`{"spec":{"capacity":"e1000"}}`),
	},
	{
		why:   "a sign before it",
		rule:  "request/quantities",
		given: raw(`{"spec":{"capacity":"+1e1000"}}`),
		want:  invalid("spec.capacity"),
	},
	{
		why:   "exbibytes",
		rule:  "request/quantities",
		given: raw(`{"spec":{"capacity":"1Ei1000"}}`),
	},
	{
		why:   "a name that reads like a number",
		rule:  "request/quantities",
		given: raw(`{"metadata":{"name":"1e1000"}}`),
	},
}
