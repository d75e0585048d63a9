package policyreport

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/policy"
	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// named is a VM of namespace 'shop'.
func named(name string) *v1.VirtualMachine {
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name)}}
	vm.SetGroupVersionKind(v1.VirtualMachineGroupVersionKind)
	return vm
}

// violates is a violation of a policy with an action.
func violates(name string, action v1alpha1.GuestPolicyAction) policy.Violation {
	return policy.Violation{Policy: name, Validation: 1, Message: "at most one socket", Actions: []v1alpha1.GuestPolicyAction{action},
		Err: field.Forbidden(field.NewPath("spec", "template"), "text")}
}

// TestResults: the kind of a result follows from the action, the exception and the failure, and a policy without a violation is counted only.
func TestResults(t *testing.T) {
	t.Parallel()
	until := metav1.NewTime(time.Date(2027, 3, 5, 18, 0, 0, 0, time.UTC))
	excepted := violates("deny", v1alpha1.PolicyDeny)
	excepted.Name, excepted.Param, excepted.Exception, excepted.Until = "sockets", "ConfigMap team/limits", "shop/big", &until
	found := newFindings("shop")
	found.addResults(named("a"), policy.Result{Selected: []string{"deny", "warn", "broken", "fine"},
		Violations: []policy.Violation{violates("deny", v1alpha1.PolicyDeny), violates("warn", v1alpha1.PolicyWarn)},
		Failures:   []policy.Failure{{Policy: "broken", Expression: "spec.validations[0].expression", Message: "no such key\nx"}}})
	found.addResults(named("b"), policy.Result{Selected: []string{"deny"}, Violations: []policy.Violation{excepted}})
	var got []string
	for _, one := range found.listResults() {
		got = append(got, fmt.Sprintf("%s %s %s %s/%s: %s %v", one.Result, one.Policy, one.Rule, one.Subjects[0].Kind, one.Subjects[0].Name,
			one.Description, one.Properties))
		if one.Scored != (one.Result == fail) || one.Source != "kiln" {
			t.Errorf("%+v", one)
		}
	}
	want := []string{
		"fail deny spec.validations[1] VirtualMachine/a: at most one socket map[field:spec.template]",
		"error broken spec.validations[0].expression VirtualMachine/a: no such key x map[]",
		"warn warn spec.validations[1] VirtualMachine/a: at most one socket map[field:spec.template]",
		"skip deny sockets VirtualMachine/b: at most one socket map[exception:shop/big field:spec.template param:ConfigMap team/limits until:2027-03-05T18:00:00Z]",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if sum := found.countAll(); sum != (openreports.ReportSummary{Pass: 1, Fail: 1, Warn: 1, Error: 1, Skip: 1}) || !found.until.Equal(until.Time) {
		t.Errorf("%+v, until %s", sum, found.until)
	}
}

// TestBoundsOfAReport: 10,000 violations of one policy and the most hostile names and messages make a report that the API server stores, that counts all,
// and that lists each policy.
func TestBoundsOfAReport(t *testing.T) {
	t.Parallel()
	found := newFindings("shop")
	hostile := violates(strings.Repeat("p", 253), v1alpha1.PolicyDeny)
	hostile.Message = strings.Repeat("<\x00\u2028", 5000)
	hostile.Err.Field = strings.Repeat("[<]", 5000)
	hostile.Param, hostile.Exception = "ConfigMap "+strings.Repeat("n", 63)+"/"+strings.Repeat("c", 253), strings.Repeat("e", 317)
	end := metav1.NewTime(time.Now())
	hostile.Until = &end
	for i := range 10000 {
		found.addResults(named(fmt.Sprintf("%0253d", i)), policy.Result{Violations: []policy.Violation{hostile}})
	}
	for i := range 30 { // later, and not hidden
		found.addResults(named(fmt.Sprint("z", i)), policy.Result{Violations: []policy.Violation{violates("rare", v1alpha1.PolicyWarn)}})
	}
	listed, by := found.listResults(), map[string]int{}
	for _, one := range listed {
		by[one.Policy]++
	}
	text, err := json.Marshal(&openreports.Report{Results: listed})
	if err != nil || len(text) > 1<<20+1<<17 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if len(listed) != mostResults || by["rare"] != 30 || by[hostile.Policy] != mostResults-30 {
		t.Errorf("%d are listed, %d of them rare", len(listed), by["rare"])
	}
	if sum := found.countAll(); sum.Skip != 10000 || sum.Warn != 30 {
		t.Errorf("the summary is %+v", sum)
	}
	omitted := map[string]int{}
	for _, one := range listed {
		if one.Properties[propertyOmitted] != "" {
			omitted[one.Policy+one.Properties[propertyOmitted]]++
		}
	}
	if want := hostile.Policy + fmt.Sprint(10000-mostResults+30); len(omitted) != 1 || omitted[want] != 1 {
		t.Errorf("omitted: %v", omitted)
	}
	if strings.ContainsAny(listed[0].Description, "\x00\n") {
		t.Errorf("a message is %q", listed[0].Description)
	}
}

// TestManyGroups: of more groups than a report lists, some have one result, and no insertion costs more than a look at the groups.
func TestManyGroups(t *testing.T) {
	t.Parallel()
	found := newFindings("shop")
	for vm := range 20 {
		for i := range 2 * mostResults {
			found.addResults(named(fmt.Sprint("vm", vm)), policy.Result{Violations: []policy.Violation{violates(fmt.Sprintf("p%04d", i), v1alpha1.PolicyDeny)}})
		}
	}
	listed, policies := found.listResults(), map[string]bool{}
	for _, one := range listed {
		policies[one.Policy] = true
	}
	if len(listed) != mostResults || len(policies) != mostResults || found.countAll().Fail != 40*mostResults {
		t.Errorf("%d results of %d policies, %+v", len(listed), len(policies), found.countAll())
	}
}
