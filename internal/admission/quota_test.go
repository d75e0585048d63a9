package admission

import (
	"fmt"
	"strings"
	"testing"
)

// ofKind is an object of a kind that tenants write, with this many bytes in one label or annotation.
func ofKind(kind, name string, bytes int) string {
	group, spec := "instancetype.kubevirt.io/v1beta1", "{}"
	switch kind {
	case "GuestProfile":
		group = "kilnvm.io/v1alpha1"
	case "VirtualMachineInstancePreset":
		group, spec = "kubevirt.io/v1", "{selector: {}, domain: {devices: {}, cpu: {cores: 1}}}"
	case "VirtualMachineInstancetype":
		spec = "{cpu: {guest: 1}, memory: {guest: 1Gi}}"
	}
	return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: %s, namespace: team, uid: %[3]s, annotations: {kilnvm.io/x: %s}}\nspec: %s\n",
		group, kind, name, strings.Repeat("x", bytes), spec)
}

// TestQuotas: a namespace gets so many objects of a kind, and so many bytes of them. What it has more of than that may become smaller, and may go.
func TestQuotas(t *testing.T) {
	t.Parallel()
	for kind, path := range map[string]string{
		"GuestProfile": ValidateProfile, "VirtualMachineInstancePreset": ValidatePreset,
		"VirtualMachineInstancetype": ValidateInstancetype, "VirtualMachinePreference": ValidatePreference,
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			most := quotas[kind]
			var many, large []string
			for i := range most.objects {
				many = append(many, ofKind(kind, fmt.Sprintf("n%d", i), 10))
			}
			const each = 200_000
			for i := range most.bytes / each {
				large = append(large, ofKind(kind, fmt.Sprintf("l%d", i), each))
			}
			for _, c := range []struct {
				why    string
				have   []string
				before string
				now    string
				want   string
			}{
				{"the last one", many[1:], "", many[0], ""},
				{"one more", many, "", ofKind(kind, "more", 10),
					fmt.Sprintf("would have %d objects in its %ss, at most %d are allowed", most.objects+1, kind, most.objects)},
				{"an update among as many", many, many[0], ofKind(kind, "n0", 20), ""},
				{"one of many bytes", large, "", ofKind(kind, "more", each), fmt.Sprintf(" bytes in its %ss, at most %d are allowed", kind, most.bytes)},
				{"one that grows", large, ofKind(kind, "l0", each), ofKind(kind, "l0", 2*each), fmt.Sprintf("at most %d are allowed", most.bytes)},
				{"one that shrinks among too many", append(large, large[0], ofKind(kind, "x", each)), ofKind(kind, "l0", each), ofKind(kind, "l0", 10), ""},
			} {
				server := newCluster(t, c.have...)
				request := create(t, c.now)
				if c.before != "" {
					request = update(t, c.before, c.now)
				}
				response := ask(t, server.Hooks()[path], request)
				if c.want == "" && !response.Allowed || c.want != "" && (response.Allowed || !strings.Contains(response.Result.Message, c.want)) {
					t.Errorf("%s: %+v, want '%s'", c.why, response.Result, c.want)
				}
				if c.want != "" && len(response.Result.Details.Causes) != 1 {
					t.Errorf("%s: %d causes, want one", c.why, len(response.Result.Details.Causes))
				}
				elsewhere := create(t, ofKind(kind, "more", 10))
				elsewhere.Namespace = "other"
				if response := ask(t, server.Hooks()[path], elsewhere); !response.Allowed {
					t.Errorf("%s: another namespace is refused: %+v", c.why, response.Result)
				}
			}
		})
	}
}

// TestQuotaOfRevisions: a VM whose pins would add a revision beyond the quota is refused, and one that shares revisions is admitted.
func TestQuotaOfRevisions(t *testing.T) {
	t.Parallel()
	var have []string
	for i := range ofRevisions.objects {
		have = append(have, fmt.Sprintf("apiVersion: apps/v1\nkind: ControllerRevision\nmetadata: {name: r%d, namespace: team}\nrevision: 0\ndata: {}\n", i))
	}
	server := newCluster(t, append(have, catalog)...)
	response := ask(t, server.Hooks()[MutateVM], create(t, sparse))
	if response.Allowed || !strings.Contains(response.Result.Message, "at most 2000 are allowed") || len(server.written) > 0 {
		t.Fatalf("%+v, %d revisions are written", response.Result, len(server.written))
	}
	server = newCluster(t, append(have[10:], catalog)...)
	if response := ask(t, server.Hooks()[MutateVM], create(t, sparse)); !response.Allowed || len(server.written) == 0 {
		t.Errorf("a namespace with room: %+v", response.Result)
	}
}
