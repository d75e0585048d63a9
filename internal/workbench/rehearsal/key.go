package rehearsal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/ownership"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/instancetype"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Thousands of VMs are made of a few instancetypes and preferences, and differ only in what no rule and no guest's hardware depends on. The key of a VM is a
// digest of everything that a rehearsal reads of it, with the content of what it refers to before and after the changes. VMs with one key have one result.
// A VM without a key is always judged by itself. TestSharing compares all results with the results of a run without keys.

// keyer makes keys of VMs.
type keyer struct {
	before, after client.Reader
	// exact means that policies judge VMs: their expressions may read everything of a VM and of its namespace.
	exact bool
	// labels means that profiles select namespaces by labels, and profiles that profiles of the cluster select VMIs by labels and annotations.
	labels, profiles bool
	// contents are the digests of objects, and namespaces the digests of namespaces.
	contents   map[string]string
	namespaces map[string]string
}

// errUnkeyed is the error of a VM whose result depends on objects that the key does not cover.
var errUnkeyed = errors.New("the VM has no key")

// keyOf returns the key of a VM; empty if the VM must be judged by itself.
func (k *keyer) keyOf(ctx context.Context, object manifest.Object) (string, error) {
	if object.Fault != nil {
		return "", nil
	}
	vm := &v1.VirtualMachine{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, vm) != nil {
		return "", nil
	}
	parts, err := k.referred(ctx, vm)
	if errors.Is(err, errUnkeyed) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	own, err := k.ownContent(object.Unstructured, vm)
	if err != nil {
		return "", err
	}
	parts["vm"] = own
	if k.profiles || parts["namespace"] != "" { // a selector may match a label whose value is the name of the VM
		raw, err := json.Marshal([]any{vm.Spec.Template.ObjectMeta.Labels, vm.Spec.Template.ObjectMeta.Annotations})
		if err != nil {
			return "", err
		}
		parts["selectable"] = string(raw)
	}
	if !k.exact {
		parts["hardware"] = withoutIdentity(own+"\n"+parts["hardware"], vm.Name)
		delete(parts, "vm")
	}
	raw, err := json.Marshal(parts)
	return digestOf(raw), err
}

func digestOf(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// referred returns the content of what a VM refers to, before and after the changes.
func (k *keyer) referred(ctx context.Context, vm *v1.VirtualMachine) (map[string]string, error) {
	parts := map[string]string{}
	written := pin.Parse(vm)
	if written.Malformed || vm.Spec.Template == nil {
		return nil, errUnkeyed
	}
	status := resolve.StatusPins(vm)
	named := map[string][]string{"status/i": {status.Instancetype}, "status/p": {status.Preference}}
	for key, entry := range map[string]pin.Entry{
		"i": written.Instancetype, "p": written.Preference, "presets": written.Presets, "profiles": written.Profiles, "c": written.Configuration,
	} {
		parts["given/"+key] = fmt.Sprint(entry.Given, entry.RepinRequested(), len(entry.Names), len(entry.Bases))
		for name := range entry.Each() {
			named[key] = append(named[key], name)
		}
	}
	if m := vm.Spec.Instancetype; m != nil {
		named["revision/i"] = []string{m.RevisionName}
		if err := k.addMatcher(ctx, parts, vm.Namespace, m.Kind, m.Name, m.InferFromVolume, instancetype.Kinds); err != nil {
			return nil, err
		}
	}
	if m := vm.Spec.Preference; m != nil {
		named["revision/p"] = []string{m.RevisionName}
		if err := k.addMatcher(ctx, parts, vm.Namespace, m.Kind, m.Name, m.InferFromVolume, instancetype.PreferenceKinds); err != nil {
			return nil, err
		}
	}
	for key, names := range named {
		for i, name := range names {
			found, err := k.revisionContent(ctx, vm.Namespace, name)
			if err != nil {
				return nil, err
			}
			parts[fmt.Sprintf("%s/%d", key, i)] = found
		}
	}
	for i := range vm.Spec.DataVolumeTemplates {
		if vm.Spec.DataVolumeTemplates[i].Spec.SourceRef != nil && vm.Spec.Template.Spec.Architecture == "" && vm.Annotations[v1alpha1.AnnotationArchitecture] == "" {
			return nil, errUnkeyed // a label of the image may name the architecture
		}
	}
	var err error
	if parts["namespace"], err = k.namespaceContent(ctx, vm.Namespace); err != nil {
		return nil, err
	}
	parts["hardware"], err = k.hardwareContent(ctx, vm)
	return parts, err
}

// addMatcher adds the object that a matcher names, before and after the changes.
func (k *keyer) addMatcher(ctx context.Context, parts map[string]string, namespace, kind, name, infers string, kinds instancetype.KindNames) error {
	if infers != "" {
		return errUnkeyed
	}
	kind = kinds.Canonical(kind)
	key := client.ObjectKey{Name: name}
	if kind == kinds.Namespaced {
		key.Namespace = namespace
	}
	if kind == "" || name == "" {
		return errUnkeyed
	}
	of := v1beta1.SchemeGroupVersion.WithKind(kind)
	was, err := k.objectContent(ctx, "before", k.before, of, key)
	if err != nil {
		return err
	}
	is, err := k.objectContent(ctx, "after", k.after, of, key)
	parts["matcher/"+kinds.Cluster] = key.String() + " " + was + " " + is
	return err
}

// objectContent returns the digest of an object without what a write changes by itself; empty if it does not exist.
func (k *keyer) objectContent(ctx context.Context, when string, reader client.Reader, of schema.GroupVersionKind, key client.ObjectKey) (string, error) {
	name := when + " " + of.Kind + " " + key.String()
	if known, found := k.contents[name]; found {
		return known, nil
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(of)
	err := reader.Get(ctx, key, object)
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		k.contents[name] = ""
		return "", nil
	case err != nil:
		return "", err
	}
	k.contents[name] = contentOf(object)
	return k.contents[name], nil
}

// contentOf returns the digest of an object without its identity and version.
func contentOf(object *unstructured.Unstructured) string {
	content := maps.Clone(object.Object)
	metadata, _ := content["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	for _, key := range []string{"uid", "resourceVersion", "generation", "managedFields", "creationTimestamp", "selfLink"} {
		delete(metadata, key)
	}
	content["metadata"] = metadata
	raw, err := json.Marshal(content)
	if err != nil {
		return object.GetResourceVersion() + " " + err.Error()
	}
	return digestOf(raw)
}

// revisionContent returns the digest of the data of a revision. It says whether the revision exists and has the digest of its name, because others are refused.
func (k *keyer) revisionContent(ctx context.Context, namespace, name string) (string, error) {
	if name == "" || name == v1alpha1.PinNone {
		return name, nil
	}
	key := "revision " + namespace + "/" + name
	if known, found := k.contents[key]; found {
		return known, nil
	}
	var stored appsv1.ControllerRevision
	err := k.before.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &stored)
	switch {
	case apierrors.IsNotFound(err):
		return "", errUnkeyed // an object of the same content may take its place, else the VM has no verdict
	case err != nil:
		return "", err
	case !instancetype.Addressed(name): // KubeVirt's: labels and owner say whether it can be trusted
		stored.ManagedFields, stored.ResourceVersion = nil, ""
		if len(stored.OwnerReferences) == 0 {
			return "", errUnkeyed
		}
		owner := stored.OwnerReferences[0]
		k.contents[key] = digestOf(stored.Data.Raw) + fmt.Sprint(owner.APIVersion, owner.Kind, owner.Controller != nil && *owner.Controller)
		return k.contents[key], nil
	case instancetype.Verify(name, stored.Data.Raw) != nil:
		return "", errUnkeyed
	}
	k.contents[key] = name + " " + digestOf(stored.Data.Raw)
	return k.contents[key], nil
}

// namespaceContent returns the digest of what a namespace adds to its VMs before and after the changes; empty if it adds nothing, so that VMs of several
// namespaces may have one key.
func (k *keyer) namespaceContent(ctx context.Context, namespace string) (string, error) {
	if known, found := k.namespaces[namespace]; found {
		return known, nil
	}
	var all []string
	for _, reader := range []client.Reader{k.before, k.after} {
		for _, kind := range []schema.GroupVersionKind{
			v1.VirtualMachineInstancePresetGroupVersionKind, v1alpha1.GroupVersion.WithKind(v1alpha1.KindGuestProfile),
			v1alpha1.GroupVersion.WithKind(v1alpha1.KindGuestPolicyException),
		} {
			found, err := listContents(ctx, reader, kind, namespace)
			if err != nil {
				return "", err
			}
			all = append(all, found...)
		}
	}
	if k.exact || k.labels {
		found, err := k.objectContent(ctx, "before", k.before, corev1.SchemeGroupVersion.WithKind("Namespace"), client.ObjectKey{Name: namespace})
		if err != nil && !apierrors.IsForbidden(err) {
			return "", err
		}
		all = append(all, found)
	}
	text := ""
	if len(all) > 0 {
		text = namespace + " " + digestOf([]byte(strings.Join(all, " ")))
	}
	k.namespaces[namespace] = text
	return text, nil
}

// listContents returns the sorted digests of the objects of a kind in a namespace, or in the cluster if it is empty.
func listContents(ctx context.Context, reader client.Reader, kind schema.GroupVersionKind, namespace string) (all []string, err error) {
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err = reader.List(ctx, &list, client.InNamespace(namespace))
	if meta.IsNoMatchError(err) || apierrors.IsForbidden(err) { // the review warns about it
		return nil, nil
	}
	for i := range list.Items {
		all = append(all, contentOf(&list.Items[i]))
	}
	slices.Sort(all)
	return all, err
}

// hardwareContent returns the recorded hardware with which a VM boots.
func (k *keyer) hardwareContent(ctx context.Context, vm *v1.VirtualMachine) (string, error) {
	hardware, err := ownership.ReadHardware(ctx, k.before, client.ObjectKeyFromObject(vm))
	if apierrors.IsForbidden(err) {
		return "", errUnkeyed
	}
	if err != nil || hardware == nil {
		return "", err
	}
	switch ownership.GuestOf(vm).Ownership(hardware) {
	case ownership.Absent, ownership.Stale:
		return "", nil
	case ownership.Foreign:
		return "", errUnkeyed
	}
	raw, err := json.Marshal(hardware.Spec.Hardware)
	return string(raw), err
}

// ownContent returns what a rehearsal reads of a VM itself. Without policies only the labels and annotations of KubeVirt and Kiln are read of its metadata.
func (k *keyer) ownContent(object *unstructured.Unstructured, vm *v1.VirtualMachine) (string, error) {
	content := map[string]any{"apiVersion": object.GetAPIVersion(), "spec": object.Object["spec"], "deleted": vm.DeletionTimestamp != nil}
	annotations := maps.Clone(vm.Annotations)
	identity := annotations[v1alpha1.AnnotationIdentity]
	delete(annotations, v1alpha1.AnnotationPins) // their content is in the key
	delete(annotations, v1alpha1.AnnotationIdentity)
	content["identified"] = identity != ""
	if k.exact {
		content["metadata"] = map[string]any{
			"name": vm.Name, "namespace": vm.Namespace, "uid": vm.UID, "labels": vm.Labels, "annotations": annotations, "identity": identity,
			"owners": vm.OwnerReferences, "finalizers": vm.Finalizers, "generation": vm.Generation, "pins": vm.Annotations[v1alpha1.AnnotationPins],
			"creationTimestamp": vm.CreationTimestamp,
		}
		content["status"] = object.Object["status"]
	} else {
		ofOthers := func(key, _ string) bool {
			return !strings.Contains(key, "kubevirt.io/") && !strings.Contains(key, v1alpha1.Prefix)
		}
		labels := maps.Clone(vm.Labels)
		maps.DeleteFunc(labels, ofOthers)
		maps.DeleteFunc(annotations, ofOthers)
		content["labels"], content["annotations"] = labels, annotations
		content["status"] = readStatus(vm)
		if !plainName.MatchString(vm.Name) {
			content["name"] = vm.Name
		}
	}
	raw, err := json.Marshal(content)
	return string(raw), err
}

// readStatus returns the fields of a status that rules read.
func readStatus(vm *v1.VirtualMachine) map[string]any {
	conditions := map[string]string{}
	for _, c := range vm.Status.Conditions {
		conditions[string(c.Type)] = string(c.Status)
	}
	return map[string]any{
		"created": vm.Status.Created, "volumeRequests": vm.Status.VolumeRequests, "restoring": vm.Status.RestoreInProgress != nil,
		"snapshot": vm.Status.SnapshotInProgress != nil, "awaitsRestart": conditions[string(v1.VirtualMachineRestartRequired)],
	}
}

var (
	// plainName matches names that every rule about names allows, also with the suffix of a disk.
	plainName = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)
	// address and identifier match MAC addresses of one interface and UUIDs, as Kiln and KubeVirt write them.
	address    = regexp.MustCompile(`\b[0-9a-f][02468ace](:[0-9a-f]{2}){5}\b`)
	identifier = regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`)
	digest     = regexp.MustCompile(`"digest":"sha256:[0-9a-f]{64}"`)
)

// mostNamed is the longest text in which the name of a VM is replaced. Kubernetes' limits of names begin at 63 characters.
const mostNamed = 60

// withoutIdentity replaces what identifies a guest and has no effect: MAC addresses and UUIDs by their order, so that equal ones stay equal, and the name of
// the VM in the names of its disks and claims.
func withoutIdentity(text, name string) string {
	text = digest.ReplaceAllString(text, `"digest":""`)
	for mark, pattern := range map[string]*regexp.Regexp{"mac": address, "uuid": identifier} {
		seen := map[string]string{}
		text = pattern.ReplaceAllStringFunc(text, func(found string) string {
			if seen[found] == "" {
				seen[found] = fmt.Sprintf("<%s %d>", mark, len(seen))
			}
			return seen[found]
		})
	}
	const shortest = 4 // a shorter name is also a part of other words
	if len(name) < shortest || !plainName.MatchString(name) || literals[name] {
		return text + "\n" + name
	}
	return withoutName(text, name)
}

// literals are names that are also values of JSON.
var literals = map[string]bool{"true": true, "false": true, "null": true}

// withoutName replaces a name in the strings of JSON texts, except in long ones.
func withoutName(text, name string) string {
	var out strings.Builder
	for {
		at := strings.Index(text, name)
		if at < 0 {
			out.WriteString(text)
			return out.String()
		}
		start, end := strings.LastIndexByte(text[:at], '"')+1, strings.IndexByte(text[at:], '"')
		if end < 0 {
			end = len(text) - at
		}
		quoted := text[start : at+end]
		out.WriteString(text[:start])
		if len(quoted) <= mostNamed && !strings.Contains(quoted, `\`) {
			quoted = strings.ReplaceAll(quoted, name, "<name>")
		}
		out.WriteString(quoted)
		text = text[at+end:]
	}
}
