package instancetype

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gowebpki/jcs"
	"k8s.io/apimachinery/pkg/api/equality"
	"kubevirt.io/api/instancetype/v1beta1"
)

// Snapshot is the content-addressed form of an instancetype or preference. All VMs of one namespace that use one content share a revision;
// KubeVirt writes one for each VM.
type Snapshot struct {
	// Name is '<name>-<26 base32 characters of SHA-256>', at most 253 characters.
	Name string
	// Data is canonical JSON (RFC 8785): an object with apiVersion, kind, metadata.name and spec.
	Data []byte
}

// digestLength is in base32 characters: 130 bits, which makes an equal digest of two contents infeasible, by chance or on purpose.
const digestLength = 26

// maxName is the limit of a Kubernetes object name (DNS-1123 subdomain).
const maxName = 253

const base32Letters = "abcdefghijklmnopqrstuvwxyz234567"

var base32Lower = base32.NewEncoding(base32Letters).WithPadding(base32.NoPadding)

// Take returns the snapshot of an untyped instancetype or preference. The digest covers apiVersion, kind, name and spec. Trap: the object must not pass through
// Go types, because a newer API module with one more field would hash old data differently. Take returns an error if apiVersion, kind or metadata.name is
// missing, or if the spec cannot be written as JSON.
func Take(object map[string]any) (Snapshot, error) {
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	if name == "" || object["apiVersion"] == nil || object["kind"] == nil {
		return Snapshot{}, errors.New("the object has no apiVersion, kind or metadata.name")
	}
	data, err := canonicalJSON(map[string]any{
		"apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": map[string]any{"name": name}, "spec": object["spec"]})
	if err != nil {
		return Snapshot{}, err
	}
	digest, err := digestOf(object, name)
	if err != nil {
		return Snapshot{}, err
	}
	return Snapshot{Name: revisionName(name, digest), Data: data}, nil
}

// digestOf returns the digest in a snapshot's name. It is not the digest of Snapshot.Data, where the name is in metadata instead of beside the spec. Names of
// existing revisions depend on this form.
func digestOf(object map[string]any, name string) (string, error) {
	data, err := canonicalJSON(map[string]any{
		"apiVersion": object["apiVersion"], "kind": object["kind"], "name": name, "spec": object["spec"]})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return base32Lower.EncodeToString(sum[:])[:digestLength], nil
}

// canonicalJSON returns JSON in the form of RFC 8785: sorted keys, one form for each number and string.
func canonicalJSON(value any) ([]byte, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return jcs.Transform(raw)
}

// revisionName returns the name of a revision. It cuts a long name to fit into maxName; the digest covers the whole name. It trims '-' and '.', because a
// DNS-1123 subdomain must not contain '.-'.
func revisionName(name, digest string) string {
	if limit := maxName - digestLength - 1; len(name) > limit {
		name = strings.TrimRight(name[:limit], "-.")
	}
	return name + "-" + digest
}

// Addressed reports whether a name has the form of a content-addressed revision. The names of KubeVirt's revisions end in a UID and a
// generation, which have dashes where a digest has none.
func Addressed(name string) bool {
	at := len(name) - digestLength - 1
	return at > 0 && name[at] == '-' && strings.Trim(name[at+1:], base32Letters) == ""
}

// Verify returns an error if data is not the content that belongs to the name of a revision: a user who may create ControllerRevisions could otherwise give a
// VM other hardware under a known name.
func Verify(name string, data []byte) error {
	var object map[string]any
	if err := json.Unmarshal(data, &object); err != nil {
		return fmt.Errorf("its data is not a JSON object: %w", err)
	}
	snapshot, err := Take(object)
	if err != nil {
		return err
	}
	if snapshot.Name != name {
		return fmt.Errorf("its content belongs to '%s'", snapshot.Name)
	}
	return nil
}

// storedObject is the part of a revision's data that is read, in Kiln's snapshots and in KubeVirt's revisions for single VMs.
type storedObject[Spec any] struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec Spec `json:"spec"`
}

// ReadInstancetype returns the instancetype in the data of a revision, which Kiln or KubeVirt may have written. It returns an error for other kinds, and for
// versions other than v1beta1. It does not verify the digest.
func ReadInstancetype(revision string, data []byte) (*Instancetype, error) {
	s, source, err := readRevision[v1beta1.VirtualMachineInstancetypeSpec](revision, data, Kinds.Both()...)
	if err != nil {
		return nil, err
	}
	return &Instancetype{Source: source, Spec: s.Spec}, nil
}

// ReadPreference is ReadInstancetype for a preference.
func ReadPreference(revision string, data []byte) (*Preference, error) {
	s, source, err := readRevision[v1beta1.VirtualMachinePreferenceSpec](revision, data, PreferenceKinds.Both()...)
	if err != nil {
		return nil, err
	}
	return &Preference{Source: source, Spec: s.Spec}, nil
}

func readRevision[Spec any](revision string, data []byte, kinds ...string) (storedObject[Spec], Source, error) {
	var s storedObject[Spec]
	if err := json.Unmarshal(data, &s); err != nil {
		return s, Source{}, fmt.Errorf("revision '%s': %w", revision, err)
	}
	if s.APIVersion != v1beta1.SchemeGroupVersion.String() || !slices.Contains(kinds, s.Kind) {
		return s, Source{}, fmt.Errorf("revision '%s' holds %s %s, want %s of %s", revision, s.APIVersion, s.Kind, strings.Join(kinds, " or "),
			v1beta1.SchemeGroupVersion)
	}
	return s, Source{Kind: s.Kind, Name: s.Metadata.Name, Revision: revision}, nil
}

// SameContent reports whether the data of two revisions is the same instancetype or the same preference: kind, name and spec are equal. The version of the API
// and empty fields may differ: KubeVirt's revisions have empty fields that Kiln's do not have. It is false if data cannot be read.
func SameContent(a, b []byte) bool {
	if kind, ok := kindOf(a); ok && slices.Contains(PreferenceKinds.Both(), kind) {
		return sameSpec[v1beta1.VirtualMachinePreferenceSpec](a, b)
	}
	return sameSpec[v1beta1.VirtualMachineInstancetypeSpec](a, b)
}

// SameVersion reports whether the data of two revisions has the same apiVersion.
func SameVersion(a, b []byte) bool {
	var one, other storedObject[struct{}]
	return json.Unmarshal(a, &one) == nil && json.Unmarshal(b, &other) == nil && one.APIVersion == other.APIVersion
}

func kindOf(data []byte) (string, bool) {
	var of storedObject[struct{}]
	err := json.Unmarshal(data, &of)
	return of.Kind, err == nil
}

func sameSpec[Spec any](a, b []byte) bool {
	var one, other storedObject[Spec]
	return json.Unmarshal(a, &one) == nil && json.Unmarshal(b, &other) == nil && one.Kind == other.Kind &&
		one.Metadata.Name == other.Metadata.Name && equality.Semantic.DeepEqual(one.Spec, other.Spec)
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
