package backend_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/render"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"libvirt.org/go/libvirtxml"
)

func rendered(t testing.TB, m render.Machine) *libvirtxml.Domain {
	t.Helper()
	out, errs := render.Domain(m)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return out.Documents.Domain
}

// refusal compares errors by type and field, and the first one's message.
func refusal(t *testing.T, m render.Machine, want, words string) {
	t.Helper()
	_, errs := render.Domain(m)
	if got := causes(errs); got != want || len(errs) > 0 && !strings.Contains(errs[0].Detail, words) {
		t.Errorf("errors are %v, want '%s' with '%s'", errs.ToAggregate(), want, words)
	}
}

func causes(errs field.ErrorList) string {
	var list []string
	for _, err := range errs {
		list = append(list, string(err.Type)+" "+err.Field)
	}
	return strings.Join(list, ", ")
}

// partXML returns one part of a domain as XML without white space between elements.
func partXML(t *testing.T, domain libvirtxml.Domain) string {
	t.Helper()
	text, err := domain.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.NewReplacer("<domain>", "", "</domain>", "").Replace(strings.Join(lines, ""))
}

func same(t *testing.T, what, want, got string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
