package backend

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// libvirtValues has each enum of HostProfile by the field's path, and for each value what libvirt calls it. An empty string leaves the choice to
// Kiln. A test compares the values with the enums in the definition of HostProfile.
var libvirtValues = map[string]map[string]string{
	"disk.cachePolicy": {"Auto": "", "None": "none", "WriteThrough": "writethrough", "WriteBack": "writeback", "DirectSync": "directsync",
		"Unsafe": "unsafe"},
	"disk.ioPolicy":            {"Auto": "", "Native": "native", "Threads": "threads", "IOUring": "io_uring"},
	"disk.discard":             {"Unmap": "unmap", "Ignore": "ignore"},
	"disk.detectZeroes":        {"Disabled": "off", "Enabled": "on", "Unmap": "unmap"},
	"disk.errorPolicy":         {"Stop": "stop", "Report": "report", "Ignore": "ignore", "Enospace": "enospace"},
	"disk.readErrorPolicy":     {"Stop": "stop", "Report": "report", "Ignore": "ignore"},
	"ioThreads.policy":         {"None": "", "Shared": "shared", "Auto": "auto"}, // of KubeVirt's ioThreadsPolicy
	"cpu.vcpuScheduler.policy": {"FIFO": "fifo", "RoundRobin": "rr", "Batch": "batch", "Idle": "idle"},
	"cpu.pinStrategy":          {"Compact": "compact", "Spread": "spread", "None": "none"}, // Kiln's own
	"memory.backing":           {"Memfd": "memfd", "File": "file", "Anonymous": "anonymous"},
	"memory.allocation":        {"Immediate": "immediate", "OnDemand": "ondemand"},
	"numa.mode":                {"Strict": "strict", "Preferred": "preferred", "Interleave": "interleave"},
	"rng.source":               {"/dev/urandom": "/dev/urandom", "/dev/random": "/dev/random", "/dev/hwrng": "/dev/hwrng"},
	"security.secLabel.type":   {"Dynamic": "dynamic", "Static": "static", "None": "none"},
	"security.secLabel.model":  {"SELinux": "selinux", "AppArmor": "apparmor", "DAC": "dac"},
	"security.nwFilter":        {"AntiSpoofing": "spoofing", "None": "none"}, // Kiln's own
	"lifecycle.onCrash": {"Destroy": "destroy", "Restart": "restart", "Preserve": "preserve", "CoredumpDestroy": "coredump-destroy",
		"CoredumpRestart": "coredump-restart"},
}

// toLibvirt returns a copy of a policy with libvirt's values, in which no part is nil. It reports values that are in no enum: they reach this stage
// where refusesVMI keeps the field.
func toLibvirt(p v1alpha1.HostPolicy) (v1alpha1.HostPolicy, field.ErrorList) {
	if p == (v1alpha1.HostPolicy{}) {
		return emptyPolicy, nil
	}
	var errs field.ErrorList
	policy := *p.DeepCopy()
	visitFields(reflect.ValueOf(&policy).Elem(), "", func(name string, value reflect.Value) {
		if set, fixed := libvirtValues[name]; fixed {
			translated, known := set[value.String()]
			if !known {
				errs = append(errs, unsupportedValue(policyPath(strings.Split(name, ".")...), name, value.String()))
			}
			value.SetString(translated)
		}
	})
	return withAllParts(policy), errs
}

// unsupportedValue names the allowed values, in HostProfile's spelling.
func unsupportedValue(at *field.Path, name, value string) *field.Error {
	return field.NotSupported(at, value, slices.Sorted(maps.Keys(libvirtValues[name])))
}

// emptyPolicy is shared by all renderings without a profile. Nothing may write to it.
var emptyPolicy = withAllParts(v1alpha1.HostPolicy{})

// withAllParts replaces each nil part by an empty one, so that no reader checks for nil.
func withAllParts(p v1alpha1.HostPolicy) v1alpha1.HostPolicy {
	value := reflect.ValueOf(&p).Elem()
	for i := range value.NumField() {
		if part := value.Field(i); part.IsNil() {
			part.Set(reflect.New(part.Type().Elem()))
		}
	}
	return p
}

// visitFields visits each field of a policy that is set and is not a struct, in the order of the type, with its path such as cpu.shares.
func visitFields(part reflect.Value, at string, visit func(name string, value reflect.Value)) {
	for i := range part.NumField() {
		name := at + fieldName(part.Type().Field(i))
		switch value := part.Field(i); {
		case value.IsZero():
		case isPart(value.Type()):
			visitFields(value.Elem(), name+".", visit)
		default:
			visit(name, value)
		}
	}
}

func fieldName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// isPart reports whether a field is a struct whose fields are merged one by one. A quantity is a struct too, but one value.
func isPart(t reflect.Type) bool {
	return t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct && t != reflect.TypeFor[*resource.Quantity]()
}

// bytesOf returns 0, which libvirtxml leaves out, for a quantity that is not set.
func bytesOf(q *resource.Quantity) uint64 {
	if q == nil {
		return 0
	}
	return roundUp(*q, 1)
}

func kibibytes(q resource.Quantity) uint64 { return roundUp(q, 1024) }

// roundUp converts bytes to units and rounds up: a limit below one unit must not become 0, which means no limit. A negative quantity is 0.
func roundUp(q resource.Quantity, unit uint64) uint64 {
	n := uint64(max(0, q.Value()))
	return n/unit + min(1, n%unit)
}
