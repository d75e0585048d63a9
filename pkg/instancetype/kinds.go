package instancetype

import "strings"

// KindNames are the two kinds that spec.instancetype.kind or spec.preference.kind may mean.
type KindNames struct{ Namespaced, Cluster string }

// Kinds are those of instancetypes, PreferenceKinds those of preferences.
var (
	Kinds           = KindNames{Namespaced: "VirtualMachineInstancetype", Cluster: "VirtualMachineClusterInstancetype"}
	PreferenceKinds = KindNames{Namespaced: "VirtualMachinePreference", Cluster: "VirtualMachineClusterPreference"}
)

// Both are the two kinds, the namespaced one first.
func (k KindNames) Both() []string { return []string{k.Namespaced, k.Cluster} }

// Other are the kinds of the other family: those of preferences for those of instancetypes, and the reverse.
func (k KindNames) Other() KindNames {
	if k == Kinds {
		return PreferenceKinds
	}
	return Kinds
}

// CatalogKinds are all four kinds of instancetypes and preferences. No other package lists them.
func CatalogKinds() []string { return append(Kinds.Both(), PreferenceKinds.Both()...) }

// Canonical returns the kind that a matcher's kind means: a kind or resource name, singular or plural, in upper or lower case. Empty means
// the cluster kind, as in KubeVirt. For any other word it returns the empty string; validate refuses it.
func (k KindNames) Canonical(word string) string {
	if word == "" {
		return k.Cluster
	}
	word = strings.ToLower(word)
	for _, kind := range []string{k.Cluster, k.Namespaced} {
		if singular := strings.ToLower(kind); word == singular || word == singular+"s" {
			return kind
		}
	}
	return ""
}
