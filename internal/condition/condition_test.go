package condition

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestTextsAreTruncated(t *testing.T) {
	for _, test := range []struct {
		why, text string
		truncate  func(string) string
		most      int
	}{
		{"a message of three-byte characters", strings.Repeat("語", 100_000), Message, longestMessage},
		{"shifted by one byte", "a" + strings.Repeat("語", 100_000), Message, longestMessage},
		{"an event's note counts bytes, not characters", strings.Repeat("ü", longestNote), Note, longestNote},
		{"bytes that are no text", strings.Repeat("\xbf", 10_000) + "a", Message, longestMessage},
	} {
		got := test.truncate(test.text)
		if len(got) > test.most || !strings.HasSuffix(got, " bytes more") || utf8.ValidString(test.text) && !utf8.ValidString(got) {
			t.Errorf("%s: %d bytes, '%s'", test.why, len(got), got[max(0, len(got)-40):])
		}
	}
	if exact := strings.Repeat("a", longestMessage); Message(exact) != exact {
		t.Error("a message that fits was cut")
	}
}

func TestMistakesAreCounted(t *testing.T) {
	var errs field.ErrorList
	for i := range 400_000 {
		errs = append(errs, field.Required(field.NewPath("spec").Index(i), ""))
	}
	if got := Mistakes(errs); len(got) > longestMessage || !strings.HasPrefix(got, "spec[0]: Required value, spec[1]") || !strings.Contains(got, " more") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	twice := field.ErrorList{errs[0], errs[0], errs[1]}
	if got := Mistakes(twice); got != "spec[0]: Required value, spec[1]: Required value" {
		t.Error(got)
	}
	long := field.ErrorList{field.Invalid(field.NewPath("spec"), strings.Repeat("x", 1<<20), "is long"), errs[0]}
	if got := Mistakes(long); len(got) > longestMessage || !strings.HasPrefix(got, "spec: Invalid value") {
		t.Errorf("%d bytes", len(got))
	}
}

func TestOversized(t *testing.T) {
	if Oversized(nil) {
		t.Error("nothing is too large")
	}
	for err, want := range map[error]bool{
		apierrors.NewRequestEntityTooLargeError("limit is 3145728"):                true,
		apierrors.NewInternalError(errors.New("etcdserver: request is too large")): true,
		apierrors.NewBadRequest("no"):                                              false,
	} {
		if Oversized(err) != want {
			t.Errorf("%v: want %t", err, want)
		}
	}
}
