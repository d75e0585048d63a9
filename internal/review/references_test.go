package review

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clone "kubevirt.io/api/clone/v1beta1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// These are manifests with references, in namespace team.
const (
	extending  = `{apiVersion: kilnvm.io/v1alpha1, kind: GuestProfile, metadata: {name: basa, namespace: team}, spec: {extends: [{REFERENCE}]}}`
	extendingC = `{apiVersion: kilnvm.io/v1alpha1, kind: ClusterGuestProfile, metadata: {name: all}, spec: {extends: [{REFERENCE}]}}`
	taking     = `{metadata: {name: s, namespace: team}, spec: {source: {apiGroup: kubevirt.io, REFERENCE}}}`
	bringing   = `{metadata: {name: r, namespace: team}, spec: {target: {apiGroup: kubevirt.io, kind: VirtualMachine, name: web}, REFERENCE}}`
	targeting  = `{metadata: {name: r, namespace: team}, spec: {target: {apiGroup: kubevirt.io, REFERENCE}, virtualMachineSnapshotName: before}}`
	copying    = `{metadata: {name: c, namespace: team}, spec: {source: {REFERENCE}, target: {apiGroup: kubevirt.io, kind: VirtualMachine, name: web-2}}}`
)

// referring is a reviewer of a cluster in which some of what is referred to exists.
func referring(t *testing.T) Reviewer {
	t.Helper()
	one := func(version, kind, name string) string {
		return "{apiVersion: " + version + ", kind: " + kind + ", metadata: {" + name + "}, spec: {template: {spec: {}}}}"
	}
	cached := reading(t,
		untyped(t, one("kilnvm.io/v1alpha1", "GuestProfile", "name: base, namespace: team")),
		untyped(t, one("kilnvm.io/v1alpha1", "GuestProfile", "name: basa, namespace: team")), // the one that extends
		untyped(t, one("kilnvm.io/v1alpha1", "GuestProfile", "name: secret, namespace: other")),
		untyped(t, one("kilnvm.io/v1alpha1", "ClusterGuestProfile", "name: hardened")),
		untyped(t, one("kubevirt.io/v1", "VirtualMachine", "name: web, namespace: team")),
		untyped(t, one("kubevirt.io/v1", "VirtualMachine", "name: secret, namespace: other")),
		untyped(t, one("snapshot.kubevirt.io/v1beta1", "VirtualMachineSnapshot", "name: before, namespace: team")))
	return Reviewer{Resolver: resolve.Resolver{Cached: cached}, Configuration: config.Default}
}

// judge reviews a manifest of references with one of them.
func judge(t *testing.T, r Reviewer, manifest, reference string, asker Asker) admit.Verdict {
	t.Helper()
	text := strings.Replace(manifest, "REFERENCE", reference, 1)
	switch manifest {
	case taking:
		return r.ReviewSnapshot(t.Context(), parsed[api.VirtualMachineSnapshot](t, text), asker)
	case bringing, targeting:
		return r.ReviewRestore(t.Context(), parsed[api.VirtualMachineRestore](t, text), asker)
	case copying:
		return r.ReviewClone(t.Context(), parsed[clone.VirtualMachineClone](t, text), asker)
	}
	raw, err := untyped(t, text).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	reviewed, err := r.ReviewProfile(t.Context(), raw, asker)
	if err != nil {
		t.Fatal(err)
	}
	return reviewed.Verdict
}

// references are mistakes of references, the message about each, and what the user of the request must be allowed to list.
var references = []struct {
	why, manifest, reference, want string
	lists                          []string
}{
	{"a base of nearly that name", extending, "name: bas", "spec.extends[0].name: GuestProfile 'bas' does not exist: until it does, new VMIs that the profile " +
		"selects are refused; did you mean 'base'?",
		[]string{"guestprofiles team", "clusterguestprofiles "}},
	{"the base is the cluster's", extending, "name: hardened", "refused; did you mean kind 'ClusterGuestProfile'?",
		[]string{"guestprofiles team", "clusterguestprofiles "}},
	{"the base is the namespace's", extending, "kind: ClusterGuestProfile, name: base", "refused; did you mean kind 'GuestProfile'?",
		[]string{"clusterguestprofiles ", "guestprofiles team"}},
	{"a base that no object can be", extending, "name: Base", "spec.extends[0].name: Invalid value: \"Base\": no object can have this name; " +
		"did you mean 'base'? A lowercase ",
		[]string{"guestprofiles team", "clusterguestprofiles "}},
	{"a kind in lower case", extending, "kind: clusterguestprofiles, name: hardened",
		`supported values: "GuestProfile", "ClusterGuestProfile"; did you mean 'ClusterGuestProfile'?`, nil},
	{"a base of another namespace", extending, "name: secret", "spec.extends[0].name: GuestProfile 'secret' does not exist",
		[]string{"guestprofiles team", "clusterguestprofiles "}},
	{"a base that is a namespace's, of the cluster", extendingC, "name: base",
		"are refused; GuestProfile 'base' exists, but a ClusterGuestProfile extends only ClusterGuestProfiles",
		[]string{"clusterguestprofiles ", "guestprofiles "}},
	{"a VM of nearly that name", taking, "kind: VirtualMachine, name: wep",
		"spec.source.name: VirtualMachine 'wep' does not exist: the snapshot waits for it until its failureDeadline; did you mean 'web'?",
		[]string{"virtualmachines team"}},
	{"a VM", taking, "kind: VirtualMachine, name: web", "", []string{"virtualmachines team"}},
	{"a VM of another namespace", taking, "kind: VirtualMachine, name: secret", "spec.source.name: VirtualMachine 'secret' does not exist",
		[]string{"virtualmachines team"}},
	{"a VM in upper case", taking, "kind: VirtualMachine, name: Web",
		"spec.source.name: Invalid value: \"Web\": no object can have this name; did you mean 'web'? A lowercase ",
		[]string{"virtualmachines team"}},
	{"a plural", taking, "kind: virtualmachines, name: web",
		`spec.source.kind: Unsupported value: "virtualmachines": supported values: "VirtualMachine"; did you mean 'VirtualMachine'?`, nil},
	{"a snapshot of nearly that name", bringing, "virtualMachineSnapshotName: befor",
		"spec.virtualMachineSnapshotName: VirtualMachineSnapshot 'befor' does not exist: the restore waits for it; did you mean 'before'?",
		[]string{"virtualmachines team", "virtualmachinesnapshots team"}},
	{"a snapshot in upper case", bringing, "virtualMachineSnapshotName: Before",
		"spec.virtualMachineSnapshotName: Invalid value: \"Before\": no object can have this name; did you mean 'before'? A lowercase ",
		[]string{"virtualmachinesnapshots team"}},
	{"a target of nearly the name of a VM", targeting, "kind: VirtualMachine, name: wep",
		"spec.target.name: VirtualMachine 'wep' does not exist: the restore makes it, as another VM; did you mean 'web'?",
		[]string{"virtualmachines team", "virtualmachinesnapshots team"}},
	{"a target that is new", targeting, "kind: VirtualMachine, name: database", "", []string{"virtualmachines team"}},
	{"a target of a kind in lower case", targeting, "kind: virtualmachine, name: web",
		`spec.target.kind: Unsupported value: "virtualmachine": supported values: "VirtualMachine"; did you mean 'VirtualMachine'?`, nil},
	{"a snapshot as VM", copying, "apiGroup: kubevirt.io, kind: VirtualMachine, name: before",
		"spec.source.name: VirtualMachine 'before' does not exist: the clone waits for it; did you mean kind 'VirtualMachineSnapshot'?",
		[]string{"virtualmachines team", "virtualmachinesnapshots team"}},
	{"a VM as snapshot", copying, "apiGroup: snapshot.kubevirt.io, kind: VirtualMachineSnapshot, name: web",
		"spec.source.name: VirtualMachineSnapshot 'web' does not exist: the clone waits for it; did you mean kind 'VirtualMachine'?",
		[]string{"virtualmachinesnapshots team", "virtualmachines team"}},
	{"a kind in lower case of another group", copying, "apiGroup: kubevirt.io, kind: virtualmachinesnapshot, name: before",
		`spec.source.apiGroup: Unsupported value: "kubevirt.io": supported values: "snapshot.kubevirt.io"`, nil},
}

// TestReferences: the message about a missing object names the object that was probably meant, only if the user may list it.
func TestReferences(t *testing.T) {
	t.Parallel()
	r := referring(t)
	for _, test := range references {
		var asked []string
		may := func(allowed bool, err error) Asker {
			asked = nil
			return Asker{MayRead: func(_ context.Context, s resolve.Source) (bool, error) {
				_, _, resource, namespace, name := s.Attributes()
				if s.Verb() != "list" || name != "" {
					t.Errorf("%s: asked to %s '%s'", test.why, s.Verb(), name)
				}
				if one := resource + " " + namespace; !slices.Contains(asked, one) {
					asked = append(asked, one)
				}
				return allowed, err
			}}
		}
		for _, asker := range []Asker{{}, may(true, nil)} {
			messages := verdictMessages(judge(t, r, test.manifest, test.reference, asker))
			if !strings.Contains(messages, test.want) || test.want == "" && messages != "" {
				t.Errorf("%s: '%s', want '%s'", test.why, messages, test.want)
			}
		}
		if test.lists != nil && test.want != "" && !slices.Equal(asked, test.lists) {
			t.Errorf("%s: asked for %q, want %q", test.why, asked, test.lists)
		}
		for _, asker := range []Asker{may(false, nil), may(true, errors.New("down"))} {
			verdict := judge(t, r, test.manifest, test.reference, asker)
			if messages := verdictMessages(verdict); test.lists != nil && (strings.Contains(messages, "did you mean") || strings.Contains(messages, "' exists")) {
				t.Errorf("%s: a user who may not list reads: %s", test.why, messages)
			}
			if ofVM := test.manifest != extending && test.manifest != extendingC; ofVM && len(verdict.Warnings) > 0 {
				t.Errorf("%s: a user who may not list learns what exists: %s", test.why, verdict.Warnings)
			}
		}
	}
}

// TestReferencesOfTheStored: a snapshot outlives its VM, and waits for nothing then.
func TestReferencesOfTheStored(t *testing.T) {
	t.Parallel()
	r := referring(t)
	r.Stored = true
	if messages := verdictMessages(judge(t, r, taking, "kind: VirtualMachine, name: wep", Asker{})); messages != "" {
		t.Error(messages)
	}
}

// verdictMessages returns errors and warnings, one on each line.
func verdictMessages(verdict admit.Verdict) string {
	return strings.TrimSpace(strings.Join(append([]string{texts(verdict.Errors)}, verdict.Warnings...), "\n"))
}

// paged answers lists in two pages, the first of them empty, and refuses to list whole objects.
type paged struct {
	client.Reader
	lists int
}

func (p *paged) List(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	p.lists++
	var wanted client.ListOptions
	wanted.ApplyOptions(options)
	list, metadata := into.(*metav1.PartialObjectMetadataList)
	if !metadata || wanted.Limit == 0 || wanted.Limit > 100 {
		return errors.New("a list of whole objects, or without a bound: a tenant has written megabytes")
	}
	if err := p.Reader.List(ctx, into, client.InNamespace(wanted.Namespace)); err != nil {
		return err
	}
	if wanted.Continue == "" {
		list.Items, list.Continue = nil, "more"
	}
	return nil
}

// TestNamesArePaged: names of VMs are read past the cache, page by page.
func TestNamesArePaged(t *testing.T) {
	t.Parallel()
	r := referring(t)
	live := &paged{Reader: r.Resolver.Cached}
	r.Resolver.Cached, r.Resolver.Live = nil, live
	messages := verdictMessages(judge(t, r, taking, "kind: VirtualMachine, name: wep", Asker{}))
	if !strings.Contains(messages, "did you mean 'web'?") || live.lists != 2 {
		t.Errorf("%d lists: %s", live.lists, messages)
	}
}
