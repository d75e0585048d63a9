package leaves

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Inlined is a struct that is inlined: JSON has its fields among the fields of the struct around it.
type Inlined struct {
	Kind string `json:"kind,omitempty"`
}

type element struct {
	Name string `json:"name,omitempty"`
	Size *int   `json:"size,omitempty"`
}

type object struct {
	Inlined  `json:",inline"`
	*Pointed `json:",inline"`
	Flag     *bool              `json:"flag,omitempty"`
	Empty    *struct{}          `json:"empty,omitempty"`
	List     []element          `json:"list,omitempty"`
	Words    []string           `json:"words,omitempty"`
	Labels   map[string]string  `json:"labels,omitempty"`
	Memory   *resource.Quantity `json:"memory,omitempty"`
	Bytes    []byte             `json:"bytes,omitempty"`
	Untagged int
	Skipped  string `json:"-"`
	own      string
}

// Pointed is inlined by a pointer.
type Pointed struct {
	Extra string `json:"extra,omitempty"`
}

// TestLeaves: which fields of a value are leaves, and what tells the elements of a list apart.
func TestLeaves(t *testing.T) {
	t.Parallel()
	no, two, half := false, 2, resource.MustParse("512Mi")
	for _, test := range []struct {
		why   string
		value any
		want  []string // path, key and value
	}{
		{"nothing is set", object{}, nil},
		{"neither fields that JSON leaves out nor own ones", object{Skipped: "a", own: "b"}, nil},
		{"a switch that is off is set", object{Flag: &no}, []string{"o.flag o.flag false"}},
		{"an empty object is set", object{Empty: &struct{}{}}, []string{"o.empty o.empty {}"}},
		{"inlined structs have no name", object{Inlined: Inlined{"k"}, Pointed: &Pointed{"e"}}, []string{`o.kind o.kind "k"`, `o.extra o.extra "e"`}},
		{"a field without a tag has its Go name", object{Untagged: 1}, []string{"o.Untagged o.Untagged 1"}},
		{"what writes its own JSON is one leaf", object{Memory: &half, Bytes: []byte("x")}, []string{`o.memory o.memory "512Mi"`, `o.bytes o.bytes "eA=="`}},
		{"elements have their names as keys, so that one put before them changes no key", object{List: []element{{Name: "b"}, {Name: "a", Size: &two}}},
			[]string{`o.list[0].name o.list[b#1].name "b"`, `o.list[1].name o.list[a#1].name "a"`, `o.list[1].size o.list[a#1].size 2`}},
		{"elements of one name are counted", object{List: []element{{Name: "a"}, {Name: "a"}}},
			[]string{`o.list[0].name o.list[a#1].name "a"`, `o.list[1].name o.list[a#2].name "a"`}},
		{"an element without a name has its index", object{List: []element{{Size: &two}}}, []string{`o.list[0].size o.list[0#1].size 2`}},
		{"an empty element is an empty object", object{List: []element{{}}}, []string{`o.list[0] o.list[0#1] {}`}},
		{"an empty word of a list is a value", object{Words: []string{""}}, []string{`o.words[0] o.words[0#1] ""`}},
		{"keys of maps are sorted, and may hold dots and brackets", object{Labels: map[string]string{"b": "", "a.b/c[0]": "x"}},
			[]string{`o.labels[a.b/c[0]] o.labels[a.b/c[0]] "x"`, `o.labels[b] o.labels[b] ""`}},
	} {
		var got []string
		for _, l := range Append(nil, "o", test.value) {
			got = append(got, l.Path+" "+l.Key+" "+l.Text())
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.why, diff)
		}
	}
}

// TestFieldsAreThoseOfJSON: a name that Fields returns is a key of what encoding/json writes.
func TestFieldsAreThoseOfJSON(t *testing.T) {
	t.Parallel()
	yes, three, memory := true, 3, resource.MustParse("1Gi")
	raw, err := json.Marshal(object{Inlined{"k"}, &Pointed{"e"}, &yes, &struct{}{}, []element{{"a", &three}}, []string{"w"},
		map[string]string{"a": "b"}, &memory, []byte("x"), 1, "s", "o"})
	if err != nil {
		t.Fatal(err)
	}
	written, names := map[string]any{}, map[string]any{}
	if err := json.Unmarshal(raw, &written); err != nil {
		t.Fatal(err)
	}
	for _, of := range []reflect.Type{reflect.TypeFor[object](), reflect.TypeFor[Inlined](), reflect.TypeFor[Pointed]()} {
		for _, f := range Fields(of) {
			if f.Name != "" {
				names[f.Name] = written[f.Name]
			}
		}
	}
	if diff := cmp.Diff(written, names); diff != "" {
		t.Errorf("(-JSON +Fields):\n%s", diff)
	}
}

// TestSortedKeys: keys of both maps, each once.
func TestSortedKeys(t *testing.T) {
	t.Parallel()
	var got []string
	for _, key := range SortedKeys(reflect.ValueOf(map[string]int{"b": 1, "a": 1}), reflect.ValueOf(map[string]int{"c": 1, "b": 2})) {
		got = append(got, key.String())
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
