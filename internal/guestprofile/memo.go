package guestprofile

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/profile"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/lru"
)

// memo caches parsed profiles and verdicts, so that after an edit only the edited profile and the profiles that extend it are judged, and not all profiles of
// the namespace.
type memo struct {
	// parsed are the last read generations of profiles, by UID. verdicts are conditions by the digest of their keyOf.
	parsed, verdicts *lru.Cache
	// judgedBy is the configuration of the verdicts.
	judgedBy config.Cluster
}

const (
	// mostParsed is the number of parsed profiles: enough for one namespace with as many profiles as admission allows, and for some others.
	mostParsed = 512
	// mostVerdicts is the number of cached conditions. A condition whose message has more than mostRemembered bytes is not cached: messages quote names and
	// values that tenants write, and each edit could add a message of 32 KiB.
	mostVerdicts, mostRemembered = 8192, 512
)

// parsed is one generation of a profile with one common CPU: the profile, or the mistakes for which it cannot be read.
type parsed struct {
	generation int64
	// cpu is the profile.CommonCPUKey, commonCPU the spec.commonCPU.
	cpu       string
	commonCPU *v1alpha1.CommonCPU
	profile   *profile.Profile
	mistakes  field.ErrorList
}

// readProfile returns a profile without its new status.
func (m *memo) readProfile(kind string, from *unstructured.Unstructured) (*judged, error) {
	one := &judged{kind: kind, object: &v1alpha1.GuestProfile{}}
	if kind == v1alpha1.KindClusterGuestProfile {
		one.object = &v1alpha1.ClusterGuestProfile{}
	}
	// The typed object is only for metadata and status. It does not matter that it has no spec, because only the status is patched.
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{
		"apiVersion": from.GetAPIVersion(), "kind": kind, "metadata": from.Object["metadata"], "status": from.Object["status"],
	}, one.object); err != nil {
		return nil, fmt.Errorf("reading %s '%s': %w", kind, from.GetName(), err)
	}
	if m.parsed == nil {
		m.parsed, m.verdicts = lru.New(mostParsed), lru.New(mostVerdicts)
	}
	uid, generation, cpu := one.object.GetUID(), one.object.GetGeneration(), profile.CommonCPUKey(from.Object)
	if known, found := m.parsed.Get(uid); uid != "" && found && known.(parsed).generation == generation && known.(parsed).cpu == cpu {
		one.parsed = known.(parsed)
		return one, nil
	}
	raw, err := json.Marshal(profile.WithCommonCPU(from.Object))
	if err != nil {
		return nil, err
	}
	one.generation, one.cpu = generation, cpu
	if cpu != "" {
		one.commonCPU = readCommonCPU(from)
	}
	one.profile, one.mistakes = profile.Check("", raw)
	if uid != "" { // tests have objects without
		m.parsed.Add(uid, one.parsed)
	}
	return one, nil
}

// readCommonCPU returns spec.commonCPU of a profile. It is empty if it cannot be read, because the profile has mistakes then.
func readCommonCPU(from *unstructured.Unstructured) *v1alpha1.CommonCPU {
	read := &v1alpha1.CommonCPU{}
	if given, found, err := unstructured.NestedMap(from.Object, "spec", "commonCPU"); found && err == nil {
		_ = runtime.DefaultUnstructuredConverter.FromUnstructured(given, read)
	}
	return read
}

// contentKey returns a key for the content of a profile. ok is false for an object without a UID, as in tests.
func (j *judged) contentKey() (key string, ok bool) {
	return fmt.Sprintf("%s/%d/%s", j.object.GetUID(), j.object.GetGeneration(), j.cpu), j.object.GetUID() != ""
}

// acceptedCondition returns judged.acceptedCondition for a profile among others. It calls judged.acceptedCondition once for each generation of the profile and
// of the profiles that it extends.
func (m *memo) acceptedCondition(one *judged, among []*judged, cluster config.Cluster) metav1.Condition {
	if !reflect.DeepEqual(m.judgedBy, cluster) {
		m.judgedBy = cluster
		m.verdicts.Clear()
	}
	text, named := keyOf(one, among)
	key := sha256.Sum256([]byte(text))
	if known, found := m.verdicts.Get(key); named && found {
		return known.(metav1.Condition)
	}
	condition := one.acceptedCondition(readableProfiles(among), cluster)
	if named && len(condition.Message) <= mostRemembered {
		m.verdicts.Add(key, condition)
	}
	return condition
}

// keyOf returns a key for the contents that a verdict depends on: the contents of the profile and of all profiles that it extends, directly or through
// others. A profile that does not exist counts by its name. What a profile that cannot be read extends does not count.
func keyOf(one *judged, among []*judged) (key string, named bool) {
	key, named = one.contentKey()
	if one.profile == nil || len(one.profile.Spec.Extends) == 0 {
		return key, named
	}
	byReference := map[v1alpha1.ProfileReference]*judged{}
	for _, other := range among {
		byReference[v1alpha1.ProfileReference{Kind: other.kind, Name: other.object.GetName()}] = other
	}
	lookup := func(kind, name string) (*profile.Profile, error) {
		if found := byReference[v1alpha1.ProfileReference{Kind: kind, Name: name}]; found != nil {
			return found.profile, nil
		}
		return nil, nil
	}
	var text strings.Builder
	text.WriteString(key)
	// Errors say which bases are not followed. The verdict does not depend on what these extend.
	for base := range profile.WalkExtends(one.profile, lookup) {
		content := "none"
		if found := byReference[v1alpha1.ProfileReference{Kind: base.Kind, Name: base.Name}]; found != nil {
			var known bool
			content, known = found.contentKey()
			named = named && known
		}
		text.WriteString(" " + base.Kind + " " + base.Name + " " + content)
	}
	return text.String(), named
}
