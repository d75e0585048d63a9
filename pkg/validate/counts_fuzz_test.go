package validate

import (
	"encoding/json"
	"strings"
	"testing"
)

// unreadable are texts that are not JSON. Counts is never called with them. They must not count as few parts, and the walk must end.
var unreadable = []string{`{`, `[`, `{"a":[`, `{"a" 1}`, `{"a":tru}`, `{"a":1,}`, `[1 2]`, `{"a":"\x"}`, "{\"a\":\"\n\"}", `{"a":[1}`, `{"\u12":1}`,
	`{"fieldsV1":` + strings.Repeat("[", 20_000), strings.Repeat(`{"a":`, 20_000)}

func TestCountsOfNoJSON(t *testing.T) {
	for _, text := range unreadable {
		if err := written.walk([]byte(text)); err == nil {
			t.Errorf("%.40q is taken for an object of few parts", text)
		}
	}
}

// FuzzCounts: the walk ends, it can read whatever encoding/json reads, and what is few by its brackets, commas and digits is few.
func FuzzCounts(f *testing.F) {
	for _, text := range append(unreadable, `{"a":[{"b":"1e9"}]}`, "{\"\xff\":\"\xc3\"}", `{"a":1,"a":{"fieldsV1":[[]]}}`, `"1"`, `{"a":"\ud800"}`, ` {"":[ ]} `,
		`{"guest":"1e1000"}`, `{"guest":1E+0000}`, `{"guest":"`+strings.Repeat("1", 101)+`"}`, `{"guest":"\u0031e9999"}`,
		`{"guest":"1\u0065\u0039999"}`, `{"guest":"1e\u002b9999"}`, `{"guest":"1\n1e9999","userData":"#\n"}`, `{"\u0067uest":"1e\n9999"}`, `{"guest":"1e\/9999"}`,
		strings.Repeat("[", 65)+strings.Repeat("]", 65),
		`{"spec":{"dataVolumeTemplates":[`+strings.Repeat("0,", 64)+`0]}}`,
		`{"a":[`+strings.Repeat("0,", 16380)+`0],"b":[0],"c":[0],"d":[0]}`) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		err := written.walk(raw)
		if json.Valid(raw) && err != nil && err.Origin == "request/unreadable" {
			t.Errorf("%q: %v", raw, err)
		}
		for _, limits := range []counts{written, stored} {
			if err := limits.walk(raw); err != nil && err.Origin != "request/unreadable" && limits.surelyFew(raw) {
				t.Errorf("%q is taken for few: %v", raw, err)
			}
		}
	})
}
