// Package oci pushes catalogs to registries as OCI artifacts, pulls them, and signs and verifies them. It also pushes the archives of a release, and attaches
// documents to them.
//
// An artifact is an image manifest of two layers. The first is a gzipped tar archive with the catalog's files, in the media type of
// Flux's artifacts: Flux's OCIRepository unpacks the first layer, and 'oras pull' writes each layer to the file that its title
// names. The second is the catalog's index, which a reader can fetch without the files.
//
// Registries are not trusted: each read is bounded, each blob is compared with the digest that its manifest states, and
// nothing is written before the whole artifact has been read.
package oci

import (
	"fmt"

	"oras.land/oras-go/v2/registry"
)

// Media types of the artifact.
const (
	// ArtifactType is the artifactType of a catalog's manifest.
	ArtifactType = "application/vnd.kilnvm.catalog.v1"
	// FilesMediaType is the media type of the layer with the files. 'flux push artifact' writes the same type.
	FilesMediaType = "application/vnd.cncf.flux.content.v1.tar+gzip"
	// IndexMediaType is the media type of the layer with the index.
	IndexMediaType = "application/vnd.kilnvm.catalog.index.v1+json"
)

// The titles of the layers are the names of the files that 'oras pull' writes.
const (
	filesTitle = "catalog.tar.gz"
	indexTitle = "index.json"
)

// Limits of what is read from a registry, in bytes except maxFiles. 10,000 instancetypes of 2 kB are 20 MB of files, and about 1 MB of archive.
const (
	maxManifest = 1 << 20
	maxArchive  = 32 << 20
	maxContent  = 128 << 20
	maxIndex    = 32 << 20
	maxFiles    = 20_000
)

// Artifact is a published catalog.
type Artifact struct {
	// Files are the catalog's files, in the order of their names.
	Files []File
	// Index is the catalog's index as JSON.
	Index []byte
	// Annotations are the annotations of the manifest, such as org.opencontainers.image.version.
	Annotations map[string]string
}

// File is a file of a catalog.
type File struct {
	// Name is the slash-separated path relative to the catalog's folder. It does not leave the folder.
	Name    string
	Content []byte
}

// Scheme is the prefix of references of artifacts, as in Flux and Helm.
const Scheme = "oci://"

// parseReference returns the parts of a reference such as 'oci://example.org/catalogs/general:1.0.0' or '...@sha256:...'. The scheme may be left out.
func parseReference(reference string) (registry.Reference, error) {
	r, err := registry.ParseReference(trimScheme(reference))
	if err != nil {
		return r, fmt.Errorf("'%s' must be a reference such as 'oci://HOST/REPOSITORY:TAG' or 'oci://HOST/REPOSITORY@sha256:DIGEST': %w", reference, err)
	}
	if r.Reference == "" {
		return r, fmt.Errorf("'%s' must name a tag or a digest, such as '%s:1.0.0'", reference, reference)
	}
	return r, nil
}
