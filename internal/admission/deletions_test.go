package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/internal/resolve"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// vmJSON is a VM with more metadata, more of its spec, and a status.
func vmJSON(namespace, name, metadata, spec, status string) string {
	return fmt.Sprintf("apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {namespace: %s, name: %s, %s}\nspec: {%s}\nstatus: {%s}\n",
		namespace, name, metadata, spec, status)
}

// takenFrom is a revision of an object in namespace team.
func takenFrom(name, kind, object string) string {
	return fmt.Sprintf("apiVersion: apps/v1\nkind: ControllerRevision\nmetadata: {namespace: team, name: %s}\ndata: {kind: %s, metadata: {name: %s}}\n",
		name, kind, object)
}

// pagedVMs returns VMs sorted and in pages, as an API server does. It waits before each page after the first.
type pagedVMs struct {
	client.Reader
	wait  time.Duration
	fails error
	pages int
}

func (p *pagedVMs) List(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	list, is := into.(*v1.VirtualMachineList)
	if !is {
		return p.Reader.List(ctx, into, options...)
	}
	if p.pages++; p.fails != nil {
		return p.fails
	}
	of := (&client.ListOptions{}).ApplyOptions(options)
	if of.Continue != "" && p.wait > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(p.wait):
		}
	}
	if err := p.Reader.List(ctx, list, client.InNamespace(of.Namespace)); err != nil {
		return err
	}
	slices.SortFunc(list.Items, func(a, b v1.VirtualMachine) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	begin := 0
	if of.Continue != "" {
		if _, err := fmt.Sscan(of.Continue, &begin); err != nil {
			return err
		}
	}
	list.Items = list.Items[begin:]
	if most := int(of.Limit); len(list.Items) > most {
		list.Items, list.Continue = list.Items[:most], fmt.Sprint(begin+most)
	}
	return nil
}

// deletionOf is the request of eve to delete an object. As for an object of a collection, it has no name.
func deletionOf(t *testing.T, document string) *admissionv1.AdmissionRequest {
	t.Helper()
	request := create(t, document)
	request.Operation, request.Name, request.Object, request.OldObject = admissionv1.Delete, "", request.OldObject, request.Object
	request.UserInfo.Username = "eve"
	if strings.Contains(request.Kind.Kind, "Cluster") || request.Kind.Kind == "GuestPolicy" {
		request.Namespace = ""
	}
	return request
}

// newDeletions is a cluster of which eve may list the VMs of some namespaces, and the number of questions about that.
func newDeletions(t *testing.T, namespaces string, documents ...string) (*cluster, *pagedVMs, *int) {
	t.Helper()
	c, asked := newCluster(t, documents...), 0
	vms := &pagedVMs{Reader: c.Reviewer.Resolver.Live}
	c.Reviewer.Resolver.Live = vms
	c.MayRead = func(_ context.Context, user authenticationv1.UserInfo, of resolve.Source) (bool, error) {
		asked++
		group, _, resource, namespace, name := of.Attributes()
		if user.Username == "" || of.Verb() != "list" || group != "kubevirt.io" || resource != "virtualmachines" || name != "" {
			t.Errorf("%s %s.%s '%s' is asked for '%s'", of.Verb(), resource, group, name, user.Username)
		}
		return namespaces == "all" || namespace != "" && slices.Contains(strings.Fields(namespaces), namespace), nil
	}
	return c, vms, &asked
}

const keptLabel = "labels: {kilnvm.io/keep-while-used: 'true'}"

// TestDeletionsOfUsedObjects: which VMs use what is deleted, and what becomes of them. With the label, the same deletion is refused.
func TestDeletionsOfUsedObjects(t *testing.T) {
	t.Parallel()
	const template, web = "template: {metadata: {labels: {app: web}}, spec: {domain: {devices: {}}}}", "labels: {app: web}"
	pins := func(text string) string { return "annotations: {kilnvm.io/pins: '" + text + "'}" }
	object := func(kind, metadata, spec string) string {
		group := "instancetype.kubevirt.io/v1beta1"
		if strings.Contains(kind, "Guest") {
			group = "kilnvm.io/v1alpha1"
		}
		return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: a, namespace: team, uid: u, %%s, %s}\nspec: {%s}\n", group, kind, metadata, spec)
	}
	const profiled = "selector: {matchLabels: {app: web}}, template: {spec: {domain: {cpu: {sockets: 2}}}}"
	clusterType, ownType := object("VirtualMachineClusterInstancetype", "", ""), object("VirtualMachineInstancetype", "", "")
	clusterPreference, ownProfile := object("VirtualMachineClusterPreference", "", ""), object("GuestProfile", "", profiled)
	tested := object("GuestPolicy", "", "validations: [{expression: 'true'}], matchConstraints: {objectSelector: {matchLabels: {app: web}}, "+
		"namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: team}}}")
	for _, test := range []struct {
		why, object string
		documents   []string
		// says are the warnings without the name of the object; empty if nothing uses it.
		says []string
	}{
		{"nothing", clusterType, nil, nil},
		{"other names", clusterType, []string{vmJSON("team", "x", "", "instancetype: {name: b}, preference: {name: a}", "")}, nil},
		{"the other kind of the name", clusterType,
			[]string{vmJSON("team", "x", "", "instancetype: {name: a, kind: virtualmachineinstancetypes}", "")}, nil},
		{"by name, without a revision", clusterType, []string{vmJSON("team", "x", "", "instancetype: {name: a}", "")},
			[]string{"1 VM: team/x", "1 VM without a revision cannot start; new VMs that name it cannot start"}},
		{"pinned, by each way", clusterType, []string{
			takenFrom("r", "VirtualMachineClusterInstancetype", "a"),
			vmJSON("team", "by-pin", pins(`{"instancetype":"r"}`), "instancetype: {inferFromVolume: disk}", ""),
			vmJSON("team", "by-status", "", "instancetype: {name: a}", "instancetypeRef: {controllerRevisionRef: {name: r}}"),
			vmJSON("team", "by-name", "", "instancetype: {name: a, kind: VirtualMachineClusterInstancetype, revisionName: unknown}", ""),
			vmJSON("other", "another-r", pins(`{"instancetype":"r"}`), "instancetype: {inferFromVolume: disk}", ""),
			vmJSON("team", "going", "deletionTimestamp: '2026-01-01T00:00:00Z'", "instancetype: {name: a}", ""),
		}, []string{"3 VMs: team/by-name, team/by-pin, team/by-status",
			"3 VMs keep their revision, and start and restart as before; new VMs that name it cannot start"}},
		{"the same name elsewhere", ownType, []string{
			vmJSON("team", "x", "", "instancetype: {name: a, kind: VirtualMachineInstancetype}", ""),
			vmJSON("other", "w", "", "instancetype: {name: a, kind: VirtualMachineInstancetype}", ""),
		}, []string{"1 VM: team/x", "1 VM without a revision cannot start"}},
		{"a preference", clusterPreference, []string{
			vmJSON("team", "x", pins(`{"instancetype":"i"}`), "preference: {name: a}", ""),
			vmJSON("other", "w", pins(`{"preference":"p"}`), "preference: {name: a}", ""),
		}, []string{"2 VMs: other/w, team/x", "1 VM keeps its revision, and starts and restarts as before; 1 VM without a revision cannot start"}},
		{"a profile", ownProfile, []string{
			takenFrom("r", "GuestProfile", "a"),
			vmJSON("team", "pinned", pins(`{"presets":[],"profiles":["r"]}`), "template: {}", ""),
			vmJSON("team", "extends", pins(`{"presets":[],"profiles":["s"],"bases":["r"]}`), template, ""),
			vmJSON("team", "older", pins(`{"presets":[],"profiles":[]}`), template, ""),
			vmJSON("team", "new", "", template, ""), vmJSON("team", "unselected", web, "template: {}", ""), vmJSON("other", "elsewhere", "", template, ""),
		}, []string{"3 VMs: team/extends, team/new, team/pinned",
			"2 VMs are pinned to the profile and keep its values; 1 VM without pins starts without its values; new VMs do not get them"}},
		{"a profile of the cluster", object("ClusterGuestProfile", "", profiled+", namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: team}}"),
			[]string{vmJSON("team", "x", "", template, ""), vmJSON("other", "w", "", template, "")},
			[]string{"1 VM: team/x", "1 VM without pins starts without its values"}},
		{"a policy", tested, []string{vmJSON("team", "x", web, "", ""), vmJSON("team", "w", "", template, ""), vmJSON("other", "z", web, "", "")},
			[]string{"1 VM: team/x", "the policy does not judge them any more"}},
	} {
		t.Run(test.why, func(t *testing.T) {
			t.Parallel()
			c, _, _ := newDeletions(t, "all", test.documents...)
			hook, request := c.Hooks()[ValidateDeletion], deletionOf(t, fmt.Sprintf(test.object, "labels: {}"))
			name := request.Kind.Kind + " 'a'"
			for _, dry := range []bool{false, true} {
				request.DryRun = &dry
				got := ask(t, hook, request)
				if !got.Allowed || len(got.Warnings) != len(test.says) {
					t.Fatalf("%+v %v", got.Result, got.Warnings)
				}
				if len(test.says) > 0 && (got.Warnings[0] != name+" is used by "+test.says[0] ||
					!strings.HasPrefix(got.Warnings[1], "after the deletion of "+name+": "+test.says[1])) {
					t.Errorf("warnings are %q", got.Warnings)
				}
			}
			got := ask(t, hook, deletionOf(t, fmt.Sprintf(test.object, keptLabel)))
			if got.Allowed != (len(test.says) == 0) {
				t.Fatalf("kept: allowed %t, %+v", got.Allowed, got.Result)
			}
			if got.Allowed {
				return
			}
			cause := got.Result.Details.Causes[0]
			if cause.Field != "metadata.labels[kilnvm.io/keep-while-used]" || !strings.Contains(cause.Message, name+" is used by "+test.says[0]) ||
				!strings.Contains(cause.Message, test.says[1]) || !strings.Contains(cause.Message, "remove this label") {
				t.Errorf("kept: %+v", cause)
			}
		})
	}
}

// TestNamesOfDeletionsByRights: the number counts all VMs. The names are those that the caller may list, from the first five namespaces.
func TestNamesOfDeletionsByRights(t *testing.T) {
	t.Parallel()
	var many []string
	for _, namespace := range []string{"a", "b", "c", "d", "e", "f"} {
		for i := range 3 {
			many = append(many, vmJSON(namespace, fmt.Sprint("n", i), "", "instancetype: {name: small}", ""))
		}
	}
	for _, test := range []struct {
		may, want string
		asked     int
	}{
		{"all", "18 VMs: a/n0, a/n1, a/n2, b/n0, b/n1 and 13 more", 1},
		{"b", "18 VMs: b/n0, b/n1, b/n2 and 15 more", 6},
		{"c e", "18 VMs: c/n0, c/n1, c/n2, e/n0, e/n1 and 13 more", 6},
		{"", "18 VMs", 6},
		{"f", "18 VMs", 6}, // the sixth
	} {
		c, _, asked := newDeletions(t, test.may, many...)
		got := ask(t, c.Hooks()[ValidateDeletion], deletionOf(t, catalog))
		if !got.Allowed || len(got.Warnings) != 2 || got.Warnings[0] != "VirtualMachineClusterInstancetype 'small' is used by "+test.want || *asked != test.asked {
			t.Errorf("'%s': %d questions, %q", test.may, *asked, got.Warnings)
		}
	}
}

// TestDeletionsWithUnknownUsers: only the label makes a refusal of it, and an answer takes about a second.
func TestDeletionsWithUnknownUsers(t *testing.T) {
	t.Parallel()
	kept := strings.Replace(catalog, "uid: u", "uid: u, "+keptLabel, 1)
	var many []string
	for i := range 120 {
		many = append(many, vmJSON("team", fmt.Sprintf("n%03d", i), "", "instancetype: {name: small}", ""))
	}
	for _, test := range []struct {
		why, warns, refuses string
		documents           []string
		prepare             func(*cluster, *pagedVMs)
	}{
		{"slow after a page", "is used by at least 50 VMs", "is used by at least 50 VMs", many, func(_ *cluster, vms *pagedVMs) { vms.wait = time.Minute }},
		{"quick", "is used by 120 VMs: team/n000,", "is used by 120 VMs", many, func(_ *cluster, vms *pagedVMs) {}},
		{"slow and unused", "could not be counted", "could not be counted in time", nil,
			func(_ *cluster, vms *pagedVMs) { vms.fails = context.DeadlineExceeded }},
		{"a right is missing", "could not be counted", "try again, or remove this label", nil,
			func(_ *cluster, vms *pagedVMs) { vms.fails = errors.New("forbidden") }},
		{"others are counted", "could not be counted", "could not be counted in time", many,
			func(c *cluster, _ *pagedVMs) { c.counting = newCounting(); c.counting.TryAcquire(mostCounting) }},
	} {
		t.Run(test.why, func(t *testing.T) {
			t.Parallel()
			c, vms, _ := newDeletions(t, "all", test.documents...)
			test.prepare(c, vms)
			hook, began := c.Hooks()[ValidateDeletion], time.Now()
			got := ask(t, hook, deletionOf(t, catalog))
			if took := time.Since(began); took > deletionTime+500*time.Millisecond {
				t.Errorf("it took %s", took)
			}
			if !got.Allowed || len(got.Warnings) == 0 || !strings.Contains(got.Warnings[0], test.warns) || strings.Contains(got.Warnings[0], "forbidden") {
				t.Errorf("%+v %q", got.Result, got.Warnings)
			}
			if got = ask(t, hook, deletionOf(t, kept)); got.Allowed || !strings.Contains(got.Result.Message, test.refuses) {
				t.Errorf("kept: %+v", got.Result)
			}
		})
	}
}

// TestDeletionsThatNobodyStops: the objects of a namespace that goes, objects without their owner, objects that are being deleted. The label can be removed.
func TestDeletionsThatNobodyStops(t *testing.T) {
	t.Parallel()
	own := "apiVersion: instancetype.kubevirt.io/v1beta1\nkind: VirtualMachineInstancetype\nmetadata: {name: a, namespace: team, " + keptLabel + "}\nspec: {}\n"
	user := vmJSON("team", "x", "", "instancetype: {name: a, kind: VirtualMachineInstancetype}", "")
	going := "apiVersion: v1\nkind: Namespace\nmetadata: {name: team, deletionTimestamp: '2026-01-01T00:00:00Z'}\n"
	for _, test := range []struct {
		why      string
		document []string
		change   func(*admissionv1.AdmissionRequest)
		allowed  bool
	}{
		{"somebody", []string{user}, func(*admissionv1.AdmissionRequest) {}, false},
		{"the namespace is going", []string{user, going}, func(*admissionv1.AdmissionRequest) {}, true},
		{"the controller of namespaces", []string{user}, func(r *admissionv1.AdmissionRequest) {
			r.UserInfo.Username = "system:serviceaccount:kube-system:namespace-controller"
		}, true},
		{"the garbage collector", []string{user}, func(r *admissionv1.AdmissionRequest) {
			r.UserInfo.Username = "system:serviceaccount:kube-system:generic-garbage-collector"
		}, true},
		{"a namesake of it", []string{user}, func(r *admissionv1.AdmissionRequest) {
			r.UserInfo.Username = "system:serviceaccount:team:generic-garbage-collector"
		}, false},
		{"once more", []string{user}, func(r *admissionv1.AdmissionRequest) {
			r.OldObject.Raw = []byte(strings.Replace(string(r.OldObject.Raw), `"name":"a"`, `"name":"a","deletionTimestamp":"2026-01-01T00:00:00Z"`, 1))
		}, true},
		{"the label goes", []string{user}, func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Update }, true},
	} {
		c, _, _ := newDeletions(t, "all", test.document...)
		request := deletionOf(t, own)
		test.change(request)
		if got := ask(t, c.Hooks()[ValidateDeletion], request); got.Allowed != test.allowed || len(got.Warnings) > 0 {
			t.Errorf("%s: allowed %t, %q, %+v", test.why, got.Allowed, got.Warnings, got.Result)
		}
	}
}

// TestHostileDeletions: names of any length, pins that cannot be read, and objects beyond the bounds.
func TestHostileDeletions(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 250)
	var many []string
	for i := range 5 {
		many = append(many, vmJSON("team", fmt.Sprint(long, i), "annotations: {kilnvm.io/pins: '{]'}", "instancetype: {name: "+long+"}", ""))
	}
	c, _, _ := newDeletions(t, "all", many...)
	got := ask(t, c.Hooks()[ValidateDeletion], deletionOf(t, strings.Replace(catalog, "small", long, 1)))
	if !got.Allowed || len(got.Warnings) != 2 || !strings.Contains(got.Warnings[0], "is used by 5 VMs") {
		t.Errorf("%+v %q", got.Result, got.Warnings)
	}
	for _, warning := range got.Warnings {
		if n := len([]rune(warning)); n > mostOfWarning || strings.ContainsAny(warning, "\n\x1b") {
			t.Errorf("%d characters: %q", n, warning)
		}
	}
	large := strings.Replace(catalog, "spec: {", "spec: {x: ["+strings.Repeat("{}, ", 70000)+"{}], ", 1)
	if got := ask(t, c.Hooks()[ValidateDeletion], deletionOf(t, large)); !got.Allowed || len(got.Warnings) != 1 ||
		!strings.Contains(got.Warnings[0], "could not be counted") {
		t.Errorf("beyond the bounds: %+v %q", got.Result, got.Warnings)
	}
	for why, object := range map[string]string{"no object": "", "no JSON": "{", "another type": `[1]`} {
		request := deletionOf(t, catalog)
		if request.OldObject.Raw = []byte(object); object == "" {
			request.OldObject.Raw = nil
		}
		if _, err := (deletions{&c.Server}).validateDeletion(t.Context(), request); err != nil {
			t.Errorf("%s: %v", why, err)
		}
	}
}
