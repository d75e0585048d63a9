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

// words are the values of each field that has a fixed set of them, by the field's path, and what libvirt calls them. An empty word leaves the
// choice to Kiln. A test compares them with the enums of the definition of HostProfile.
var words = map[string]map[string]string{
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

// complete is a policy in libvirt's words, with a struct for each part, so that readers need not ask.
func complete(p v1alpha1.HostPolicy) (v1alpha1.HostPolicy, field.ErrorList) {
	if p == (v1alpha1.HostPolicy{}) {
		return noPolicy, nil
	}
	var errs field.ErrorList
	policy := *p.DeepCopy()
	walk(reflect.ValueOf(&policy).Elem(), "", func(name string, value reflect.Value) {
		if set, fixed := words[name]; fixed {
			word, known := set[value.String()]
			if !known {
				errs = append(errs, notAWord(policyPath(strings.Split(name, ".")...), name, value.String()))
			}
			value.SetString(word)
		}
	})
	return filled(policy), errs
}

func notAWord(at *field.Path, name, value string) *field.Error {
	return field.NotSupported(at, value, slices.Sorted(maps.Keys(words[name])))
}

var noPolicy = filled(v1alpha1.HostPolicy{}) // read by all, written by none

func filled(p v1alpha1.HostPolicy) v1alpha1.HostPolicy {
	value := reflect.ValueOf(&p).Elem()
	for i := range value.NumField() {
		if part := value.Field(i); part.IsNil() {
			part.Set(reflect.New(part.Type().Elem()))
		}
	}
	return p
}

// walk visits each field of a policy that is set and no struct, in the order of the type, with its path such as cpu.shares.
func walk(part reflect.Value, at string, visit func(name string, value reflect.Value)) {
	for i := range part.NumField() {
		name := at + fieldName(part.Type().Field(i))
		switch value := part.Field(i); {
		case value.IsZero():
		case isPart(value.Type()):
			walk(value.Elem(), name+".", visit)
		default:
			visit(name, value)
		}
	}
}

func fieldName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// isPart reports whether a field is a struct of fields, which are merged one by one. A quantity is one value.
func isPart(t reflect.Type) bool {
	return t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct && t != reflect.TypeFor[*resource.Quantity]()
}

// bytes is 0, which libvirtxml leaves out, for what a profile leaves out.
func bytes(q *resource.Quantity) uint64 {
	if q == nil {
		return 0
	}
	return rounded(*q, 1)
}

func kibibytes(q resource.Quantity) uint64 { return rounded(q, 1024) }

// rounded counts the units that a quantity fills, the last one perhaps in part: a limit of less than one unit must not become none.
func rounded(q resource.Quantity, unit uint64) uint64 {
	n := uint64(max(0, q.Value()))
	return n/unit + min(1, n%unit)
}
