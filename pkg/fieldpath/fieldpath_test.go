package fieldpath

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func name(text string) Step { return Step{Text: text} }

func element(text string) Step { return Step{Text: text, Element: true} }

func TestParse(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		path, why string
		want      []Step
	}{
		{"", "the object itself", nil},
		{"spec", "a field", []Step{name("spec")}},
		{"spec.disks[3].name", "an element of a list", []Step{name("spec"), name("disks"), element("3"), name("name")}},
		{"metadata.labels[example.com/tier]", "a key with dots", []Step{name("metadata"), name("labels"), element("example.com/tier")}},
		{"dhcp[a][b].c", "elements of elements", []Step{name("dhcp"), element("a"), element("b"), name("c")}},
		{"labels[]", "an empty key", []Step{name("labels"), element("")}},
		{"[3].name", "the object is a list", []Step{element("3"), name("name")}},
		{"labels[a]b]", "a key with a closing bracket", []Step{name("labels"), element("a]b")}},
		{"labels[a[0]]", "a key with brackets", []Step{name("labels"), element("a[0]")}},
		{"labels[[a]", "a key with an opening bracket", []Step{name("labels"), element("[a")}},
		{"labels[a]]", "a key that ends in a bracket", []Step{name("labels"), element("a]")}},
		{"labels[.]", "a dot is a key", []Step{name("labels"), element(".")}},
		{"labels[a].b[c]", "which may be one key: it is read as two and a field", []Step{name("labels"), element("a"), name("b"), element("c")}},
		{"a[b", "no path: the bracket belongs to the name", []Step{name("a[b")}},
		{"a]b", "no path: the bracket belongs to the name", []Step{name("a]b")}},
		{"a[b]c", "no path: nothing can follow a bracket so", []Step{name("a[b]c")}},
		{"a..b", "no path: a name is empty", []Step{name("a"), name(""), name("b")}},
		{".a", "no path: the first name is empty", []Step{name(""), name("a")}},
		{"a.", "no path: the last name is empty", []Step{name("a"), name("")}},
		{"a.[0]", "no path: a dot before a bracket", []Step{name("a"), name(""), element("0")}},
		{"größe[ключ]", "bytes above ASCII", []Step{name("größe"), element("ключ")}},
	} {
		steps := Parse(test.path)
		if diff := cmp.Diff(test.want, steps); diff != "" {
			t.Errorf("'%s', %s (-want +got):\n%s", test.path, test.why, diff)
		}
		if joined := Join(steps); joined != test.path {
			t.Errorf("'%s' is joined as '%s'", test.path, joined)
		}
	}
}

func TestIndex(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		step Step
		want int
		ok   bool
	}{
		{element("0"), 0, true},
		{element("12"), 12, true},
		{name("3"), 0, false},
		{element(""), 0, false},
		{element("-1"), 0, false},
		{element("+1"), 0, false},
		{element("01"), 0, false},
		{element("a"), 0, false},
		{element("99999999999999999999"), 0, false},
	} {
		if got, ok := test.step.Index(); ok != test.ok || ok && got != test.want {
			t.Errorf("%s: %d, %t", test.step, got, ok)
		}
	}
}

func TestBelow(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		path, field, rest string
		ok                bool
	}{
		{"spec.cpu", "spec.cpu", "", true},
		{"spec.cpu.cores", "spec.cpu", ".cores", true},
		{"spec.disks[0]", "spec.disks", "[0]", true},
		{"spec.cpus", "spec.cpu", "s", false},
		{"spec", "spec.cpu", "spec", false},
	} {
		if rest, ok := Below(test.path, test.field); rest != test.rest || ok != test.ok {
			t.Errorf("%s below %s: '%s', %t", test.path, test.field, rest, ok)
		}
	}
}

// TestLongPaths: a path of a megabyte, as a tenant's key makes it, takes no time worth mentioning; by the square of its length it takes minutes.
func TestLongPaths(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"[", "]", "[.", "a[", "[a].", "]["} {
		start := time.Now()
		Parse(strings.Repeat(part, 1<<20/len(part)))
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("'%s...' takes %s", part, took)
		}
	}
}

// FuzzParse: any text has steps, which read alike again; what field.Path writes of legal names has the steps that it was made of.
func FuzzParse(f *testing.F) {
	for _, seed := range [][3]string{
		{"spec.domain.devices.disks[3].name", "spec", "example.com/tier"},
		{"labels[a]b]", "labels", "a]b"},
		{"a[b][c", "x", "a].b[c"},
		{".[", "", "]"},
	} {
		f.Add(seed[0], seed[1], seed[2], 3)
	}
	f.Fuzz(func(t *testing.T, path, first, key string, index int) {
		steps := Parse(path)
		if diff := cmp.Diff(steps, Parse(Join(steps))); diff != "" {
			t.Errorf("'%s' reads as other steps again:\n%s", path, diff)
		}
		if strings.ContainsAny(first, ".[]") || first == "" || strings.Contains(key, "].") || strings.Contains(key, "][") {
			return
		}
		index = max(index, 0)
		written := field.NewPath(first).Key(key).Child("disks").Index(index).String()
		steps = Parse(written)
		want := []Step{name(first), element(key), name("disks"), element(strconv.Itoa(index))}
		if diff := cmp.Diff(want, steps); diff != "" || Join(steps) != written {
			t.Errorf("'%s' is joined as '%s' (-want +got):\n%s", written, Join(steps), diff)
		}
		if got, ok := steps[3].Index(); !ok || got != index {
			t.Errorf("'%s': index %d, %t", written, got, ok)
		}
	})
}
