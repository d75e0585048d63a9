package policyaudit

import (
	"context"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/policy"
)

// Say is what a policy says to a request.
type Say string

// What policies say.
const (
	SayNothing Say = "not judged"
	SayAllowed Say = "allowed"
	SayRefused Say = "refused"
	SayWarned  Say = "warned"
	SayAudited Say = "audited"
	// SayExcepted means that a GuestPolicyException permits what would be refused.
	SayExcepted Say = "excepted"
)

// Why is what the policies say about one VM or VMI.
type Why struct {
	Namespace string `json:"namespace"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	// Policies are in the order of their names.
	Policies []PolicyWhy `json:"policies"`
}

// PolicyWhy is what one policy says about an object.
type PolicyWhy struct {
	Policy string `json:"policy"`
	// Create is what it says to the creation of the object as it is.
	Create Say `json:"create"`
	// EditGuest is what it says to an edit that changes the VMI that boots and leaves what the policy reads, and EditRest to an edit that changes neither.
	EditGuest Say `json:"editGuest"`
	EditRest  Say `json:"editRest"`
	// Messages are the messages of violations and failures.
	Messages []string `json:"messages"`
	// Exceptions are the GuestPolicyExceptions by which the object may violate the policy, as NAMESPACE/NAME.
	Exceptions []string `json:"exceptions"`
}

// Explain returns what each policy says about the VMs, VMIs and objects with templates of them among the named objects. A VMI is not edited: it is only judged
// as it is created. A template is judged when it is created or changed, each time as a create.
func Explain(ctx context.Context, b *workbench.Bench, in manifest.Inputs) (all []Why, warnings []string, err error) {
	policies, warnings, err := b.GuestPolicies(ctx, in)
	if err != nil {
		return nil, warnings, err
	}
	kinds, err := b.JudgedKinds()
	if err != nil {
		return nil, warnings, err
	}
	in.Named = slices.DeleteFunc(slices.Clone(in.Named), func(o manifest.Object) bool {
		return o.Fault == nil && !slices.Contains(kinds, o.GroupVersionKind().GroupKind())
	})
	created, err := b.ReviewForAudit(ctx, in, false)
	if err != nil {
		return nil, warnings, err
	}
	edited, err := b.ReviewForAudit(ctx, in, true)
	if err != nil {
		return nil, warnings, err
	}
	for i, now := range created.Objects {
		if now.Fault != nil {
			return nil, warnings, now.Fault
		}
		why := Why{Namespace: now.GetNamespace(), Kind: now.GetKind(), Name: now.GetName(), Policies: []PolicyWhy{}}
		later := policy.Result{}
		if now.Guest != nil && now.Guest.VM != nil {
			later = edited.Objects[i].Policies
		}
		for _, p := range policies {
			answer := whyPolicy(p.Name, now.Policies, later)
			if now.Carrier {
				answer.EditGuest, answer.EditRest = answer.Create, SayNothing
			}
			why.Policies = append(why.Policies, answer)
		}
		all = append(all, why)
	}
	return all, warnings, nil
}

// whyPolicy returns what a policy says, of the results for a creation and for an update.
func whyPolicy(name string, created, edited policy.Result) PolicyWhy {
	why := PolicyWhy{Policy: name, Create: sayOf(name, created), EditGuest: sayOf(name, edited), Messages: []string{}, Exceptions: []string{}}
	if why.EditRest = why.EditGuest; why.EditRest == SayRefused {
		why.EditRest = SayWarned // the object violates the policy already
	}
	for _, result := range []policy.Result{created, edited} {
		for _, v := range result.Violations {
			if v.Policy == name && !slices.Contains(why.Messages, v.Message) {
				why.Messages = append(why.Messages, v.Message)
			}
			if v.Policy == name && v.Exception != "" && !slices.Contains(why.Exceptions, v.Exception) {
				why.Exceptions = append(why.Exceptions, v.Exception)
			}
		}
		for _, f := range result.Failures {
			if f.Policy == name && !slices.Contains(why.Messages, f.Message) {
				why.Messages = append(why.Messages, f.Message)
			}
		}
	}
	return why
}

// sayOf returns the strictest thing that a policy says.
func sayOf(name string, result policy.Result) Say {
	if !slices.Contains(result.Selected, name) {
		return SayNothing
	}
	say := SayAllowed
	stricter := func(than Say) {
		order := []Say{SayAllowed, SayAudited, SayWarned, SayExcepted, SayRefused}
		if slices.Index(order, than) > slices.Index(order, say) {
			say = than
		}
	}
	answers := map[v1alpha1.GuestPolicyAction]Say{v1alpha1.PolicyDeny: SayRefused, v1alpha1.PolicyWarn: SayWarned, v1alpha1.PolicyAudit: SayAudited}
	for _, v := range result.Violations {
		for _, action := range v.Actions {
			switch {
			case v.Policy != name:
			case v.Exception != "" && action == v1alpha1.PolicyDeny:
				stricter(SayExcepted)
			default:
				stricter(answers[action])
			}
		}
	}
	for _, f := range result.Failures {
		switch {
		case f.Policy != name:
		case f.Err != nil:
			stricter(SayRefused)
		default:
			stricter(SayWarned)
		}
	}
	return say
}
