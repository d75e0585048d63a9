package cataloginstall

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/catalog"
	"github.com/kilnvm/kiln/pkg/instancetype"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pageOfCatalog limits the objects in one answer of the API server, because 10,000 instancetypes have 40 MB.
const pageOfCatalog = client.Limit(500)

// ReadState reads the cluster-wide instancetypes and preferences, the instancetypes and preferences of one namespace, and the VMs and VMIs that refer to
// them. It fails if the user may not list one of the kinds: otherwise objects in use would be removed.
func ReadState(ctx context.Context, cluster client.Reader, namespace string) (State, error) {
	s := State{Namespace: namespace, Objects: map[catalog.Key]*unstructured.Unstructured{}}
	for _, kind := range instancetype.CatalogKinds() {
		options := []client.ListOption{pageOfCatalog}
		if !manifest.ClusterKinds[kind] {
			options = append(options, client.InNamespace(namespace))
		}
		// An API server returns a token for the next page, and an empty one with the last.
		for next := ""; ; {
			var list unstructured.UnstructuredList
			list.SetGroupVersionKind(v1beta1.SchemeGroupVersion.WithKind(kind + "List"))
			if err := cluster.List(ctx, &list, append(options, client.Continue(next))...); err != nil {
				return s, fmt.Errorf("reading the kind %s: %w", kind, err)
			}
			for i := range list.Items {
				s.Objects[objectKey(&list.Items[i])] = &list.Items[i]
			}
			if next = list.GetContinue(); next == "" {
				break
			}
		}
	}
	users, err := revision.UsersOf(ctx, cluster)
	s.Users = users
	return s, err
}

// Check sends each change to the API server as a dry run. It returns a conflict for each change that the API server refuses: because another
// field manager owns a field, because of a webhook or policy, or because the user lacks a permission. It also returns a conflict for each field of another
// manager that the object would keep. An error means that a request failed for another reason.
func (p Plan) Check(ctx context.Context, cluster client.Client) (refused []Conflict, err error) {
	for _, action := range p.Actions {
		answer, err := p.writeAction(ctx, cluster, action, client.DryRunAll)
		switch {
		case err == nil && !p.Force && action.Change == Update:
			refused = append(refused, leftByOthers(action, answer)...)
		case err == nil:
		case refusedByServer(err):
			refused = append(refused, Conflict{action.Key, err.Error()})
		default:
			return nil, fmt.Errorf("%s: %w", action.Key, err)
		}
	}
	return refused, nil
}

// refusedByServer reports whether the API server would refuse a request again. 'Not found' means that the namespace does not exist.
func refusedByServer(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsNotFound(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// Run executes the actions, and calls done after each. It writes objects before it removes others: a user can move a VM from a removed object to a new
// one. Before it removes objects, it reads again which VMs use them.
func (p Plan) Run(ctx context.Context, cluster client.Client, done func(Action)) error {
	at := slices.IndexFunc(p.Actions, func(a Action) bool { return a.dropped })
	if at < 0 {
		at = len(p.Actions)
	}
	if err := p.writeAll(ctx, cluster, p.Actions[:at], done); err != nil || at == len(p.Actions) {
		return err
	}
	users, err := revision.UsersOf(ctx, cluster)
	if err != nil {
		return err
	}
	now := State{Users: users}
	var dropped []Action
	for _, action := range p.Actions[at:] {
		dropped = append(dropped, now.planDrop(action.live))
	}
	return p.writeAll(ctx, cluster, dropped, done)
}

// writeAll executes actions in their order and calls done after each. It stops at the first error, which names the object.
func (p Plan) writeAll(ctx context.Context, cluster client.Client, actions []Action, done func(Action)) error {
	for _, action := range actions {
		if _, err := p.writeAction(ctx, cluster, action); err != nil {
			return fmt.Errorf("%s: %w", action.Key, err)
		}
		done(action)
	}
	return nil
}

// writeOption is an option of each kind of write.
type writeOption interface {
	client.ApplyOption
	client.DeleteOption
	client.PatchOption
}

// writeAction executes an action, and returns the applied object from the answer of the API server. The API server refuses the write if the object has
// changed since it was read, because it may have another owner now.
func (p Plan) writeAction(
	ctx context.Context, cluster client.Client, action Action, options ...writeOption,
) (answer *unstructured.Unstructured, err error) {
	switch action.Change {
	case Unchanged:
		return nil, nil
	case Delete:
		precondition := client.Preconditions{UID: new(action.object.GetUID()), ResourceVersion: new(action.object.GetResourceVersion())}
		deletion := []client.DeleteOption{precondition}
		for _, option := range options {
			deletion = append(deletion, option)
		}
		// Not found: somebody else has already deleted it.
		return nil, client.IgnoreNotFound(cluster.Delete(ctx, action.object.DeepCopy(), deletion...))
	}
	if action.takesOver {
		if action, err = takeFields(ctx, cluster, action, options...); err != nil {
			return nil, err
		}
	}
	answer, err = p.applyObject(ctx, cluster, action.object, options...)
	if err != nil || !action.takesOver || len(options) > 0 || len(otherManagers(answer)) == 0 {
		return answer, err
	}
	// When an object is first applied, the API server adds the manager 'before-first-apply' for fields without a manager.
	action.live = answer
	if action, err = takeFields(ctx, cluster, action); err != nil {
		return nil, err
	}
	return p.applyObject(ctx, cluster, action.object)
}

// applyObject applies an object, and returns the answer.
func (p Plan) applyObject(
	ctx context.Context, cluster client.Client, wanted *unstructured.Unstructured, options ...writeOption,
) (*unstructured.Unstructured, error) {
	application := []client.ApplyOption{client.FieldOwner(FieldManager)}
	if p.Force {
		application = append(application, client.ForceOwnership)
	}
	for _, option := range options {
		application = append(application, option)
	}
	answer := wanted.DeepCopy() // the client overwrites the object with the answer, and both Check and Run use a plan
	return answer, cluster.Apply(ctx, client.ApplyConfigurationFromUnstructured(answer), application...)
}

// CheckInstalled returns nil if the catalog is installed, and otherwise an error that lists the installed catalogs.
func (i Installation) CheckInstalled(s State) error {
	names := s.InstalledCatalogs()
	if slices.Contains(names, i.Name) {
		return nil
	}
	installed := ""
	for _, name := range names {
		installed = cmp.Or(installed, ": installed are") + " '" + name + "'"
	}
	return fmt.Errorf("no catalog '%s' is installed in the cluster or in namespace '%s'%s", i.Name, s.Namespace, installed)
}
