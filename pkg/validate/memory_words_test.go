package validate_test

import (
	"slices"
	"testing"

	"github.com/kilnvm/kiln/pkg/config"
)

// TestWordsOfMemory: an error about a unit or a page says what is meant, or what there is.
func TestWordsOfMemory(t *testing.T) {
	for fragment, want := range map[string]string{
		`domain: {memory: {guest: 128m}}`:                              "must be at least 1M; 'm' is a thousandth of a byte: is 'M' or 'Mi' meant?",
		`domain: {memory: {guest: "128"}}`:                             "must be at least 1M; is the unit missing?",
		`domain: {memory: {guest: 129Mi, hugepages: {pageSize: 3Mi}}}`: "architecture 'amd64' has no huge pages of this size: use 2Mi, 1Gi",
		`{architecture: "", domain: {memory: {guest: 129Mi, hugepages: {pageSize: 3Mi}}}}`: "no architecture has huge pages of this size: " +
			"use one of 1Mi, 64Ki, 2Mi, 32Mi, 512Mi, 1Gi, 16Gi",
	} {
		var details []string
		for _, err := range spec(fragment)(t, config.Default().Limits) {
			details = append(details, err.Detail)
		}
		if !slices.Contains(details, want) {
			t.Errorf("%s: %q, want '%s'", fragment, details, want)
		}
	}
}
