package carrier

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Parameters of a VirtualMachineTemplate are filled in as virt-template does it (kubevirt.io/virt-template-engine/template, template.go and generator): ${NAME}
// in a text stands for a text, and a text that is only ${{NAME}} for any value of JSON. Two things differ. A generated value is always the same, because an
// update is compared with what is stored. A parameter without a value stays as it is written, and is open: a user gives its value when a VM is made.

var (
	inText    = regexp.MustCompile(`\$\{([a-zA-Z0-9_]+)\}`)
	wholeText = regexp.MustCompile(`^\$\{\{([a-zA-Z0-9_]+)\}\}$`)
)

// mostFilled bounds a template after its parameters are filled in, in bytes: etcd stores no larger object.
const mostFilled = 2 << 20

// parameters are the values of parameters by name.
type parameters map[string]string

// readParameters returns the parameters of an object that have a value.
func readParameters(object []byte) parameters {
	all := parameters{}
	gjson.GetBytes(object, "spec.parameters").ForEach(func(_, one gjson.Result) bool {
		name, value := textOf(one.Get("name")), textOf(one.Get("value"))
		if value == "" && textOf(one.Get("generate")) == "expression" {
			value = sampleOf(textOf(one.Get("from")))
		}
		if value != "" {
			all[name] = value
		}
		return true
	})
	return all
}

// filling is one template whose parameters are filled in.
type filling struct {
	values parameters
	open   map[string]bool
	// left is how many bytes may still be added.
	left int
}

// fillTemplate returns a template with the values of its parameters, and the open ones.
func (p parameters) fillTemplate(raw []byte, path string) (filled []byte, open []string, mistake *field.Error) {
	var template map[string]any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&template); err != nil {
		return nil, nil, &field.Error{Type: field.ErrorTypeForbidden, Field: path, Detail: err.Error(), Origin: "request/unreadable"}
	}
	f := &filling{values: p, open: map[string]bool{}, left: mostFilled}
	f.fillName(template)
	result := f.fill(template)
	if f.left < 0 {
		return nil, nil, &field.Error{Type: field.ErrorTypeForbidden, Field: path, Origin: "request/unreadable",
			Detail: fmt.Sprintf("the values of its parameters make it larger than %d bytes: use shorter values, or refer to them less often", mostFilled)}
	}
	filled, err := json.Marshal(result)
	if err != nil {
		return nil, nil, &field.Error{Type: field.ErrorTypeForbidden, Field: path, Detail: err.Error(), Origin: "request/unreadable"}
	}
	return filled, slices.Sorted(maps.Keys(f.open)), nil
}

// fillName removes a name with an open parameter. Nearly each template has one, and its VM is then judged under the name of the carrier.
func (f *filling) fillName(template map[string]any) {
	metadata, _ := template["metadata"].(map[string]any)
	for _, key := range []string{"name", "generateName"} {
		name, _ := metadata[key].(string)
		of := &filling{values: f.values, open: map[string]bool{}, left: f.left}
		if of.fillText(name); len(of.open) > 0 {
			delete(metadata, key)
		}
	}
}

// fill returns a value of JSON with the values of the parameters, also in the keys of maps.
func (f *filling) fill(value any) any {
	if f.left < 0 {
		return nil
	}
	switch value := value.(type) {
	case string:
		return f.fillText(value)
	case []any:
		for i := range value {
			value[i] = f.fill(value[i])
		}
		return value
	case map[string]any:
		filled := make(map[string]any, len(value))
		for _, key := range slices.Sorted(maps.Keys(value)) {
			name, isText := f.fillText(key).(string)
			if !isText {
				name = key
			}
			filled[name] = f.fill(value[key])
		}
		return filled
	}
	return value
}

// fillText returns what a text stands for.
func (f *filling) fillText(text string) any {
	if !strings.Contains(text, "${") {
		return text
	}
	if whole := wholeText.FindStringSubmatch(text); whole != nil {
		value, known := f.values[whole[1]]
		if !known {
			f.open[whole[1]] = true
			return text
		}
		f.left -= len(value)
		var read any
		decoder := json.NewDecoder(strings.NewReader(value))
		decoder.UseNumber()
		if f.left < 0 || decoder.Decode(&read) != nil || decoder.More() || read == nil {
			return value
		}
		return read
	}
	var out strings.Builder
	last := 0
	for _, at := range inText.FindAllStringSubmatchIndex(text, -1) {
		name := text[at[2]:at[3]]
		value, known := f.values[name]
		if !known {
			f.open[name] = true
			continue
		}
		if f.left -= len(value); f.left < 0 {
			return ""
		}
		out.WriteString(text[last:at[0]])
		out.WriteString(value)
		last = at[1]
	}
	out.WriteString(text[last:])
	return out.String()
}

var (
	expression = regexp.MustCompile(`\[([a-zA-Z0-9\-\\]+)\]\{(\w+)\}`)
	classes    = map[byte]string{'w': "a", 'd': "0", 'a': "a", 'A': "-"}
)

// longestSample is the length to which virt-template bounds each generated part.
const longestSample = 255

// sampleOf returns a text that a generator could make of an expression such as vm-[a-z0-9]{5}; nothing if it would make none.
func sampleOf(from string) string {
	valid := len(from) <= longestSample
	sample := expression.ReplaceAllStringFunc(from, func(part string) string {
		match := expression.FindStringSubmatch(part)
		length, err := strconv.Atoi(match[2])
		letter := match[1][:1]
		if letter == `\` && len(match[1]) > 1 {
			letter = classes[match[1][1]]
		}
		if err != nil || length < 1 || length > longestSample || letter == "" {
			valid = false
			return ""
		}
		return strings.Repeat(letter, length)
	})
	if !valid {
		return ""
	}
	return sample
}
