package admission

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/kilnvm/kiln/api/v1alpha1"
	admissionv1 "k8s.io/api/admission/v1"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/yaml"
)

// sameAsStandard returns a function that checks that the fast decoder accepts only what encoding/json reads alike, and reports whether it did. What it
// refuses, encoding/json decides.
func sameAsStandard[T any](as jsonv2.Options) func(*testing.T, []byte) bool {
	return func(t *testing.T, raw []byte) bool {
		t.Helper()
		fast, standard := new(T), new(T)
		if jsonv2.Unmarshal(raw, fast, as) != nil {
			return false
		}
		if err := json.Unmarshal(raw, standard); err != nil || !reflect.DeepEqual(fast, standard) {
			t.Errorf("%T of %q:\n%+v, encoding/json says\n%+v %v", fast, raw, fast, standard, err)
		}
		return true
	}
}

// readers are those of all types that requests are decoded into.
var readers = []func(*testing.T, []byte) bool{
	sameAsStandard[v1.VirtualMachine](asObject), sameAsStandard[v1.VirtualMachineInstance](asObject), sameAsStandard[admissionv1.AdmissionReview](asReview),
	sameAsStandard[v1beta1.VirtualMachineInstancetype](asObject), sameAsStandard[v1beta1.VirtualMachinePreference](asObject),
	sameAsStandard[v1.VirtualMachineInstancePreset](asObject), sameAsStandard[v1alpha1.GuestHardware](asObject),
	sameAsStandard[v1alpha1.GuestPolicy](asObject),
}

// cases are the VMs and VMIs of the corpus, as JSON, by their files.
func cases(t testing.TB) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("../../test/corpus/*/vm*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	found := map[string][]byte{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err == nil {
			raw, err = yaml.YAMLToJSON(raw)
		}
		if err != nil {
			t.Fatal(err)
		}
		found[file] = raw
	}
	return found
}

// oddities are texts for a member of an object, whose name and value are NAME and VALUE, that decoders may disagree about.
var oddities = []string{
	`"NAME":null`, `"NAME":true`, `"NAME":"x"`, `"NAME":""`, `"NAME":-1`, `"NAME":1.5`, `"NAME":1e2`, `"NAME":99999999999999999999`, `"NAME":[]`, `"NAME":{}`,
	`"NAME":[null]`, `"NAME":[{}]`, `"NAME":{"a":null}`, `"NAME":{"a":"b","a":"c"}`, `"NAME":"\ud800"`, "\"NAME\":\"\xff\"", `"NAME":"YQ=="`, `"NAME":"Y\nQ"`,
	`"UPPER":VALUE`, `"UPPER":null`, `"NA-ME":VALUE`, `"NAME\u0000":VALUE`, `"":VALUE`, `"unknown":{"a":[VALUE,VALUE]}`,
	`"NAME":VALUE,"NAME":VALUE`, `"NAME":VALUE,"NAME":null`, `"NAME":VALUE,"UPPER":VALUE`, `"NAME":VALUE,"NAME":{}`, `"NAME":VALUE,"NAME":[]`,
	`"NAME":[],"NAME":VALUE`, `"NAME":VALUE,"NAME":[null]`, `"NAME":VALUE,"NAME":[{}]`, `"NAME":VALUE,"NAME":{"a":1}`,
}

// TestUnmarshal: every field of the corpus, in every odd form, is read as encoding/json reads it. What is not odd is read by the fast decoder.
func TestUnmarshal(t *testing.T) {
	t.Parallel()
	seen, odd := map[string]bool{}, 0
	for file, raw := range cases(t) {
		reader := readers[0]
		if !strings.HasSuffix(file, "vm.yaml") {
			reader = readers[1]
		}
		if !reader(t, raw) && json.Unmarshal(raw, &v1.VirtualMachineInstance{}) == nil && !bytes.Contains(raw, []byte("nameservers")) {
			t.Errorf("%s: the fast decoder refuses it", file)
		}
		var root any
		if err := json.Unmarshal(raw, &root); err != nil {
			t.Fatal(err)
		}
		members(root, filepath.Base(file), func(path string, write func(string) []byte) {
			if seen[path] {
				return
			}
			seen[path] = true
			for _, text := range oddities {
				odd++
				reader(t, write(text))
			}
		})
	}
	if len(seen) < 200 {
		t.Errorf("only %d fields", len(seen))
	}
	t.Logf("%d fields, %d odd forms", len(seen), odd)
}

// members calls found for each member of the objects in a value, with its path without indices. write returns the whole value with another text instead
// of that member.
func members(root any, path string, found func(path string, write func(text string) []byte)) {
	var walk func(value any, path string)
	walk = func(value any, path string) {
		switch value := value.(type) {
		case []any:
			for _, element := range value {
				walk(element, path)
			}
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(value)) {
				was := value[name]
				found(path+"."+name, func(text string) []byte {
					const mark = "the member"
					delete(value, name)
					value[mark] = mark
					defer func() { delete(value, mark); value[name] = was }()
					raw, _ := json.Marshal(root) // it was JSON
					old, _ := json.Marshal(was)
					text = strings.NewReplacer("NAME", name, "UPPER", strings.ToUpper(name), "NA-ME", name[:1]+"-"+name[1:], "VALUE", string(old)).Replace(text)
					return bytes.Replace(raw, fmt.Appendf(nil, "%q:%q", mark, mark), []byte(text), 1)
				})
				walk(was, path+"."+name)
			}
		}
	}
	walk(root, path)
}

// FuzzUnmarshal sends bytes to the decoders of all types.
func FuzzUnmarshal(f *testing.F) {
	for _, raw := range cases(f) {
		f.Add(raw)
	}
	for _, body := range extremes(f) {
		if len(body) < 1<<16 {
			f.Add(body)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, reader := range readers {
			reader(t, raw)
		}
	})
}
