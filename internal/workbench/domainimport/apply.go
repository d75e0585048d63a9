package domainimport

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Written is an object of an import in a cluster.
type Written struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Created is false if the object existed already and is equal.
	Created bool `json:"created"`
}

// String returns kind, namespace and name.
func (w Written) String() string { return w.Kind + " " + w.Namespace + "/" + w.Name }

// Conflict is why an object cannot be written.
type Conflict struct {
	Written
	Reason string `json:"reason"`
}

// fieldManager is the field manager of created objects, as of 'kubectl kiln create'.
const fieldManager = "kubectl-kiln"

// Apply creates the objects in a cluster, in their order. First it asks the API server in a dry run about all of them: if one is refused, or exists and is
// different, it returns the conflicts and writes nothing. Objects that exist and are equal stay, so that a second run completes an interrupted one. Checks
// and writes have two clients, because the API server repeats in both what it warns of. After an error, written has the objects before it.
func (i *Import) Apply(ctx context.Context, checks, writes client.Client) (written []Written, conflicts []Conflict, err error) {
	objects, err := i.Objects()
	if err != nil {
		return nil, nil, err
	}
	for _, object := range objects {
		one := Written{Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName()}
		exists, reason, err := check(ctx, checks, object)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", one, err)
		}
		one.Created = !exists
		written = append(written, one)
		if reason != "" {
			conflicts = append(conflicts, Conflict{one, reason})
		}
	}
	if len(conflicts) > 0 {
		return nil, conflicts, nil
	}
	for n, one := range written {
		if !one.Created {
			continue
		}
		if err := writes.Create(ctx, objects[n].DeepCopy(), client.FieldOwner(fieldManager)); err != nil {
			return written[:n], nil, fmt.Errorf("%s: %w; %d of %d objects are there: run the command again for the rest", one, err, n, len(written))
		}
	}
	return written, nil, nil
}

// check reports whether an object exists, and why it cannot be created or stay as it is; empty if it can.
func check(ctx context.Context, cluster client.Client, wanted *unstructured.Unstructured) (exists bool, reason string, err error) {
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(wanted.GroupVersionKind())
	err = cluster.Get(ctx, client.ObjectKeyFromObject(wanted), stored)
	switch {
	case apierrors.IsNotFound(err):
		err = cluster.Create(ctx, wanted.DeepCopy(), client.DryRunAll, client.FieldOwner(fieldManager))
		reason, err = refusalOf(err)
		return false, reason, err
	case err != nil:
		reason, err = refusalOf(err)
		return false, reason, err
	case stored.GetDeletionTimestamp() != nil:
		return true, "is being deleted: run the command again when it is gone", nil
	case wanted.GetKind() == "PersistentVolumeClaim":
		return true, whyOtherClaim(stored, wanted), nil
	}
	// The API server fills defaults into the answer of a dry run, as it did into the stored object.
	answer := stored.DeepCopy()
	if !replaceSpec(answer, wanted) {
		return true, "exists and has no spec", nil
	}
	if err := cluster.Update(ctx, answer, client.DryRunAll, client.FieldOwner(fieldManager)); err != nil {
		if reason, err = refusalOf(err); reason != "" {
			reason = "exists, and the object of the import cannot take its place: " + reason
		}
		return true, reason, err
	}
	return true, differenceText(differingLeaves(leavesIn("spec", stored.Object["spec"]), leavesIn("spec", answer.Object["spec"]))), nil
}

// replaceSpec gives an object the spec of another one. A GuestHardware keeps the seed of its guest, which Kiln's controller writes.
func replaceSpec(to, from *unstructured.Unstructured) bool {
	spec, given := from.DeepCopy().Object["spec"].(map[string]any)
	before, stored := to.Object["spec"].(map[string]any)
	if !given || !stored {
		return false
	}
	if identity, found := before["identity"]; found && to.GetKind() == "GuestHardware" {
		spec["identity"] = identity
	}
	to.Object["spec"] = spec
	return true
}

// whyOtherClaim says why an existing claim is not the claim of this import; empty if it is. An equal size means nothing: a claim that another program made may
// have the data of another VM, and the next step of an import is to fill it.
func whyOtherClaim(stored, wanted *unstructured.Unstructured) string {
	if paths := claimDifferences(stored, wanted); len(paths) > 0 {
		return differenceText(paths)
	}
	for _, entry := range stored.GetManagedFields() {
		if entry.Manager == fieldManager {
			return ""
		}
	}
	return "exists, and no import has made it: it may have other data. Name it with --map claim=DISK=" + stored.GetName() + " if the VM is to use it"
}

// claimDifferences returns the fields of a claim that are not as they should be. Others fill further fields of claims, and nobody may replace the spec of a
// claim.
func claimDifferences(stored, wanted *unstructured.Unstructured) (paths []string) {
	is, should := leavesIn("spec", stored.Object["spec"]), leavesIn("spec", wanted.Object["spec"])
	for _, path := range differingLeaves(is, should) {
		if _, given := should[path]; given && !sameQuantity(is[path], should[path]) {
			paths = append(paths, path)
		}
	}
	return paths
}

// sameQuantity reports whether two texts are one amount, such as 1Gi and 1024Mi.
func sameQuantity(a, b any) bool {
	x, err := resource.ParseQuantity(fmt.Sprint(a))
	if err != nil {
		return false
	}
	y, err := resource.ParseQuantity(fmt.Sprint(b))
	return err == nil && x.Cmp(y) == 0
}

// differenceText says which fields of an existing object are different; empty without any.
func differenceText(paths []string) string {
	if len(paths) == 0 {
		return ""
	}
	return "exists and is different: " + firstTexts(", ", paths) + "; choose another --name, or remove the object"
}

// refusalOf returns the message of the API server if it would refuse a request again, and otherwise the error.
func refusalOf(err error) (string, error) {
	if apierrors.IsConflict(err) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsNotFound(err) {
		return err.Error(), nil
	}
	return "", err
}
