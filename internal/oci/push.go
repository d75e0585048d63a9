package oci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/memory"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
)

// withoutTime is the creation time of an artifact whose commit is not known. Without an annotation, oras would write the current time,
// and two pushes of one catalog would have two digests.
const withoutTime = "1970-01-01T00:00:00Z"

// TakenError reports that a tag already names another artifact.
type TakenError struct {
	Reference string
	Digest    digest.Digest
}

func (e *TakenError) Error() string {
	return fmt.Sprintf("'%s' is published already, as %s with other content: publish another version", e.Reference, e.Digest)
}

// Push publishes an artifact under the tag of a reference and returns the manifest's digest. The manifest is written last,
// with its tag: an interrupted push is not visible, and the next push finishes it. Pushing the same artifact again changes
// nothing. If the tag names another artifact, the error is a TakenError.
func (c *Client) Push(ctx context.Context, reference string, a Artifact) (digest.Digest, error) {
	ctx, done := c.withDeadline(ctx)
	defer done()
	r, err := parseReference(reference)
	if err != nil {
		return "", err
	}
	if r.ValidateReferenceAsDigest() == nil {
		return "", fmt.Errorf("'%s' must name a tag: the digest follows from the content", reference)
	}
	archive, err := packFiles(a.Files)
	if err != nil {
		return "", err
	}
	if len(archive) > maxArchive || len(a.Index) > maxIndex || len(a.Files) > maxFiles {
		return "", fmt.Errorf("a catalog must have at most %d files, an archive of at most %d bytes and an index of at most %d bytes", maxFiles, maxArchive, maxIndex)
	}
	staged, manifest, err := stageArtifact(ctx, r.Reference, archive, a)
	if err != nil {
		return "", err
	}
	repository := c.repositoryOf(r)
	switch existing, err := repository.Resolve(ctx, r.Reference); {
	case err == nil && existing.Digest == manifest.Digest:
		return manifest.Digest, nil
	case err == nil:
		return "", &TakenError{reference, existing.Digest}
	case !errors.Is(err, errdef.ErrNotFound):
		return "", explainError(reference, err)
	}
	_, err = oras.Copy(ctx, staged, r.Reference, repository, r.Reference, oras.DefaultCopyOptions)
	return manifest.Digest, explainError(reference, err)
}

// stageArtifact returns the artifact in memory, under a tag.
func stageArtifact(ctx context.Context, tag string, archive []byte, a Artifact) (*memory.Store, ocispec.Descriptor, error) {
	store := memory.New()
	layers := []ocispec.Descriptor{
		describeLayer(FilesMediaType, filesTitle, archive),
		describeLayer(IndexMediaType, indexTitle, a.Index),
	}
	for i, raw := range [][]byte{archive, a.Index} {
		if err := store.Push(ctx, layers[i], bytes.NewReader(raw)); err != nil {
			return nil, ocispec.Descriptor{}, err
		}
	}
	annotations := map[string]string{ocispec.AnnotationCreated: withoutTime}
	maps.Copy(annotations, a.Annotations)
	manifest, err := oras.PackManifest(ctx, store, oras.PackManifestVersion1_1, ArtifactType,
		oras.PackManifestOptions{Layers: layers, ManifestAnnotations: annotations})
	if err != nil {
		return nil, manifest, err
	}
	return store, manifest, store.Tag(ctx, manifest, tag)
}

// describeLayer returns the descriptor of a layer. The title is the name of the file that 'oras pull' writes.
func describeLayer(mediaType, title string, raw []byte) ocispec.Descriptor {
	layer := content.NewDescriptorFromBytes(mediaType, raw)
	layer.Annotations = map[string]string{ocispec.AnnotationTitle: title}
	return layer
}

// Copy copies an artifact and its signatures to another repository, and returns the artifact's digest. If the tag names another artifact there, the error
// is a TakenError.
func (c *Client) Copy(ctx context.Context, from, to string) (digest.Digest, error) {
	ctx, done := c.withDeadline(ctx)
	defer done()
	source, err := parseReference(from)
	if err != nil {
		return "", err
	}
	target, err := parseReference(to)
	if err != nil {
		return "", err
	}
	manifest, found, err := c.readManifest(ctx, source)
	if err != nil {
		return "", explainError(from, err)
	}
	if _, err := catalogLayers(manifest); err != nil {
		return "", explainError(from, err)
	}
	src, dst := c.repositoryOf(source), c.repositoryOf(target)
	switch existing, err := dst.Resolve(ctx, target.Reference); {
	case err == nil && existing.Digest != found.Digest:
		return "", &TakenError{to, existing.Digest}
	case err != nil && !errors.Is(err, errdef.ErrNotFound):
		return "", explainError(to, err)
	}
	// The signatures are copied first: a reader who finds the tag finds the signatures, too.
	if err := c.copySignatures(ctx, src, dst, found.Digest); err != nil {
		return "", explainError(from, err)
	}
	if _, err := oras.Copy(ctx, src, found.Digest.String(), dst, target.Reference, oras.DefaultCopyOptions); err != nil {
		return "", explainError(to, err)
	}
	return found.Digest, nil
}

// copySignatures copies the manifest of signatures, if there is one. The limits of Verify apply: otherwise a hostile registry
// could have anything copied.
func (c *Client) copySignatures(ctx context.Context, src, dst *remote.Repository, signed digest.Digest) error {
	found, err := c.readSignatures(ctx, src, signed)
	if err != nil || found.digest == "" {
		return err
	}
	for _, layer := range found.layers {
		if layer.Size > maxPayload || layer.MediaType != payloadMediaType {
			return fmt.Errorf("a signature must be '%s' of at most %d bytes, not '%s' of %d", payloadMediaType, maxPayload, printableText(layer.MediaType), layer.Size)
		}
	}
	if found.config > maxManifest {
		return fmt.Errorf("the configuration of the signatures must have at most %d bytes, not %d", maxManifest, found.config)
	}
	_, err = oras.Copy(ctx, src, found.digest.String(), dst, signatureTag(signed), oras.DefaultCopyOptions)
	return err
}

// Error is a failure to read or write an artifact of a registry.
type Error struct {
	// Reference starts with Scheme.
	Reference string
	text      string
	err       error
}

func (e *Error) Error() string {
	if errors.Is(e.err, errdef.ErrNotFound) {
		return e.text // the library's text repeats it
	}
	return e.text + ": " + e.err.Error()
}

// Unwrap returns the error of the connection or of the registry.
func (e *Error) Unwrap() error { return e.err }

// explainError adds the reference to an error, and what an administrator can do about it. It returns nil for nil.
func explainError(reference string, err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Reference: Scheme + trimScheme(reference), err: err}
	e.text = "'" + e.Reference + "'"
	switch {
	case errors.Is(err, errdef.ErrNotFound):
		e.text += " does not exist"
	case errors.Is(err, context.DeadlineExceeded):
		e.text = "the registry of " + e.text + " does not answer in time"
	case errors.Is(err, http.ErrSchemeMismatch):
		e.text = "the registry of " + e.text + " speaks plain HTTP: use --plain-http"
	case isDenied(err):
		e.text = "the registry of " + e.text + " refuses the credentials of docker's configuration file ('docker login' writes them)"
	}
	return e
}
