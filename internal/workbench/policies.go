package workbench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/internal/workbench/crdschema"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/carrier"
	"github.com/kilnvm/kiln/pkg/policy"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/validation/spec"
	v1 "kubevirt.io/api/core/v1"
)

// Administrators write GuestPolicies, as they write the configuration. Policies of files are added to the policies of the cluster, so that an administrator
// can try a new policy.

// GuestPolicies returns the policies that judge the inputs, sorted by name: policies among the inputs or in the cluster, and policies in the files that
// b.Policies names. A policy of a file replaces a policy of its name. If the user may not list the policies of the cluster, GuestPolicies returns a warning.
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
		warnings = b.forbiddenWarning("the cluster's GuestPolicies cannot be read, so only the policies of --policy judge: %v", err)
	case meta.IsNoMatchError(err): // the cluster has no GuestPolicies
	case err != nil:
		return nil, nil, err
	}
	byName := map[string]*policy.Policy{}
	for i := range list.Items {
		// A policy that does not compile judges by its failurePolicy, as in the webhook.
		compiled, _, err := compileAmong(ctx, in, &list.Items[i])
		if err != nil {
			return nil, nil, err
		}
		byName[list.Items[i].Name] = compiled
	}
	own, err := b.policyFiles(ctx, in)
	if err != nil {
		return nil, warnings, err
	}
	b.tried = nil
	for _, p := range own {
		byName[p.Name] = p
		b.tried = append(b.tried, p.Name)
	}
	all := make([]*policy.Policy, 0, len(byName))
	for _, p := range byName {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *policy.Policy) int { return strings.Compare(a.Name, b.Name) })
	if in.OfCluster { // two files may have different policies
		b.policies = &all
	}
	return all, warnings, nil
}

// JudgedKinds returns the kinds whose objects policies judge: VMs, VMIs, and what has templates of them.
func (b *Bench) JudgedKinds() ([]schema.GroupKind, error) {
	kinds := []schema.GroupKind{v1.VirtualMachineGroupVersionKind.GroupKind(), v1.VirtualMachineInstanceGroupVersionKind.GroupKind()}
	more, err := carrier.ParseKinds(b.Carriers)
	if err != nil {
		return nil, fmt.Errorf("--carrier: %w", err)
	}
	for _, kind := range slices.Concat(carrier.Builtin, more) {
		kinds = append(kinds, kind.GroupKind)
	}
	return kinds, nil
}

// JudgedByPolicies reports whether policies judge objects of a kind that Kiln knows.
func JudgedByPolicies(kind schema.GroupKind) bool {
	return kind == v1.VirtualMachineGroupVersionKind.GroupKind() || kind == v1.VirtualMachineInstanceGroupVersionKind.GroupKind() || carrier.Find(kind, nil) != nil
}

// WithOldCarrier returns a bench that reviews objects with templates of VMs as updates of a stored object.
func (b *Bench) WithOldCarrier(old *unstructured.Unstructured) *Bench {
	other := *b
	other.oldCarrier = old
	return &other
}

// WithPolicies returns a bench with the configuration of b that judges the requests of a user only by these policies.
func (b *Bench) WithPolicies(user authenticationv1.UserInfo, policies ...*policy.Policy) *Bench {
	return &Bench{Config: b.Config, User: user, Now: b.Now, policies: &policies}
}

// ReviewForAudit reviews objects for an audit: as a create, or with updates each VM as an update that changes nothing of it. It is never strict, and does not
// read the hardware of earlier boots.
func (b *Bench) ReviewForAudit(ctx context.Context, in manifest.Inputs, updates bool) (Review, error) {
	bench := *b
	bench.Strict, bench.unrecorded, bench.updates = false, true, updates
	reviewed, err := bench.Review(ctx, in, nil)
	b.configuration = bench.configuration // the next call does not read it again
	return reviewed, err
}

// requestUser returns the account that policies see: the user, in the group to which an API server adds all authenticated users. If the user has no name,
// an expression that reads it fails, because it is not known who will create the object of a file.
func (b *Bench) requestUser() review.Asker {
	user := b.User
	if !slices.Contains(user.Groups, allAuthenticated) {
		user.Groups = append(slices.Clone(user.Groups), allAuthenticated)
	}
	return review.Asker{User: user}
}

// allAuthenticated is the group to which an API server adds each account, also the account of --as.
const allAuthenticated = "system:authenticated"

// policyFiles returns the GuestPolicies of the files Policies. It leaves out objects of other kinds, such as GuestPolicyTests. The
// error has a line for each mistake for which an API server with Kiln would refuse a policy. Each line begins with the flag --policy.
func (b *Bench) policyFiles(ctx context.Context, in manifest.Inputs) (all []*policy.Policy, err error) {
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
			compiled, mistakes, err := compilePolicy(ctx, in, one)
			switch {
			case err != nil:
				return nil, err
			case seen[one.GetName()]:
				wrong = append(wrong, fmt.Errorf("--policy: %s: two policies are named '%s'", one.File(), one.GetName()))
			}
			for _, mistake := range mistakes {
				wrong = append(wrong, fmt.Errorf("--policy: %s", mistakeWithLine(one, mistake)))
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

// compilePolicy checks a policy against the schema of its kind, and compiles it. It returns nil if the policy has mistakes.
func compilePolicy(ctx context.Context, in manifest.Inputs, one manifest.Object) (*policy.Policy, field.ErrorList, error) {
	found, err := crdschema.Check(one.Unstructured)
	if err != nil || len(found.Mistakes) > 0 {
		return nil, found.Mistakes, err
	}
	var typed v1alpha1.GuestPolicy
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(one.Object, &typed); err != nil {
		return nil, nil, err
	}
	compiled, mistakes, err := compileAmong(ctx, in, &typed)
	if err != nil || len(mistakes) > 0 {
		return nil, mistakes, err
	}
	return compiled, nil, nil
}

// compileAmong compiles a policy with the types that the definition of its params has, if it is among the objects of the inputs.
func compileAmong(ctx context.Context, in manifest.Inputs, of *v1alpha1.GuestPolicy) (*policy.Policy, field.ErrorList, error) {
	var params *spec.Schema
	if of.Spec.ParamKind != nil {
		found, err := definitionOf(ctx, in, *of.Spec.ParamKind)
		if err != nil {
			return nil, nil, err
		}
		params = found.schema
	}
	compiled, mistakes := policy.CompileTyped(of, params)
	return compiled, mistakes, nil
}

// mistakeWithLine returns a mistake as text, with its file and line if they are known.
func mistakeWithLine(o manifest.Object, mistake *field.Error) string {
	text := fmt.Sprintf("%s: %s", o.Name(), mistake)
	if at, found := o.Find(mistake.Field); found && at.Number > 0 {
		return fmt.Sprintf("%s:%d: %s", at.File, at.Number, text)
	}
	return text
}

// CompileWith compiles a policy with the types that the definition of its params has, if it is among these CustomResourceDefinitions.
func CompileWith(definitions []*unstructured.Unstructured, of *v1alpha1.GuestPolicy) (*policy.Policy, field.ErrorList, error) {
	return compileAmong(context.Background(), manifest.Inputs{Reader: objects.New(nil, definitions...)}, of)
}
