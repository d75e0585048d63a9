package policyreport

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/policy"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// exceptedAnnotation returns the annotation of a VM of namespace 'shop'.
func (a *auditTest) exceptedAnnotation(name string) string {
	a.Helper()
	var vm v1.VirtualMachine
	if err := a.stored.Get(a.Context(), client.ObjectKey{Namespace: "shop", Name: name}, &vm); err != nil {
		a.Fatal(err)
	}
	return vm.Annotations[v1alpha1.AnnotationExcepted]
}

// TestExceptedVMs: the annotation of a VM names the exception that the VM needs, until it needs none. A text that a tenant wrote is replaced.
func TestExceptedVMs(t *testing.T) {
	forged := machine("shop", "forged", 4)
	forged.Annotations = map[string]string{v1alpha1.AnnotationExcepted: "for ever", "tenant": "text"}
	a := newAudit(t, machine("shop", "big", 4), machine("shop", "small", 1), forged)
	a.inForce = []*policy.Policy{compiled(t, "few", 2, v1alpha1.PolicyDeny)}
	a.approveException("big")
	a.round(0)
	const want = "GuestPolicy 'few' until 2001-09-09T01:56:40Z by GuestPolicyException 'shop/big'"
	a.same("excepted", a.exceptedAnnotation("big"), want)
	a.same("without a violation", a.exceptedAnnotation("small"), "")
	a.same("forged", a.exceptedAnnotation("forged"), "")
	a.same("the next round", strings.Join(a.round(interval), ", "), "")
	a.round(10 * time.Minute)
	a.same("ended", a.exceptedAnnotation("big"), "")
	var vm v1.VirtualMachine
	if err := a.stored.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "forged"}, &vm); err != nil || vm.Annotations["tenant"] != "text" {
		t.Error(err, vm.Annotations)
	}
}

// TestAnnotationThatCannotBeWritten: the report does not depend on the annotation. A refused write is not repeated; a server that does not answer is asked once
// in a round.
func TestAnnotationThatCannotBeWritten(t *testing.T) {
	resource := v1.Resource("virtualmachines")
	for name, c := range map[string]struct {
		answer      error
		first, next int
	}{
		"refused by a webhook":  {apierrors.NewForbidden(resource, "a", errors.New("a rule of others")), 2, 0},
		"edited meanwhile":      {apierrors.NewConflict(resource, "a", errors.New("newer")), 2, 2},
		"no answer":             {apierrors.NewTimeoutError("slow", 1), 1, 1},
		"deleted in this round": {apierrors.NewNotFound(resource, "a"), 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAudit(t, machine("shop", "a", 4), machine("shop", "b", 4))
			a.inForce = []*policy.Policy{compiled(t, "few", 2, v1alpha1.PolicyDeny)}
			a.approveException("a", "b")
			a.refusesVM = c.answer
			patches := func(later time.Duration) (count int) {
				for _, write := range a.round(later) {
					if write == "patch shop" {
						count++
					}
				}
				return count
			}
			if first, next := patches(0), patches(interval); first != c.first || next != c.next {
				t.Errorf("%d writes, and then %d", first, next)
			}
			if got := a.report("shop"); !strings.HasPrefix(got, "{0 0 0 0 2}") {
				t.Error(got)
			}
		})
	}
}

// TestBoundsOfAnnotations: the value is on one line and bounded, and one round annotates a bounded number of VMs.
func TestBoundsOfAnnotations(t *testing.T) {
	var result policy.Result
	for i := range 100 {
		for range 2 { // validations of one policy
			v := violates(fmt.Sprintf("policy-%02d", 99-i), v1alpha1.PolicyDeny)
			v.Exception, v.Until = "shop/big\n", &metav1.Time{Time: time.Unix(1e9, 0)}
			result.Violations = append(result.Violations, v)
		}
	}
	got := exceptionsOf(result)
	if len(got) > 1024 || strings.Contains(got, "\n") || strings.Count(got, "'policy-00'") != 1 || !strings.HasPrefix(got, "GuestPolicy 'policy-00'") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	var vms []client.Object
	var names []string
	for i := range mostAnnotated + 1 {
		names = append(names, fmt.Sprint("vm-", i))
		vms = append(vms, machine("shop", names[i], 4))
	}
	a := newAudit(t, vms...)
	a.inForce = []*policy.Policy{compiled(t, "few", 2, v1alpha1.PolicyDeny)}
	a.approveException(names...)
	if first, next := len(a.round(0)), len(a.round(interval)); first != mostAnnotated+2 || next != 1 { // and two reports
		t.Errorf("%d writes, and then %d", first, next)
	}
}
