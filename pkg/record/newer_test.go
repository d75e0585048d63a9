package record

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
)

// later is a record of a later version of Kiln.
const later = `{"schemaVersion":5,"defaults":"2","digest":"sha256:` + zeros + `","machine":"pc-q35-9.2","devices":{"disk.a":{"pci":"0000:0b:00.0"}},` +
	`"cache":{"model":"EPYC-v4","flags":["a<b"],"bits":9007199254740993},"firmwareBuild":"edk2-20250221"}`

const zeros = "0000000000000000000000000000000000000000000000000000000000000000"

func read(t *testing.T, text string) *Record {
	t.Helper()
	out := &Record{}
	if err := json.Unmarshal([]byte(text), out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestNewerRecordIsKept: fields that this version does not know survive reading, copying and writing, by Go's JSON and by clients of unstructured objects.
func TestNewerRecordIsKept(t *testing.T) {
	t.Parallel()
	r := read(t, later)
	if r.Machine != "pc-q35-9.2" || r.Devices["disk.a"].PCI != "0000:0b:00.0" || len(r.Unknown) != 2 {
		t.Fatalf("%+v", r)
	}
	if err := Check(r); err != nil {
		t.Error(err)
	}
	text, err := json.Marshal(r.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, read(t, string(text))); diff != "" || !strings.Contains(string(text), "9007199254740993") {
		t.Errorf("%s\n%s", text, diff)
	}
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(r)
	if err != nil {
		t.Fatal(err)
	}
	again := &Record{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(tree, again); err != nil || again.Unknown["firmwareBuild"] == nil || again.SchemaVersion != 5 {
		t.Errorf("%v: %+v", err, again)
	}
	if changes := Compare(*r, *read(t, strings.Replace(later, "EPYC-v4", "EPYC-v5", 1))); len(changes) > 0 {
		t.Errorf("a field that this version does not know is compared: %v", changes)
	}
	if mistaken := read(t, `{"defaults":"2","Machine":"pc-i440fx-1.0"}`); mistaken.Machine != "" || mistaken.Unknown["Machine"] == nil {
		t.Errorf("letter case does not matter: %+v", mistaken)
	}
}

// TestUnknownFieldsOfNone: a record of this version has no unknown fields, and its JSON is as before.
func TestUnknownFieldsOfNone(t *testing.T) {
	t.Parallel()
	const text = `{"defaults":"2","digest":"sha256:` + zeros + `","macs":{"default":"02:00:00:00:00:01"}}`
	r := read(t, text)
	if now, err := json.Marshal(r); err != nil || string(now) != text || r.Unknown != nil {
		t.Errorf("%s: %v, %v", now, r.Unknown, err)
	}
	r.Unknown = map[string]json.RawMessage{"machine": json.RawMessage(`"x"`)}
	if now, err := json.Marshal(r); err == nil {
		t.Errorf("a field is written twice: %s", now)
	}
}

// TestNewer: the text names what a boot does not reproduce, and stays short for hostile records.
func TestNewer(t *testing.T) {
	t.Parallel()
	text := DescribeNewer(read(t, later))
	if !strings.Contains(text, "schemaVersion 5") || !strings.HasSuffix(text, "does not reproduce, 'cache', 'firmwareBuild'") {
		t.Error(text)
	}
	for _, current := range []*Record{nil, {}, {SchemaVersion: 1}, {Unknown: map[string]json.RawMessage{"cache": nil}}} {
		if text := DescribeNewer(current); text != "" {
			t.Errorf("%+v: %s", current, text)
		}
	}
	hostile := read(t, `{"schemaVersion":5}`)
	hostile.Unknown = map[string]json.RawMessage{}
	for i := range 1000 {
		hostile.Unknown[fmt.Sprintf("%d\n%s", i, strings.Repeat("x", 1000))] = json.RawMessage("1")
	}
	if text := DescribeNewer(hostile); len(text) > 1000 || strings.Contains(text, "\n") || !strings.Contains(text, "992 more") {
		t.Errorf("%d bytes: %s", len(text), text)
	}
}

// TestCheckOfNewer: a negative version and an endless unknown field are refused, a higher version is not.
func TestCheckOfNewer(t *testing.T) {
	t.Parallel()
	if err := Check(&Record{SchemaVersion: -1}); err == nil || !strings.Contains(err.Error(), "schemaVersion '-1'") {
		t.Error(err)
	}
	long := json.RawMessage(`"` + strings.Repeat("x", longestRecord) + `"`)
	endless := &Record{SchemaVersion: 5, Unknown: map[string]json.RawMessage{"cache": long}}
	if err := Check(endless); err == nil || !strings.Contains(err.Error(), "bytes, at most") {
		t.Error(err)
	}
}
