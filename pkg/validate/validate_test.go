package validate_test

import (
	"slices"
	"testing"

	"github.com/kilnvm/kiln/pkg/validate"
	"github.com/kilnvm/kiln/test/corpus"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestEachJudgeMatters leaves out one function after the other and judges the corpus again: some case must have another answer.
// A function that says only what others say anyway, or nothing, fails it.
func TestEachJudgeMatters(t *testing.T) {
	if testing.Short() {
		t.Skip("judges the corpus once for each function")
	}
	judge := judges(t)
	with := judge()
	decisive := 0
	names := validate.Judges()
	for _, name := range names {
		var without [][]string
		validate.Without(name, func() { without = judge() })
		if slices.EqualFunc(with, without, slices.Equal) {
			t.Errorf("without '%s' every case has the same answer: add a case that needs it, or remove it", name)
		}
		for i := range with {
			if len(with[i]) > 0 && len(without[i]) == 0 {
				decisive++
				break
			}
		}
	}
	t.Logf("%d functions; without %d of them something wrong would be admitted", len(names), decisive)
}

// judges is the judgement of all cases of the corpus: the errors of each.
func judges(t *testing.T) func() [][]string {
	t.Helper()
	const dir = "../../test/corpus"
	cases, err := corpus.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	requests, err := corpus.LoadRequests(dir)
	if err != nil {
		t.Fatal(err)
	}
	return func() (all [][]string) {
		for _, c := range cases {
			admitted, err := c.Admit(t.Context())
			if err != nil {
				t.Fatalf("%s: %v", c.Name, err)
			}
			all = append(all, textsOf(admitted.Verdict.Errors))
		}
		for _, r := range requests {
			verdict, err := r.Judge(t.Context())
			if err != nil {
				t.Fatalf("%s: %v", r.Name, err)
			}
			all = append(all, textsOf(verdict.Errors))
		}
		return all
	}
}

func textsOf(errs field.ErrorList) (list []string) {
	for _, err := range errs {
		list = append(list, err.Error())
	}
	return list
}
