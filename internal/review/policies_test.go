package review

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/policy"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// inForce compiles policies, one of each text: 'NAME EXPRESSION', denied at spec.domain.cpu.
func inForce(t *testing.T, texts ...string) func() ([]*policy.Policy, error) {
	t.Helper()
	var all []*policy.Policy
	for _, text := range texts {
		name, expression, _ := strings.Cut(text, " ")
		of := &v1alpha1.GuestPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
		of.Spec.Validations = []v1alpha1.GuestPolicyValidation{{Expression: expression, Message: "broken " + name, Field: "spec.domain.cpu"}}
		if strings.HasPrefix(name, "warn") {
			of.Spec.ValidationActions = []v1alpha1.GuestPolicyAction{v1alpha1.PolicyWarn, v1alpha1.PolicyAudit}
		}
		if strings.Contains(expression, "object.spec.") { // a VMI has other fields
			of.Spec.MatchConstraints.Resources = []v1alpha1.GuestPolicyResource{v1alpha1.PolicyVirtualMachines}
		}
		compiled, mistakes := policy.Compile(of)
		if len(mistakes) > 0 {
			t.Fatalf("%s: %v", text, mistakes)
		}
		all = append(all, compiled)
	}
	return func() ([]*policy.Policy, error) { return all, nil }
}

const (
	fewCores   = "few guest == null || guest.spec.domain.cpu.cores <= 2"
	noBig      = "no-big instancetype == null || instancetype.metadata.name != 'big'"
	ofApproved = "approved instancetype != null && has(instancetype.metadata.labels) && 'approved' in instancetype.metadata.labels"
)

// policied returns a reviewer with policies over objects.
func policied(t *testing.T, policies func() ([]*policy.Policy, error), known ...*unstructured.Unstructured) Reviewer {
	t.Helper()
	cluster := config.Default().InstalledIn(config.Installation{Kiln: "machines"})
	return Reviewer{
		Resolver:      resolve.Resolver{Cached: reading(t, known...), Memo: resolve.NewMemo()},
		Configuration: func() config.Cluster { return cluster }, Policies: policies,
	}
}

// cpus is a VM of so many cores.
func cpus(t *testing.T, cores string) *v1.VirtualMachine {
	return parsed[v1.VirtualMachine](t, "metadata: {name: a, namespace: team}\nspec: {runStrategy: Always, template: {spec: {domain: {cpu: {cores: "+
		cores+"}, memory: {guest: 1Gi}, devices: {}}}}}\n")
}

// texts joins errors, one a line.
func texts(errs field.ErrorList) string {
	var all []string
	for _, err := range errs {
		all = append(all, err.Origin+" "+err.Error())
	}
	return strings.Join(all, "\n")
}

// TestPoliciesJudge: all violated policies and all violated rules are reported at once, with names; Warn and Audit refuse nothing.
func TestPoliciesJudge(t *testing.T) {
	r := policied(t, inForce(t, fewCores, "named object.metadata.name != 'a'", "warn-of object.metadata.name != 'a'"))
	vm := cpus(t, "4")
	vm.Spec.Template.Spec.Domain.Memory = nil // a mistake by the rules
	for name, review := range map[string]func() (VM, error){
		"ReviewVM":  func() (VM, error) { return r.ReviewVM(t.Context(), vm, nil, Asker{}) },
		"PrepareVM": func() (VM, error) { return r.PrepareVM(t.Context(), vm, nil, Asker{}) },
	} {
		reviewed, err := review()
		mistakes := texts(reviewed.Errors)
		for _, want := range []string{"spec.template.spec.domain.cpu", "GuestPolicy 'few': broken few", "GuestPolicy 'named': broken named", "memory"} {
			if err != nil || !strings.Contains(mistakes, want) {
				t.Errorf("%s says %s, %v; want '%s'", name, mistakes, err, want)
			}
		}
		if strings.Count(mistakes, policy.RuleDenied) != 2 || !strings.Contains(strings.Join(reviewed.Warnings, "\n"), "broken warn-of") ||
			!strings.Contains(reviewed.Audit[policy.ViolationsKey], "warn-of") {
			t.Errorf("%s says %s, warns %q, audit %v", name, mistakes, reviewed.Warnings, reviewed.Audit)
		}
	}
	// The mutating webhook leaves a VM that the rules allow to the validating one.
	if reviewed, err := r.PrepareVM(t.Context(), cpus(t, "4"), nil, Asker{}); err != nil || !reviewed.Allowed() || len(reviewed.Audit) > 0 {
		t.Errorf("%s, %v", texts(reviewed.Errors), err)
	}
	if reviewed, err := r.ReviewVM(t.Context(), cpus(t, "4"), nil, Asker{}); err != nil || reviewed.Allowed() {
		t.Errorf("a VM with four cores is allowed: %v", err)
	}
	r.Policies = func() ([]*policy.Policy, error) { return nil, errors.New("not read yet") }
	if _, err := r.ReviewVM(t.Context(), cpus(t, "4"), nil, Asker{}); err == nil {
		t.Error("a VM is judged before the policies are read")
	}
	if _, err := r.ReviewExplicitVMI(t.Context(), &v1.VirtualMachineInstance{}, Asker{}); err == nil {
		t.Error("a VMI is judged before the policies are read")
	}
}

// TestPoliciesReadTheRequest: the account, the namespace and dryRun.
func TestPoliciesReadTheRequest(t *testing.T) {
	labelled := untyped(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: team, labels: {tier: gold}}\n")
	asker := Asker{User: authenticationv1.UserInfo{Username: "ann", Groups: []string{"devs"}}, DryRun: true}
	for _, test := range []struct {
		expression string
		objects    []*unstructured.Unstructured
		allowed    bool
	}{
		{"request.userInfo.username == 'ann' && 'devs' in request.userInfo.groups && request.dryRun", nil, true},
		{"request.userInfo.username == 'bob'", nil, false},
		{"request.operation == 'CREATE' && request.namespace == 'team' && request.name == 'a'", nil, true},
		{"namespaceObject.metadata.labels['tier'] == 'gold'", []*unstructured.Unstructured{labelled}, true},
		{"namespaceObject.metadata.labels['kubernetes.io/metadata.name'] == 'team'", nil, true},
		{"oldObject == null && guest.spec.domain.machine.type == 'q35'", nil, true},
	} {
		reviewed, err := policied(t, inForce(t, "p "+test.expression), test.objects...).ReviewVM(t.Context(), cpus(t, "4"), nil, asker)
		if err != nil || reviewed.Allowed() != test.allowed {
			t.Errorf("%s: %s, %v", test.expression, texts(reviewed.Errors), err)
		}
	}
}

// TestPoliciesReadTheCatalog: labels of an instancetype are known in both webhooks, although the second one reads the revision.
func TestPoliciesReadTheCatalog(t *testing.T) {
	of := func(name, labels string) *unstructured.Unstructured {
		return untyped(t, "apiVersion: instancetype.kubevirt.io/v1beta1\nkind: VirtualMachineClusterInstancetype\n"+
			"metadata: {name: "+name+", labels: {"+labels+"}}\nspec: {cpu: {guest: 4}, memory: {guest: 1Gi}}\n")
	}
	with := func(name string) *v1.VirtualMachine {
		return parsed[v1.VirtualMachine](t, "metadata: {name: a, namespace: team}\nspec: {runStrategy: Halted, instancetype: {name: "+name+
			"}, template: {spec: {domain: {devices: {}}}}}\n")
	}
	good, big := of("good", "approved: fully"), of("big", "")
	known := []*unstructured.Unstructured{good, big, stored(t, good), stored(t, big)}
	for _, test := range []struct {
		name, policy string
		says         string
	}{
		{"good", ofApproved, ""},
		{"big", ofApproved, "broken approved"},
		{"big", noBig, "broken no-big"},
		{"absent", noBig, ""},
		{"absent", fewCores, ""},
		{"absent", "sees guest == null && instancetype == null", ""},
		{"big", "counts guest.spec.domain.cpu.sockets <= 2", "broken counts"},
	} {
		r := policied(t, inForce(t, test.policy), known...)
		first, err := r.PrepareVM(t.Context(), with(test.name), nil, Asker{})
		if err != nil || !first.Allowed() {
			t.Fatalf("%s: %s, %v", test.policy, texts(first.Errors), err)
		}
		pinned, _ := first.Stored()
		reviewed, err := r.ReviewVM(t.Context(), pinned, nil, Asker{})
		if err != nil || reviewed.Allowed() != (test.says == "") || !strings.Contains(texts(reviewed.Errors), test.says) {
			t.Errorf("%s %s: %s, %v; want '%s'", test.name, test.policy, texts(reviewed.Errors), err, test.says)
		}
	}
}

// TestPoliciesAndVMIs: a bare VMI is judged, and one that a controller creates for a VM is not. An owner that a tenant wrote helps nobody.
func TestPoliciesAndVMIs(t *testing.T) {
	controller := config.Default().InstalledIn(config.Installation{Kiln: "machines"}).Limits.Controllers[0]
	const owned = "ownerReferences: [{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: a, uid: u, controller: true}]"
	const replicas = "ownerReferences: [{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstanceReplicaSet, name: a, uid: u, controller: true}]"
	for _, test := range []struct{ why, by, owner, rules string }{
		{"a bare VMI", "tenant", "annotations: {}", policy.RuleDenied},
		{"a VMI of a VM", controller, owned, ""},
		{"a forged owner", "tenant", owned, "vmi/owner " + policy.RuleDenied},
		{"a bare VMI by a controller", controller, "annotations: {}", policy.RuleDenied},
		{"a VMI of something else", controller, replicas, policy.RuleDenied},
	} {
		vmi := parsed[v1.VirtualMachineInstance](t, "metadata: {name: a, namespace: team, "+test.owner+"}\n"+
			"spec: {domain: {cpu: {cores: 4}, memory: {guest: 1Gi}, devices: {}}}\n")
		r := policied(t, inForce(t, fewCores))
		asker := Asker{Name: test.by, User: authenticationv1.UserInfo{Username: test.by}}
		reviewed, err := r.ReviewVMI(t.Context(), vmi, asker)
		judged, again := r.ReviewExplicitVMI(t.Context(), reviewed.Explicit, asker)
		for _, errs := range []field.ErrorList{reviewed.Errors, judged.Errors} {
			var rules []string
			for _, e := range errs {
				rules = append(rules, e.Origin)
			}
			if strings.Join(rules, " ") != test.rules || err != nil || again != nil {
				t.Errorf("%s: %s, %v, %v", test.why, texts(errs), err, again)
			}
		}
		written, err := r.PrepareVMI(t.Context(), vmi, asker)
		if want := strings.HasPrefix(test.rules, "vmi/owner"); err != nil || strings.Contains(texts(written.Errors), policy.RuleDenied) != want {
			t.Errorf("%s: the mutating webhook says %s, %v", test.why, texts(written.Errors), err)
		}
	}
}

// TestInterruptedPoliciesGiveNoVerdict: a request that ends while policies are evaluated is neither allowed nor refused.
func TestInterruptedPoliciesGiveNoVerdict(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := policied(t, nil)
	policies := inForce(t, "slow object.metadata.name.size() > 0 && [1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, a+b+c > 0)))")
	r.Policies = func() ([]*policy.Policy, error) { cancel(); return policies() }
	if reviewed, err := r.ReviewVM(ctx, cpus(t, "1"), nil, Asker{}); err == nil {
		t.Errorf("a verdict on a VM: %s", texts(reviewed.Errors))
	}
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	if verdict, err := r.ReviewExplicitVMI(ctx, &v1.VirtualMachineInstance{}, Asker{}); err == nil {
		t.Errorf("a verdict on a VMI: %s", texts(verdict.Errors))
	}
}

// TestPoliciesEndWithinTheRequest: policies that take longer than the request are interrupted while there is time for an answer, which names the policy.
func TestPoliciesEndWithinTheRequest(t *testing.T) {
	const digits = "[0,1,2,3,4,5,6,7,8,9]"
	slow := "object.metadata.name != ''"
	for _, name := range []string{"a", "b", "c", "d"} {
		slow = digits + ".all(" + name + ", " + name + " >= 0 && " + slow + ")"
	}
	one, err := inForce(t, "slow "+slow)()
	if err != nil {
		t.Fatal(err)
	}
	// About 20 minutes of evaluation.
	r := policied(t, func() ([]*policy.Policy, error) { return slices.Repeat(one, 100_000), nil })
	const limit = 3 * time.Second // a fifth of it is left for the answer, also on a busy machine
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	_, err = r.ReviewVM(ctx, cpus(t, "1"), nil, Asker{})
	if err == nil || !strings.Contains(err.Error(), "in GuestPolicy 'slow'") || ctx.Err() != nil {
		t.Errorf("%v, %v: want an error with the name of a policy before the request ends", err, ctx.Err())
	}
}

// TestForgivenText: of a long message the end is left out, and not why the update is admitted.
func TestForgivenText(t *testing.T) {
	for violation, want := range map[string]string{
		"GuestPolicy 'a': small":  "GuestPolicy 'a': small; admitted: violated before",
		strings.Repeat("ü", 229):  strings.Repeat("ü", 229) + "; admitted: violated before",
		strings.Repeat("ü", 1000): strings.Repeat("ü", 228) + "…; admitted: violated before",
	} {
		if got := forgivenText(violation); got != want || utf8.RuneCountInString(got) > 256 {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
