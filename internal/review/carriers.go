package review

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/carrier"
	"github.com/kilnvm/kiln/pkg/policy"
	"github.com/kilnvm/kiln/pkg/validate"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Carrier is an object with templates of VMs or VMIs after its review.
type Carrier struct {
	admit.Verdict
	// Policies is the result of the GuestPolicies for all templates. The verdict contains its errors and warnings, too.
	Policies policy.Result
	// Guests are what would be made of the templates that were judged.
	Guests []carrier.Guest
}

// ReviewCarrier reviews the templates of an object as creates of what would be made of them, at their paths in the object. Only policies refuse: the owner of
// the kind judges the object itself, and mistakes by Kiln's rules are warnings, because they refuse each VM when it is made. Templates that an update does not
// change are not judged. An error means that there is no verdict.
func (r Reviewer) ReviewCarrier(ctx context.Context, of carrier.Object, asker Asker) (reviewed Carrier, err error) {
	guests, tooMany := of.Guests()
	if tooMany != nil {
		reviewed.Errors = field.ErrorList{tooMany}
		return reviewed, nil
	}
	policies, err := r.CurrentPolicies()
	if err != nil {
		return reviewed, err
	}
	before := of.OldGuests()
	for _, guest := range guests {
		if slices.ContainsFunc(before, guest.Same) {
			continue
		}
		c := carriedReview{Reviewer: r, of: of, guest: guest, asker: asker, policies: policies}
		if at := slices.IndexFunc(before, func(was carrier.Guest) bool { return was.Path == guest.Path && was.Mistake == nil }); at >= 0 {
			c.before = &before[at]
		}
		if err := c.review(ctx); err != nil {
			return reviewed, err
		}
		reviewed.Guests = append(reviewed.Guests, guest)
		reviewed.Warnings = append(reviewed.Warnings, c.warnings...)
		addResult(&reviewed.Policies, c.result)
	}
	if len(reviewed.Policies.Selected)+len(reviewed.Policies.Failures) > 0 {
		reviewed.Policies = r.addPolicyResult(&reviewed.Verdict, reviewed.Policies)
	}
	return reviewed, ctx.Err()
}

// carriedReview is the review of one template.
type carriedReview struct {
	Reviewer
	of    carrier.Object
	guest carrier.Guest
	// before is the template before an update; nil if there was none.
	before   *carrier.Guest
	asker    Asker
	policies []*policy.Policy

	warnings []string
	result   policy.Result
}

// review judges the template. Without policies that match, the result is empty.
func (c *carriedReview) review(ctx context.Context) error {
	if c.guest.Mistake != nil {
		c.warnings = []string{"nothing can be made of this template, and it is not judged: " + c.guest.Mistake.Error()}
		return nil
	}
	now, verdict, err := c.stageOne(ctx, c.guest)
	if err != nil {
		return err
	}
	c.addVerdict(verdict)
	if now == nil || len(c.policies) == 0 {
		return ctx.Err()
	}
	if c.result, err = evaluatePolicies(ctx, c.policies, now.request); err != nil {
		return err
	}
	if c.before != nil && len(c.result.Errors) > 0 {
		if err := c.forgiveOld(ctx, *now); err != nil {
			return err
		}
	}
	c.admitOpen()
	c.moveErrors()
	return nil
}

// carried is what policies read about a template, and what would boot.
type carried struct {
	request *policy.Request
	vm      *VM
	vmi     *v1.VirtualMachineInstance
}

// stageOne runs stage 1 on what would be made of a template. It returns nil if it is not known what would boot.
func (c *carriedReview) stageOne(ctx context.Context, guest carrier.Guest) (*carried, admit.Verdict, error) {
	if guest.VM != nil {
		reviewed, err := c.runVMStage1(ctx, c.newVMReview(guest.VM, nil, c.asker), c.asker)
		if err != nil {
			return nil, admit.Verdict{}, err
		}
		c.addRuntimeWarnings(&reviewed)
		reviewed.Errors = append(validate.EmbeddedMetadata(guest.Raw), reviewed.Errors...)
		request, err := c.vmRequest(ctx, &reviewed, c.asker)
		if err != nil {
			return nil, admit.Verdict{}, err
		}
		request.Carrier, request.Hardware = c.carrierOf(), nil // the record of a VM of this name is of another guest
		return &carried{request: request, vm: &reviewed}, reviewed.Verdict, nil
	}
	reviewed, err := c.runVMIStage1(ctx, guest.VMI, c.asker)
	if err != nil || !reviewed.Merged.Allowed() {
		return nil, reviewed.Verdict, err
	}
	request := &policy.Request{
		Operation: v1alpha1.PolicyCreate, Resource: v1alpha1.PolicyVirtualMachineInstances, Object: reviewed.Explicit, Guest: reviewed.Explicit,
		User: c.asker.User, DryRun: c.asker.DryRun, Params: c.params(ctx), Carrier: c.carrierOf(),
		Exceptions: c.Exceptions, Now: c.CurrentTime(),
	}
	err = c.addContext(ctx, request, reviewed.Resolved.Set)
	return &carried{request: request, vmi: reviewed.Explicit}, reviewed.Verdict, err
}

// carrierOf returns what policies read about the carrier.
func (c *carriedReview) carrierOf() *policy.Carrier {
	return &policy.Carrier{
		Kind:     metav1.GroupVersionKind{Group: c.of.Group, Version: c.of.Version, Kind: c.of.Kind.Kind},
		Resource: metav1.GroupVersionResource{Group: c.of.Group, Version: c.of.Version, Resource: c.of.Resource},
		Name:     c.of.Name(),
	}
}

// mostCarried bounds the mistakes of one template that are warnings.
const mostCarried = 5

// addVerdict adds the verdict of Kiln's rules as warnings.
func (c *carriedReview) addVerdict(verdict admit.Verdict) {
	seen := map[string]bool{}
	for _, err := range verdict.Errors {
		moved := *err
		moved.Field = c.guest.Below(err.Field)
		text := moved.Error()
		if seen[text] { // references and VMI are judged separately, and may have the same mistake
			continue
		}
		if len(seen) == mostCarried && !c.EachEffect {
			c.warnings = append(c.warnings, c.guest.Path+": more mistakes; 'kubectl kiln validate' lists them")
			break
		}
		seen[text] = true
		c.warnings = append(c.warnings, "what is made of this would be refused: "+text)
	}
	for _, warning := range verdict.Warnings {
		if strings.HasPrefix(warning, "spec.") || strings.HasPrefix(warning, "metadata.") {
			warning = c.guest.Below(warning)
		} else {
			warning = c.guest.Path + ": " + warning
		}
		c.warnings = append(c.warnings, warning)
	}
}

// forgiveOld forgives violations that the template had before, if the update does not change what would boot: see forgiveVMUpdate.
func (c *carriedReview) forgiveOld(ctx context.Context, now carried) error {
	before, _, err := c.stageOne(ctx, *c.before)
	if err != nil || before == nil || !before.keepsGuest(now) {
		return err
	}
	was, err := evaluatePolicies(ctx, c.policies, before.request)
	if err == nil {
		forgiveOldViolations(c.policies, judgement{before.request, was}, judgement{now.request, c.result}, &c.result)
	}
	return err
}

// keepsGuest reports whether an update does not change what would boot.
func (before carried) keepsGuest(now carried) bool {
	if before.vm != nil && now.vm != nil {
		return keepsGuest(before.vm, now.vm)
	}
	return before.vmi != nil && now.vmi != nil && equality.Semantic.DeepEqual(before.vmi.Spec, now.vmi.Spec) &&
		maps.Equal(before.vmi.Labels, now.vmi.Labels) && maps.Equal(writtenAnnotations(before.vmi), writtenAnnotations(now.vmi))
}

// admitOpen makes warnings of the errors about a template with open parameters: the user who makes a VM of it gives their values, and the VM is judged then.
func (c *carriedReview) admitOpen() {
	if len(c.guest.Open) == 0 {
		return
	}
	for _, err := range c.result.Errors {
		c.result.Warnings = append(c.result.Warnings, fmt.Sprintf("%s; admitted: parameter %s has no value", err.Detail, c.guest.Open[0]))
	}
	c.result.Errors = nil
}

// moveErrors gives the errors of the result their paths in the carrier. Violations, failures and Errors share them.
func (c *carriedReview) moveErrors() {
	moved := map[*field.Error]bool{nil: true}
	move := func(err *field.Error) {
		if !moved[err] {
			moved[err], err.Field = true, c.guest.Below(err.Field)
		}
	}
	for _, violation := range c.result.Violations {
		move(violation.Err)
	}
	for _, failure := range c.result.Failures {
		move(failure.Err)
	}
}

// addResult adds the result of the policies for one template to the results for others.
func addResult(all *policy.Result, one policy.Result) {
	all.Errors, all.Warnings = append(all.Errors, one.Errors...), append(all.Warnings, one.Warnings...)
	all.Violations, all.Failures = append(all.Violations, one.Violations...), append(all.Failures, one.Failures...)
	all.Cost += one.Cost
	for _, name := range one.Selected {
		if !slices.Contains(all.Selected, name) {
			all.Selected = append(all.Selected, name)
		}
	}
	for key, value := range one.Audit {
		if all.Audit == nil {
			all.Audit = map[string]string{}
		}
		if was, has := all.Audit[key]; has && (key == policy.ViolationsKey || key == policy.ExceptionsKey) {
			value = joinLists(was, value)
		} else if has {
			value = was
		}
		all.Audit[key] = value
	}
}

// joinLists returns a JSON list with the elements of two, at most as many as one template may have.
func joinLists(a, b string) string {
	var one, other []json.RawMessage
	if json.Unmarshal([]byte(a), &one) != nil || json.Unmarshal([]byte(b), &other) != nil {
		return a
	}
	one = append(one, other...)
	joined, err := json.Marshal(one[:min(len(one), policy.MostAudited)])
	if err != nil {
		return a
	}
	return string(joined)
}
