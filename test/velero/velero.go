// Package velero restores the objects of a namespace as Velero does, so that tests need neither Velero nor a store of backups.
package velero

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Account is Velero's account by default, and its entry in the list of accounts that may write revisions.
const Account = "system:serviceaccount:velero:velero"

// Velero's order: these resources first, by pkg/cmd/server/config of Velero 1.17, then all others by 'resource.group'. It creates each object without status,
// owner references, UID and other metadata of the API server, and with two labels (pkg/restore, resetMetadata and addRestoreLabels).
var first = []string{"namespaces", "persistentvolumes", "persistentvolumeclaims", "serviceaccounts", "secrets", "configmaps", "limitranges", "pods",
	"replicasets.apps", "endpoints", "services"}

// ofNamespaces are objects that each namespace has, and kinds that nobody restores.
var ofNamespaces = []string{"events", "events.events.k8s.io", "serviceaccounts/default", "configmaps/kube-root-ca.crt"}

// Kubectl runs kubectl in the namespace, and returns what it writes to its standard output.
type Kubectl func(args ...string) (string, error)

// Backup is a namespace as Velero stores it: objects by 'resource.group'.
type Backup map[string][]unstructured.Unstructured

// Save reads all objects of a namespace, of every kind that the API server can list.
func Save(kubectl Kubectl) (Backup, error) {
	names, err := kubectl("api-resources", "--namespaced", "--verbs=list", "-o", "name")
	if err != nil {
		return nil, err
	}
	all := Backup{}
	for resource := range strings.FieldsSeq(names) {
		text, err := kubectl("get", resource, "-o", "json")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", resource, err)
		}
		var list unstructured.UnstructuredList
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			return nil, fmt.Errorf("%s: %w", resource, err)
		}
		if len(list.Items) > 0 {
			all[resource] = list.Items
		}
	}
	return all, nil
}

// Manifest returns the objects in the order in which Velero creates them in a namespace, except objects of the resources in exclude: JSON documents for
// 'kubectl create'.
func (b Backup) Manifest(namespace string, exclude ...string) (string, error) {
	exclude = slices.Concat(ofNamespaces, exclude)
	rank := func(resource string) int {
		if at := slices.Index(first, resource); at >= 0 {
			return at
		}
		return len(first)
	}
	resources := slices.SortedFunc(maps.Keys(b), func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
	var out strings.Builder
	for _, resource := range resources {
		if slices.Contains(exclude, resource) {
			continue
		}
		for i := range b[resource] {
			object := b[resource][i].DeepCopy()
			if slices.Contains(exclude, resource+"/"+object.GetName()) {
				continue
			}
			reset(object, namespace)
			text, err := json.Marshal(object)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&out, "---\n%s\n", text)
		}
	}
	return out.String(), nil
}

// reset leaves of an object what Velero creates.
func reset(object *unstructured.Unstructured, namespace string) {
	for _, field := range []string{"generateName", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
		"deletionGracePeriodSeconds", "ownerReferences", "managedFields"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(object.Object, "status")
	object.SetNamespace(namespace)
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels["velero.io/backup-name"], labels["velero.io/restore-name"] = "nightly", "nightly-1"
	object.SetLabels(labels)
}

// Errors returns the lines of kubectl's standard error that are no warnings, which Velero does not show.
func Errors(stderr string) string {
	var errs []string
	for line := range strings.Lines(stderr) {
		if !strings.HasPrefix(line, "Warning: ") {
			errs = append(errs, line)
		}
	}
	return strings.Join(errs, "")
}
