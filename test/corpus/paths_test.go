package corpus

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

func unmarshal(raw []byte, into any) error { return json.Unmarshal(raw, into) }

// segment of a path: a name, or what stands in brackets.
var segment = regexp.MustCompile(`^(?:\.?([^.\[\]]+)|\[([^\]]*)\])`)

// unreal says what is wrong with the path of an error, or nothing: it must exist in the schema of the object's type, with
// indices in bounds, and all but its last part must be in the object as it was sent.
func unreal(path string, typed any, raw []byte) string {
	var sent any
	if err := json.Unmarshal(raw, &sent); err != nil {
		return err.Error()
	}
	here, rest := reflect.TypeOf(typed), path
	if path == "" {
		return "no path"
	}
	for rest != "" {
		if sent == nil {
			return fmt.Sprintf("'%s' is below what was not sent", rest)
		}
		found := segment.FindStringSubmatch(rest)
		if found == nil {
			return fmt.Sprintf("'%s' is no path", rest)
		}
		rest = rest[len(found[0]):]
		name, bracketed := found[1], found[2]
		for here.Kind() == reflect.Pointer {
			here = here.Elem()
		}
		var problem string
		if here, sent, problem = into(here, sent, name, bracketed); problem != "" {
			return problem
		}
	}
	return ""
}

// into goes one part of a path down, in the type and in what was sent.
func into(t reflect.Type, sent any, name, bracketed string) (reflect.Type, any, string) {
	switch t.Kind() {
	case reflect.Slice:
		list, _ := sent.([]any)
		index, err := strconv.Atoi(bracketed)
		if err != nil || index < 0 || index >= len(list) {
			return nil, nil, fmt.Sprintf("[%s] is not among %d", bracketed, len(list))
		}
		return t.Elem(), list[index], ""
	case reflect.Map:
		key := name + bracketed
		holder, _ := sent.(map[string]any)
		return t.Elem(), holder[key], ""
	case reflect.Struct:
		holder, _ := sent.(map[string]any)
		if below := fieldNamed(t, name); below != nil {
			return below, holder[name], ""
		}
	}
	return nil, nil, fmt.Sprintf("%s has no '%s%s'", t, name, bracketed)
}

// fieldNamed returns the type of a struct's field by its JSON name. It looks into embedded structs, too.
func fieldNamed(t reflect.Type, name string) reflect.Type {
	for _, f := range reflect.VisibleFields(t) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name && name != "" {
			return f.Type
		}
	}
	return nil
}

func TestUnreal(t *testing.T) {
	vmi := &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a/b": "c"}}}
	memory := resource.MustParse("1Gi")
	vmi.Spec.Domain.Memory = &v1.Memory{Guest: &memory}
	vmi.Spec.Domain.Devices.Disks = []v1.Disk{{Name: "a"}}
	for path, real := range map[string]bool{
		"spec.domain.memory.guest":                 true,
		"spec.domain.memory.maxGuest":              true,
		"spec.domain.memory.most":                  false,
		"spec.domain.cpu":                          true,
		"spec.domain.cpu.cores":                    false,
		"spec.domain.devices.disks[0].disk":        true,
		"spec.domain.devices.disks[0].disk.bus":    false,
		"spec.domain.devices.disks[1]":             false,
		"spec.domain.devices.disks.name":           false,
		"metadata.labels[a/b]":                     true,
		"metadata.labels[d]":                       true,
		"":                                         false,
		"spec.domain.resources":                    true,
		"spec.domain.resources.requests[memory].x": false,
		"status": true,
		"spec.domain.devices.disks[0].cdrom.bus[0]": false,
	} {
		if problem := unreal(path, vmi, []byte(text(vmi))); (problem == "") != real {
			t.Errorf("'%s': '%s'", path, problem)
		}
	}
	if slices.Contains([]string{unreal("spec", vmi, nil)}, "") {
		t.Error("nothing was sent")
	}
}
