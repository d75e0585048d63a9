package validate

import (
	"encoding/json"
	"strings"
	"testing"
)

// unreadable are texts that are no JSON. Nobody asks about them: what could not be counted must not pass as few, and the count must end.
var unreadable = []string{`{`, `[`, `{"a":[`, `{"a" 1}`, `{"a":tru}`, `{"a":1,}`, `[1 2]`, `{"a":"\x"}`, "{\"a\":\"\n\"}", `{"a":[1}`, `{"\u12":1}`,
	`{"fieldsV1":` + strings.Repeat("[", 20_000), strings.Repeat(`{"a":`, 20_000)}

func TestCountsOfNoJSON(t *testing.T) {
	for _, text := range unreadable {
		if err := Counts([]byte(text)); err == nil {
			t.Errorf("%.40q is taken for an object of few parts", text)
		}
	}
}

// FuzzCounts: the count ends, and it can read whatever encoding/json reads.
func FuzzCounts(f *testing.F) {
	for _, text := range append(unreadable, `{"a":[{"b":"1e9"}]}`, "{\"\xff\":\"\xc3\"}", `{"a":1,"a":{"fieldsV1":[[]]}}`, `"1"`, `{"a":"\ud800"}`, ` {"":[ ]} `) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := Counts(raw); json.Valid(raw) && err != nil && err.Origin == "request/unreadable" {
			t.Errorf("%q: %v", raw, err)
		}
	})
}
