package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ofKind is an object of a kind that tenants write, with this many bytes in one label or annotation.
func ofKind(kind, name string, bytes int) string {
	group, spec := "instancetype.kubevirt.io/v1beta1", "{}"
	switch kind {
	case "GuestProfile":
		group = "kilnvm.io/v1alpha1"
	case "GuestPolicyException":
		group = "kilnvm.io/v1alpha1"
		spec = `{policies: [{name: p}], virtualMachines: {names: [a]}, reason: a test, expires: "2099-01-01T00:00:00Z"}`
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
		"GuestPolicyException": ValidateException,
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

// counting answers a list of one object as an API server does that has as many objects in namespace team.
type counting struct {
	client.Reader
	objects int
	asked   []string
}

func (c *counting) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	var of client.ListOptions
	of.ApplyOptions(options)
	metadata, is := list.(*metav1.PartialObjectMetadataList)
	if !is || of.Limit != 1 {
		return errors.New("the whole list is asked for")
	}
	c.asked = append(c.asked, list.GetObjectKind().GroupVersionKind().String())
	if of.Namespace != "team" || c.objects == 0 {
		return nil
	}
	metadata.Items = make([]metav1.PartialObjectMetadata, 1)
	if rest := int64(c.objects - 1); rest > 0 {
		metadata.RemainingItemCount = &rest
	}
	return nil
}

// TestQuotasOfSnapshots: a namespace gets so many snapshots, restores and clones. What Kiln's controller makes for a clone, updates, and other namespaces are
// not concerned.
func TestQuotasOfSnapshots(t *testing.T) {
	t.Parallel()
	const snapshot = `
apiVersion: snapshot.kubevirt.io/v1beta1
kind: VirtualMachineSnapshot
metadata: {name: s, namespace: team}
spec: {source: {apiGroup: kubevirt.io, kind: VirtualMachine, name: web}}
`
	for _, c := range []struct{ kind, group, text, mutate, validate string }{
		{"VirtualMachineSnapshot", "snapshot.kubevirt.io", snapshot, "", ValidateSnapshot},
		{"VirtualMachineRestore", "snapshot.kubevirt.io", restoring, MutateRestore, ValidateRestore},
		{"VirtualMachineClone", "clone.kubevirt.io", cloning, MutateClone, ValidateClone},
	} {
		t.Run(c.kind, func(t *testing.T) {
			t.Parallel()
			server, most := newCluster(t), quotas[c.kind].objects
			have := &counting{}
			server.Reviewer.Resolver.Live = have
			hooks, noted := server.Hooks(), c.text
			if c.mutate != "" {
				request := create(t, c.text)
				noted = patched(t, request, ask(t, hooks[c.mutate], request))
			}
			for objects, want := range map[int]string{
				0: "", 1: "", most - 1: "",
				most: fmt.Sprintf("metadata.namespace: Forbidden: namespace 'team' would have %d objects in its %ss, at most %d are allowed: "+
					"delete those that nobody needs",
					most+1, c.kind, most),
				most + 5: fmt.Sprintf("at most %d are allowed", most),
			} {
				have.objects = objects
				response := ask(t, hooks[c.validate], create(t, noted))
				if response.Allowed != (want == "") || want != "" && !strings.Contains(response.Result.Message, want) {
					t.Errorf("beside %d: %+v, want '%s'", objects, response.Result, want)
				}
			}
			if last := have.asked[len(have.asked)-1]; last != fmt.Sprintf("%s/v1beta1, Kind=%sList", c.group, c.kind) {
				t.Errorf("a list of %s is asked for", last)
			}
			asked := len(have.asked)
			ours := create(t, c.text)
			ours.UserInfo.Username = "system:serviceaccount:machines:kiln-controller"
			for why, request := range map[string]*admissionv1.AdmissionRequest{"by the controller": ours, "an update": update(t, noted, noted)} {
				if response := ask(t, hooks[c.validate], request); !response.Allowed || len(have.asked) > asked {
					t.Errorf("%s: %+v, counted %d times", why, response.Result, len(have.asked)-asked)
				}
			}
			elsewhere := create(t, noted)
			elsewhere.Namespace = "other"
			if response := ask(t, hooks[c.validate], elsewhere); !response.Allowed {
				t.Errorf("another namespace is refused: %+v", response.Result)
			}
		})
	}
}

// TestQuotaOfRevisions: a VM whose pins would add a revision beyond the quota is refused, and one that shares revisions is admitted.
func TestQuotaOfRevisions(t *testing.T) {
	t.Parallel()
	var have []string
	for i := range revisionQuota.objects {
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
