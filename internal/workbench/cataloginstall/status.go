package cataloginstall

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/workbench/catalogs"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Installed is a catalog that has objects in a cluster.
type Installed struct {
	Name string `json:"catalog"`
	// Source is the repository; empty for a catalog of files. Sources has all repositories if the objects name several.
	Source  string   `json:"source,omitempty"`
	Sources []string `json:"sources,omitempty"`
	// Versions are the versions of the objects, the most frequent one first. After an interrupted installation there are several.
	Versions []InstalledVersion `json:"versions"`
	// OfNamespace reports that all objects are of one namespace. Their owner may be a tenant, who then chose the source.
	OfNamespace bool `json:"ofNamespace,omitempty"`
}

// InstalledVersion is a version with the number of objects that have it.
type InstalledVersion struct {
	// Version is a semantic version; empty for a catalog of files.
	Version string `json:"version,omitempty"`
	Digest  string `json:"digest,omitempty"`
	Objects int    `json:"objects"`
}

// Installed returns the catalogs that have objects in the cluster, sorted by name. Obsolete objects do not count for the version: an installation leaves the
// version that had an object last at an object that VMs use.
func (s State) Installed() (all []Installed) {
	for _, name := range s.InstalledCatalogs() {
		of := Installation{Name: name}
		found := Installed{Name: name, OfNamespace: true}
		counts, obsolete, sources := map[InstalledVersion]int{}, map[InstalledVersion]int{}, map[string]bool{}
		for key, object := range s.Objects {
			if !of.ownsObject(object) {
				continue
			}
			if source := object.GetAnnotations()[v1alpha1.AnnotationCatalogSource]; source != "" {
				sources[source] = true
			}
			if key.Kind == instancetype.Kinds.Cluster || key.Kind == instancetype.PreferenceKinds.Cluster {
				found.OfNamespace = false
			}
			if object.GetLabels()[v1alpha1.LabelLifecycle] == v1alpha1.LifecycleObsolete {
				obsolete[versionOf(object)]++
			} else {
				counts[versionOf(object)]++
			}
		}
		if len(counts) == 0 {
			counts = obsolete
		}
		for version, objects := range counts {
			version.Objects = objects
			found.Versions = append(found.Versions, version)
		}
		slices.SortFunc(found.Versions, func(a, b InstalledVersion) int {
			return cmp.Or(cmp.Compare(b.Objects, a.Objects), strings.Compare(a.Version, b.Version), strings.Compare(a.Digest, b.Digest))
		})
		if found.Sources = slices.Sorted(maps.Keys(sources)); len(found.Sources) == 1 {
			found.Source, found.Sources = found.Sources[0], nil
		}
		all = append(all, found)
	}
	return all
}

// versionOf returns the version of an installed object.
func versionOf(object *unstructured.Unstructured) InstalledVersion {
	text := object.GetAnnotations()[v1alpha1.AnnotationCatalogVersion]
	version, digest, both := strings.Cut(text, "@")
	if !both {
		version, digest = "", text // of files
	}
	return InstalledVersion{Version: version, Digest: digest}
}

// Drift returns what another installation of the installed version would change, without objects that only wait for their removal. published is the catalog of
// that version.
func (i Installed) Drift(published catalogs.Catalog, s State) (changed []Action, conflicts []Conflict) {
	version := i.Versions[0]
	plan := Installation{Name: i.Name, Version: version.Version, Digest: version.Digest, Source: i.Source}.Plan(published, s)
	for _, action := range plan.Actions {
		if action.Change != Unchanged {
			changed = append(changed, action)
		}
	}
	return changed, plan.Conflicts
}
