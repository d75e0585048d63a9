package instancetype

import "strings"

// KindNames are the two kinds to which spec.instancetype or spec.preference may refer.
type KindNames struct{ Namespaced, Cluster string }

// Kinds are the kinds of instancetypes, and PreferenceKinds the kinds of preferences.
var (
	Kinds           = KindNames{Namespaced: "VirtualMachineInstancetype", Cluster: "VirtualMachineClusterInstancetype"}
	PreferenceKinds = KindNames{Namespaced: "VirtualMachinePreference", Cluster: "VirtualMachineClusterPreference"}
)

// Both returns the two kinds, the namespaced kind first.
func (k KindNames) Both() []string { return []string{k.Namespaced, k.Cluster} }

// Other returns the kinds of preferences for the kinds of instancetypes, and the reverse.
func (k KindNames) Other() KindNames {
	if k == Kinds {
		return PreferenceKinds
	}
	return Kinds
}

// CatalogKinds returns all four kinds of instancetypes and preferences. No other package lists them.
func CatalogKinds() []string { return append(Kinds.Both(), PreferenceKinds.Both()...) }

// Canonical returns the kind for the text of a matcher's kind: the name of a kind or resource, singular or plural, in upper or lower case. An empty text means
// the cluster kind, as in KubeVirt. It returns an empty text for any other word, which validate refuses.
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
