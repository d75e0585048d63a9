package abi

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/kilnvm/kiln/pkg/record"
	"libvirt.org/go/libvirtxml"
)

// memoryWords prints memory.guest, or memory.maxGuest if only that differs.
func memoryWords(before, after *libvirtxml.Domain) string {
	if text := shortValues(memoryOf)(before, after); text != "" {
		return text
	}
	if text := shortValues(maximumOf)(before, after); text != "" {
		return " its maximum" + text
	}
	return ""
}

func memoryOf(d *libvirtxml.Domain) string {
	if d.Memory == nil {
		return ""
	}
	return formatMemory(uint64(d.Memory.Value))
}

func maximumOf(d *libvirtxml.Domain) string {
	if d.MaximumMemory == nil {
		return ""
	}
	return formatMemory(uint64(d.MaximumMemory.Value))
}

// cpuWords prints the models if one of the domains has none, such as with host-model, else the model and the features that differ.
func cpuWords(before, after *libvirtxml.Domain) string {
	if before.CPU == nil || after.CPU == nil || (before.CPU.Model == nil) != (after.CPU.Model == nil) || before.CPU.Mode != after.CPU.Mode {
		return shortValues(modelOf)(before, after)
	}
	was, is := ReadCPU(before.CPU), ReadCPU(after.CPU)
	was.PhysicalBits, is.PhysicalBits = 0, 0 // a part of the memory
	if text := record.DescribeCPUChange(&was, &is); text != "" {
		return ": " + text
	}
	return ""
}

// formatMemory prints an amount of memory in KiB, the unit of frontends, in the largest unit that gives a whole number.
func formatMemory(kib uint64) string {
	unit := 0
	for kib > 0 && kib%1024 == 0 && unit < 3 {
		kib, unit = kib/1024, unit+1
	}
	return fmt.Sprintf("%d %s", kib, []string{"KiB", "MiB", "GiB", "TiB"}[unit])
}

// maxSettings bounds how many differing settings of one device are printed: messages of conditions are bounded.
const maxSettings = 3

// differingSettings lists what differs between two elements of a device, by libvirtxml's field names in lower case, with both values.
func differingSettings(before, after any) string {
	var words []string
	a, b := reflect.Indirect(reflect.ValueOf(before)), reflect.Indirect(reflect.ValueOf(after))
	if !a.IsValid() || !b.IsValid() || a.Type() != b.Type() {
		return ""
	}
	layouts[a.Type()].visitDifferences("", a, b, func(path string, old, new string) {
		words = append(words, fmt.Sprintf(" its %s from %s to %s", path, quoteOrNone(old), quoteOrNone(new)))
	})
	if more := len(words) - maxSettings; more > 0 {
		words = append(words[:maxSettings], fmt.Sprintf(" and %d more", more))
	}
	return strings.Join(words, ",")
}

// visitDifferences calls report for each field that differs. An element that one side lacks counts as one whose fields are unset.
func (l *layout) visitDifferences(at string, a, b reflect.Value, report func(path, old, new string)) {
	switch a.Kind() {
	case reflect.Pointer:
		if !a.IsNil() || !b.IsNil() {
			l.element.visitDifferences(at, valueOrZero(a), valueOrZero(b), report)
		}
	case reflect.Slice:
		if a.Len() != b.Len() {
			report(at, fmt.Sprint(a.Len()), fmt.Sprint(b.Len()))
			return
		}
		for i := range a.Len() {
			l.element.visitDifferences(fmt.Sprintf("%s[%d]", at, i), a.Index(i), b.Index(i), report)
		}
	case reflect.Struct:
		for _, f := range l.fields {
			f.layout.visitDifferences(strings.TrimPrefix(at+"."+strings.ToLower(f.name), "."), a.Field(f.index), b.Field(f.index), report)
		}
	default:
		if !a.Equal(b) {
			report(at, formatScalar(a), formatScalar(b))
		}
	}
}

// valueOrZero returns what a pointer points to, and the zero value for nil.
func valueOrZero(v reflect.Value) reflect.Value {
	if v.IsNil() {
		return reflect.Zero(v.Type().Elem())
	}
	return v.Elem()
}

// formatScalar prints a string, number or boolean; it is empty for one that is not set.
func formatScalar(v reflect.Value) string {
	if v.IsZero() {
		return ""
	}
	return fmt.Sprint(v)
}
