// Package inuse finds the VMs that use an instancetype, a preference, a profile or a policy, for an answer to its deletion.
package inuse

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/policy"
	"github.com/kilnvm/kiln/pkg/profile"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Use is how a VM uses an object.
type Use int

const (
	// Unused means that the VM does not use the object.
	Unused Use = iota
	// Pinned means that the VM has a revision of the object, and starts without the object.
	Pinned
	// Unpinned means that the VM needs the object itself.
	Unpinned
)

// judge decides how a VM uses the object.
type judge func(context.Context, *v1.VirtualMachine) (Use, error)

// judgeOf returns the judge for an object, which raw contains as JSON. The object must be within validate.StoredCounts.
func judgeOf(ctx context.Context, resolver resolve.Resolver, object revision.Object, raw []byte) (judge, error) {
	namespaces := namespaceReader{resolver, map[string]*corev1.Namespace{}}
	if object.Kind == v1alpha1.KindGuestPolicy {
		return judgeOfPolicy(namespaces, raw)
	}
	taken, err := revision.TakenFrom(ctx, resolver.Cached, object)
	if err != nil {
		return nil, err
	}
	if slices.Contains(instancetype.CatalogKinds(), object.Kind) {
		return judgeOfCatalog(object, taken), nil
	}
	return judgeOfProfile(namespaces, raw, taken)
}

// judgeOfCatalog returns the judge for an instancetype or a preference. A VM uses it by name, or by a revision if a volume recommended it.
func judgeOfCatalog(object revision.Object, taken map[client.ObjectKey]bool) judge {
	return func(_ context.Context, vm *v1.VirtualMachine) (Use, error) {
		switch {
		case refersToOne(vm, taken):
			return Pinned, nil
		case !object.NamedIn(vm):
			return Unused, nil
		case revision.IsPinned(vm, object.Kind):
			return Pinned, nil
		}
		return Unpinned, nil
	}
}

// judgeOfProfile returns the judge for a profile. A VM that is pinned to profiles uses those, whatever selects it now. Another VM uses the profiles that
// select it.
func judgeOfProfile(namespaces namespaceReader, raw []byte, taken map[client.ObjectKey]bool) (judge, error) {
	var object unstructured.Unstructured
	if err := json.Unmarshal(raw, &object.Object); err != nil {
		return nil, fmt.Errorf("reading the profile: %w", err)
	}
	draft, err := revision.NewDraft("", &object)
	if err != nil {
		return nil, err
	}
	read, err := profile.Read(draft.Name, draft.Data)
	if err != nil {
		read = nil // no VM was pinned to it in this form, and a VM that it may select is refused
	}
	return func(ctx context.Context, vm *v1.VirtualMachine) (Use, error) {
		switch {
		case refersToOne(vm, taken):
			return Pinned, nil
		case read == nil || vm.Spec.Template == nil || pin.Read(vm).PinsProfiles():
			return Unused, nil
		}
		if read.NamespaceSelector != nil {
			of, err := namespaces.readNamespace(ctx, vm.Namespace)
			if err != nil || !read.InNamespace(of.Labels) {
				return Unused, err
			}
		}
		if !read.Selects(resolve.SelectableVMI(vm)) {
			return Unused, nil
		}
		return Unpinned, nil
	}, nil
}

// judgeOfPolicy returns the judge for a GuestPolicy. Nothing pins a VM to a policy.
func judgeOfPolicy(namespaces namespaceReader, raw []byte) (judge, error) {
	var object v1alpha1.GuestPolicy
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, fmt.Errorf("reading the GuestPolicy: %w", err)
	}
	selection, _ := policy.ReadSelection(&object) // a selector with mistakes selects all, as in a judgement
	return func(ctx context.Context, vm *v1.VirtualMachine) (Use, error) {
		of, err := namespaces.readNamespace(ctx, vm.Namespace)
		if err != nil || !selection.SelectsVM(vm, of) {
			return Unused, err
		}
		return Unpinned, nil
	}, nil
}

// refersToOne reports whether a VM refers to one of some revisions.
func refersToOne(vm *v1.VirtualMachine, taken map[client.ObjectKey]bool) bool {
	return len(taken) > 0 && slices.ContainsFunc(revision.ReferencedBy(vm), func(key client.ObjectKey) bool { return taken[key] })
}

// namespaceReader reads each namespace once.
type namespaceReader struct {
	resolver resolve.Resolver
	known    map[string]*corev1.Namespace
}

func (r namespaceReader) readNamespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	if found := r.known[name]; found != nil {
		return found, nil
	}
	found, err := r.resolver.Namespace(ctx, name)
	if err == nil {
		r.known[name] = found
	}
	return found, err
}
