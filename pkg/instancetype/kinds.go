package instancetype

import "strings"

// KindNames are the two kinds that a matcher may mean.
type KindNames struct{ Namespaced, Cluster string }

// Kinds are those of instancetypes, PreferenceKinds those of preferences.
var (
	Kinds           = KindNames{Namespaced: "VirtualMachineInstancetype", Cluster: "VirtualMachineClusterInstancetype"}
	PreferenceKinds = KindNames{Namespaced: "VirtualMachinePreference", Cluster: "VirtualMachineClusterPreference"}
)

// Both are the two kinds, the namespaced one first.
func (k KindNames) Both() []string { return []string{k.Namespaced, k.Cluster} }

// CatalogKinds are all four kinds of instancetypes and preferences. No other package lists them.
func CatalogKinds() []string { return append(Kinds.Both(), PreferenceKinds.Both()...) }

// Canonical is the kind that a word means: its singular or plural resource name, in any case. An empty word is the cluster kind. It is empty
// for a word that means none.
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
