package workbench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/internal/workbench/crdschema"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/policy"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// GuestPolicies are an administrator's, as the configuration is. A policy that is tried out lies in a file, so that those of files are added to those of
// the cluster.

// GuestPolicies returns the policies that judge the inputs, by name: those among the inputs or in the cluster, and those of the files Policies, of which one
// replaces another of its name. Where the user may not list those of the cluster, a warning says so.
func (b *Bench) GuestPolicies(ctx context.Context, in manifest.Inputs) ([]*policy.Policy, []string, error) {
	if known := b.policies; known != nil {
		return *known, nil, nil
	}
	var list v1alpha1.GuestPolicyList
	var warnings []string
	err := in.Reader.List(ctx, &list)
	switch {
	case apierrors.IsForbidden(err):
		b.PoliciesForbidden = true
		warnings = b.unread("the cluster's GuestPolicies cannot be read, so only those of --policy judge: %v", err)
	case meta.IsNoMatchError(err): // the cluster has none
	case err != nil:
		return nil, nil, err
	}
	byName := map[string]*policy.Policy{}
	for i := range list.Items {
		// One that does not compile is judged by its failurePolicy, as in the webhook.
		byName[list.Items[i].Name], _ = policy.Compile(&list.Items[i])
	}
	own, err := b.policyFiles()
	if err != nil {
		return nil, warnings, err
	}
	for _, p := range own {
		byName[p.Name] = p
	}
	all := make([]*policy.Policy, 0, len(byName))
	for _, p := range byName {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *policy.Policy) int { return strings.Compare(a.Name, b.Name) })
	if in.OfCluster { // two files may have two sets
		b.policies = &all
	}
	return all, warnings, nil
}

// JudgedKinds are the kinds that policies judge.
var JudgedKinds = []string{v1.VirtualMachineGroupVersionKind.Kind, v1.VirtualMachineInstanceGroupVersionKind.Kind}

// WithPolicies returns a bench with the configuration of b, which judges the requests of a user only by these policies.
func (b *Bench) WithPolicies(user authenticationv1.UserInfo, policies ...*policy.Policy) *Bench {
	return &Bench{Config: b.Config, User: user, policies: &policies}
}

// ReviewForAudit reviews objects for what policies say of them: leniently, and without the hardware of earlier boots.
func (b *Bench) ReviewForAudit(ctx context.Context, in manifest.Inputs) (Review, error) {
	bench := *b
	bench.Strict, bench.unrecorded = false, true
	reviewed, err := bench.Review(ctx, in, nil)
	b.configuration = bench.configuration // read once for all calls
	return reviewed, err
}

// asker returns the account that policies see: the given one as an API server knows it, in the group of all that have authenticated. An account
// without a name stays without one, so that an expression that asks for it fails: whose request a file will be is not known.
func (b *Bench) asker() review.Asker {
	user := b.User
	if !slices.Contains(user.Groups, allAuthenticated) {
		user.Groups = append(slices.Clone(user.Groups), allAuthenticated)
	}
	return review.Asker{User: user}
}

// allAuthenticated is the group that an API server adds to each account, also to one of --as.
const allAuthenticated = "system:authenticated"

// policyFiles returns the GuestPolicies of the files Policies. Objects of other kinds, such as the tests of policies, are left out. The
// error has a line for each mistake for which an API server with Kiln would refuse a policy. Each begins with the flag --policy.
func (b *Bench) policyFiles() (all []*policy.Policy, err error) {
	seen := map[string]bool{}
	var wrong []error
	for _, name := range b.Policies {
		found, err := manifest.Files{Stdin: b.Stdin}.ReadNames([]string{name})
		if err != nil {
			return nil, fmt.Errorf("--policy: %w", err)
		}
		some := false
		for _, one := range found {
			if one.Fault != nil && !errors.Is(one.Fault, manifest.ErrKustomization) {
				return nil, fmt.Errorf("--policy: %w", one.Fault)
			}
			if one.Fault != nil || one.GroupVersionKind() != v1alpha1.GroupVersion.WithKind(v1alpha1.KindGuestPolicy) {
				continue
			}
			some = true
			compiled, mistakes, err := compilePolicy(one)
			switch {
			case err != nil:
				return nil, err
			case seen[one.GetName()]:
				wrong = append(wrong, fmt.Errorf("--policy: %s: two policies are named '%s'", one.File(), one.GetName()))
			}
			for _, mistake := range mistakes {
				wrong = append(wrong, fmt.Errorf("--policy: %s", located(one, mistake)))
			}
			seen[one.GetName()] = true
			all = append(all, compiled)
		}
		if !some {
			wrong = append(wrong, fmt.Errorf("--policy: no GuestPolicy in %s", name))
		}
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	return all, nil
}

// compilePolicy judges a policy by the schema of the kind, and compiles it. The policy is nil if it has mistakes.
func compilePolicy(one manifest.Object) (*policy.Policy, field.ErrorList, error) {
	found, err := crdschema.Check(one.Unstructured)
	if err != nil || len(found.Mistakes) > 0 {
		return nil, found.Mistakes, err
	}
	var typed v1alpha1.GuestPolicy
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(one.Object, &typed); err != nil {
		return nil, nil, err
	}
	compiled, mistakes := policy.Compile(&typed)
	if len(mistakes) > 0 {
		return nil, mistakes, nil
	}
	return compiled, nil, nil
}

// located returns a mistake with the line of the file that has it.
func located(o manifest.Object, mistake *field.Error) string {
	text := fmt.Sprintf("%s: %s", o.Name(), mistake)
	if at, found := o.Find(mistake.Field); found && at.Number > 0 {
		return fmt.Sprintf("%s:%d: %s", at.File, at.Number, text)
	}
	return text
}
