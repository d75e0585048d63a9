package catalog

import (
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// labelPromise is a label whose value the spec determines.
type labelPromise struct {
	key string
	// of returns the value that the spec determines; empty if the label must be absent.
	of func(*Object) string
	// same compares the label with the value that the spec determines. If it is nil, the texts are compared.
	same func(label, spec string) bool
}

var instancetypePromises = []labelPromise{
	{key: "cpu", of: func(o *Object) string { return strconv.FormatUint(uint64(o.Instancetype.CPU.Guest), 10) }},
	{key: "memory", of: func(o *Object) string { return o.Instancetype.Memory.Guest.String() }, same: sameAmount},
	{key: "hugepages", of: hugepageSize, same: sameAmount},
	{key: "numa", of: func(o *Object) string {
		numa := o.Instancetype.CPU.NUMA
		return trueOrEmpty(numa != nil && numa.GuestMappingPassthrough != nil)
	}},
	{key: "dedicatedCPUPlacement", of: func(o *Object) string { return switchText(o.Instancetype.CPU.DedicatedCPUPlacement) }},
	{key: "isolateEmulatorThread", of: func(o *Object) string { return switchText(o.Instancetype.CPU.IsolateEmulatorThread) }},
	{key: "realtime", of: func(o *Object) string { return trueOrEmpty(o.Instancetype.CPU.Realtime != nil) }},
	// Published catalogs had 'true'. A number can be used in a selector.
	{key: "gpus", of: gpuCount, same: func(label, spec string) bool { return label == spec || label == "true" }},
}

var preferencePromises = []labelPromise{
	{key: "required-cpu", of: func(o *Object) string {
		if need := o.Preference.Requirements; need != nil && need.CPU != nil {
			return strconv.FormatUint(uint64(need.CPU.Guest), 10)
		}
		return ""
	}},
	{key: "required-memory", of: func(o *Object) string {
		if need := o.Preference.Requirements; need != nil && need.Memory != nil {
			return need.Memory.Guest.String()
		}
		return ""
	}, same: sameAmount},
	{key: "required-architecture", of: func(o *Object) string {
		if need := o.Preference.Requirements; need != nil && need.Architecture != nil {
			return *need.Architecture
		}
		return ""
	}},
	{key: "preferred-architecture", of: func(o *Object) string { return textOrEmpty(o.Preference.PreferredArchitecture) }},
}

func labelPath(key string) string      { return "metadata.labels[" + key + "]" }
func annotationPath(key string) string { return "metadata.annotations[" + key + "]" }

func hugepageSize(o *Object) string {
	if pages := o.Instancetype.Memory.Hugepages; pages != nil {
		return pages.PageSize
	}
	return ""
}

// gpuCount returns the number of spec.gpus. Entries of spec.hostDevices do not count: dashboards cannot tell which of them are GPUs.
func gpuCount(o *Object) string {
	if n := len(o.Instancetype.GPUs); n > 0 {
		return strconv.Itoa(n)
	}
	return ""
}

func trueOrEmpty(on bool) string {
	if on {
		return "true"
	}
	return ""
}

// switchText returns 'true' for a switch that is on. A switch that is off means the same as an absent one, so that neither needs a label.
func switchText(value *bool) string { return trueOrEmpty(ptr.Deref(value, false)) }

func textOrEmpty(value *string) string {
	if value == nil {
		return ""
	}
	return *value
}

// sameAmount compares quantities: '1Gi' and '1024Mi' are the same.
func sameAmount(label, spec string) bool {
	a, err := resource.ParseQuantity(label)
	b, wrong := resource.ParseQuantity(spec)
	return err == nil && wrong == nil && a.Cmp(b) == 0 || label == spec
}
