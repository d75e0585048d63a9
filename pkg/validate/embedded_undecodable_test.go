package validate_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/kilnvm/kiln/pkg/validate"
	v1 "kubevirt.io/api/core/v1"
)

// TestFirstUndecodable: the value that the decoder does not read is found below structs, embedded structs, maps, lists and pointers, and no value beside it.
func TestFirstUndecodable(t *testing.T) {
	t.Parallel()
	const in = `{"metadata":{"name":"a","labels":{"a":"b"}},"spec":{"running":true,"template":{"spec":{`
	for _, c := range []struct {
		raw, path, value string
		quantity         bool
	}{
		{in + `"domain":{"cpu":{"cores":2},"memory":{"guest":"128MB"}}}}}}`, "spec.template.spec.domain.memory.guest", `"128MB"`, true},
		{in + `"domain":{"resources":{"requests":{"cpu":"1","memory":"1GB"}}}}}}}`, "spec.template.spec.domain.resources.requests[memory]", `"1GB"`, true},
		{in + `"volumes":[{"name":"a"},{"name":"b","emptyDisk":{"capacity":"1GB"}}]}}}}`, "spec.template.spec.volumes[1].emptyDisk.capacity", `"1GB"`, true},
		{in + `"domain":{"devices":{"disks":[{"name":"a"},{"name":1}]}}}}}}`, "spec.template.spec.domain.devices.disks[1].name", `1`, false},
		{in + `"domain":{"devices":{"disks":{}}}}}}}`, "spec.template.spec.domain.devices.disks", `{}`, false},
		{in + `"nodeSelector":{"a":"b","c":1}}}}}`, "spec.template.spec.nodeSelector[c]", `1`, false},
		{in + `"nodeSelector":[]}}}}`, "spec.template.spec.nodeSelector", `[]`, false},
		{`{"spec":{"running":"yes","template":{}}}`, "spec.running", `"yes"`, false},
		{`{"spec":5}`, "spec", `5`, false},
		{`{"metadata":{"name":"a","creationTimestamp":"soon"}}`, "metadata.creationTimestamp", `"soon"`, false},
		{`[]`, "<nil>", `[]`, false},
	} {
		err := json.Unmarshal([]byte(c.raw), &v1.VirtualMachine{})
		if err == nil {
			t.Fatalf("%s is read", c.raw)
		}
		got := validate.FirstUndecodable([]byte(c.raw), reflect.TypeFor[v1.VirtualMachine](), nil, err)
		if got.Path.String() != c.path || string(got.Raw) != c.value || got.IsQuantity() != c.quantity || got.Err == nil {
			t.Errorf("%s: %s: %s, a quantity: %t, %v", c.raw, got.Path, got.Raw, got.IsQuantity(), got.Err)
		}
	}
}

// TestNoQuantity: of an amount with a unit that Kubernetes does not have, what was probably meant is said.
func TestNoQuantity(t *testing.T) {
	t.Parallel()
	const none = "must be a quantity such as '500M' or '2Gi'"
	write := func(what string) string { return "must be a quantity: write " + what }
	for text, want := range map[string]string{
		"128MB": write("128M or 128Mi"), "128mb": write("128M or 128Mi"), "128Mb": write("128M or 128Mi"), "128 megabytes": write("128M or 128Mi"),
		"1KB": write("1k or 1Ki"), "1K": write("1k or 1Ki"), "1GB": write("1G or 1Gi"), "1g": write("1G or 1Gi"), "1,5g": write("1.5G or 1.5Gi"),
		"2 Gi": write("2Gi"), "2GiB": write("2Gi"), "2gib": write("2Gi"), "2gi": write("2Gi"), "3MiB": write("3Mi"), "1 TB": write("1T or 1Ti"),
		"4 Mebibytes": write("4Mi"), "64B": write("64"), "64 bytes": write("64"), "-1MB": write("-1M or -1Mi"),
		"many": none, "": none, "2 cores": none, "GB": none, "1..2GB": none, "2Gigs": none, "128MBMB": none,
	} {
		if got := validate.NoQuantity(text); got != want {
			t.Errorf("'%s': %s, want %s", text, got, want)
		}
	}
}
