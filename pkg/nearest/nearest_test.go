package nearest

import (
	"fmt"
	"strings"
	"testing"
)

func TestName(t *testing.T) {
	published := strings.Fields("u1.nano u1.micro u1.small u1.medium u1.large cx1.medium")
	for _, test := range []struct{ why, meant, want string }{
		{"a letter is missing", "u1.smal", "u1.small"},
		{"two letters change places", "u1.smlal", "u1.small"},
		{"a dash for a dot", "u1-medium", "u1.medium"},
		{"nothing resembles it", "windows", ""},
		{"nothing is meant", "", ""},
		{"another letter", "u1.naro", "u1.nano"},
		{"too long to be typed", strings.Repeat("u", Longest+1), ""},
		{"upper case alone", "U1.Medium", "u1.medium"},
		{"upper case and another letter", "CX1.Mediun", "cx1.medium"},
		{"a tie goes to the longest common beginning, not to the alphabet", "u1.xedium", "u1.medium"},
	} {
		if got := Name(test.meant, published); got != test.want {
			t.Errorf("%s: '%s' for '%s', want '%s'", test.why, got, test.meant, test.want)
		}
	}
	if got := Name("u1.medium", []string{"d1.medium", "u1.mediun", "u1.mediu"}); got != "u1.mediun" {
		t.Errorf("a tie went to '%s': 'u1.mediun' has the same beginning and length", got)
	}
	many := make([]string, 100_000)
	for i := range many {
		many[i] = fmt.Sprintf("%063d", i)
	}
	if got := Name(many[0][1:]+"x", many); got == "" {
		t.Error("a tenant's hundred thousand objects hide each other")
	}
}

// TestUnsupported: a word in another case, in the plural or mistyped comes with the one that was meant, behind the fact.
func TestUnsupported(t *testing.T) {
	supported := []string{"VirtualMachine", "VirtualMachineSnapshot"}
	for word, want := range map[string]string{
		"virtualmachine":          `supported values: "VirtualMachine", "VirtualMachineSnapshot"; did you mean 'VirtualMachine'?`,
		"virtualmachinesnapshots": `supported values: "VirtualMachine", "VirtualMachineSnapshot"; did you mean 'VirtualMachineSnapshot'?`,
		"Pod":                     `supported values: "VirtualMachine", "VirtualMachineSnapshot"`,
	} {
		if err := Unsupported(nil, word, supported); err.Detail != want || err.BadValue != word {
			t.Errorf("'%s': %v, want %s", word, err, want)
		}
	}
}
