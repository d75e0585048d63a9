package catalogs

import (
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/internal/oci"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/catalog"
	"k8s.io/apimachinery/pkg/util/version"
)

// Version is the semantic version of a catalog.
type Version struct {
	// Tag is the version as published, with a leading 'v' if it has one.
	Tag    string
	parsed *version.Version
}

// ParseVersion parses a tag such as '1.2.0'. A leading 'v' is allowed, as in registries and Flux's semver ranges.
func ParseVersion(tag string) (Version, error) {
	parsed, err := version.ParseSemantic(tag)
	if err != nil {
		return Version{}, fmt.Errorf("the tag '%s' must be a semantic version such as '1.2.0'", tag)
	}
	return Version{tag, parsed}, nil
}

// Predecessor returns the highest version among tags that is lower than v, and whether there is one. It ignores tags that are not versions, such as the
// tags of signatures.
func (v Version) Predecessor(tags []string) (best Version, found bool) {
	for _, tag := range tags {
		other, err := ParseVersion(tag)
		if err != nil || !other.parsed.LessThan(v.parsed) {
			continue
		}
		if !found || best.parsed.LessThan(other.parsed) {
			best, found = other, true
		}
	}
	return best, found
}

// Newest returns the highest version among tags, and whether there is one. Pre-releases count only if there is no release: nobody gets one unasked.
func Newest(tags []string) (best Version, found bool) {
	for _, tag := range tags {
		v, err := ParseVersion(tag)
		if err != nil {
			continue
		}
		release, bestIsRelease := v.parsed.PreRelease() == "", found && best.parsed.PreRelease() == ""
		if !found || release && !bestIsRelease || release == bestIsRelease && best.parsed.LessThan(v.parsed) {
			best, found = v, true
		}
	}
	return best, found
}

// NewerThan reports whether a version is higher than another one.
func (v Version) NewerThan(other Version) bool { return other.parsed.LessThan(v.parsed) }

// ChangedInstancetypes returns the names of the instancetypes that both catalogs have with different specs.
func ChangedInstancetypes(before, after catalog.Index) (names []string) {
	specs := map[catalog.Key]string{}
	for _, e := range before.Instancetypes {
		specs[e.Key] = e.Spec
	}
	for _, e := range after.Instancetypes {
		if old, had := specs[e.Key]; had && old != e.Spec {
			names = append(names, strings.TrimPrefix(e.Namespace+"/"+e.Name, "/"))
		}
	}
	return names
}

// FilesOf converts the files of a published catalog.
func FilesOf(a oci.Artifact) (files []manifest.File) {
	for _, f := range a.Files {
		files = append(files, manifest.File{Name: f.Name, Content: f.Content})
	}
	return files
}
