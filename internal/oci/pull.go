package oci

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

// Pulled is an artifact that was read from a registry.
type Pulled struct {
	Artifact
	// Digest is the digest of the manifest.
	Digest digest.Digest
}

// Pull returns a whole artifact. It fails if the manifest does not have the digest of the reference, or a layer not the size and digest that the manifest
// states.
func (c *Client) Pull(ctx context.Context, reference string) (Pulled, error) {
	ctx, done := c.withDeadline(ctx)
	defer done()
	out, r, layers, err := c.readIndex(ctx, reference)
	if err != nil {
		return Pulled{}, err
	}
	archive, err := c.readBlob(ctx, r, layers.files)
	if err != nil {
		return Pulled{}, explainError(reference, fmt.Errorf("the layer of the files: %w", err))
	}
	if out.Files, err = unpackFiles(archive, bounds{maxFiles, maxContent}); err != nil {
		return Pulled{}, explainError(reference, err)
	}
	return out, nil
}

// Inspect returns an artifact without its files: a comparison with a published version needs only the index. An Artifact without Files
// must not be pushed.
func (c *Client) Inspect(ctx context.Context, reference string) (Pulled, error) {
	ctx, done := c.withDeadline(ctx)
	defer done()
	out, _, _, err := c.readIndex(ctx, reference)
	return out, err
}

// readIndex reads the manifest and the index. Errors name the reference, as the errors of all exported functions do.
func (c *Client) readIndex(ctx context.Context, reference string) (out Pulled, r registry.Reference, found layers, err error) {
	if r, err = parseReference(reference); err != nil {
		return out, r, found, err
	}
	manifest, descriptor, err := c.readManifest(ctx, r)
	if err == nil {
		found, err = catalogLayers(manifest)
	}
	if err != nil {
		return out, r, found, explainError(reference, err)
	}
	index, err := c.readBlob(ctx, r, found.index)
	if err == nil && !json.Valid(index) {
		err = errors.New("it must be JSON")
	}
	if err != nil {
		return out, r, found, explainError(reference, fmt.Errorf("the layer of the index: %w", err))
	}
	out.Digest, out.Annotations, out.Index = descriptor.Digest, manifest.Annotations, index
	return out, r, found, nil
}

// Resolve returns the digest that a reference names now. A tag may move later: a caller that verified the signature of a digest must read
// the artifact by that digest.
func (c *Client) Resolve(ctx context.Context, reference string) (digest.Digest, error) {
	ctx, done := c.withDeadline(ctx)
	defer done()
	_, found, err := c.resolveManifest(ctx, reference)
	return found.Digest, err
}

// resolveManifest parses a reference, and returns the descriptor of the manifest that it names now.
func (c *Client) resolveManifest(ctx context.Context, reference string) (r registry.Reference, found ocispec.Descriptor, err error) {
	if r, err = parseReference(reference); err != nil {
		return r, found, err
	}
	_, found, err = c.readManifest(ctx, r)
	return r, found, explainError(reference, err)
}

// resolveAny does what resolveManifest does, also for the index of an image for several platforms.
func (c *Client) resolveAny(ctx context.Context, reference string) (r registry.Reference, found ocispec.Descriptor, err error) {
	if r, err = parseReference(reference); err != nil {
		return r, found, err
	}
	found, _, err = c.fetchManifest(ctx, r)
	if err == nil && found.MediaType != ocispec.MediaTypeImageManifest && found.MediaType != ocispec.MediaTypeImageIndex {
		err = fmt.Errorf("the media type must be '%s' or '%s', not '%s'", ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageIndex, printableText(found.MediaType))
	}
	return r, found, explainError(reference, err)
}

// Pinned returns a reference with its tag or digest replaced by the given digest.
func Pinned(reference string, to digest.Digest) (string, error) {
	r, err := parseReference(reference)
	if err != nil {
		return "", err
	}
	r.Reference = to.String()
	return Scheme + r.String(), nil
}

// readManifest reads the manifest of an image or artifact, and returns its descriptor.
func (c *Client) readManifest(ctx context.Context, r registry.Reference) (manifest ocispec.Manifest, found ocispec.Descriptor, err error) {
	found, raw, err := c.fetchManifest(ctx, r)
	if err != nil {
		return manifest, found, err
	}
	if found.MediaType != ocispec.MediaTypeImageManifest {
		return manifest, found, fmt.Errorf("the media type must be '%s', not '%s'", ocispec.MediaTypeImageManifest, printableText(found.MediaType))
	}
	if err := json.Unmarshal(raw, &manifest); err != nil {
		return manifest, found, fmt.Errorf("the manifest cannot be read: %w", err)
	}
	return manifest, found, nil
}

// fetchManifest reads what a reference names, and returns its descriptor. The digest is computed from the bytes that were read, because a header of the
// registry proves nothing.
func (c *Client) fetchManifest(ctx context.Context, r registry.Reference) (found ocispec.Descriptor, raw []byte, err error) {
	found, raw, err = oras.FetchBytes(ctx, c.repositoryOf(r), r.Reference, oras.FetchBytesOptions{MaxBytes: maxManifest})
	if err != nil {
		return found, raw, err
	}
	if asked, err := r.Digest(); err == nil && asked != found.Digest {
		return found, raw, fmt.Errorf("the registry returned %s for %s", found.Digest, asked)
	}
	return found, raw, nil
}

// layers are the descriptors of an artifact's two layers.
type layers struct{ files, index ocispec.Descriptor }

// catalogLayers returns the layers of a catalog's manifest.
func catalogLayers(manifest ocispec.Manifest) (found layers, err error) {
	if manifest.ArtifactType != ArtifactType {
		return found, fmt.Errorf("the artifact type must be '%s', not '%s': this is not a catalog", ArtifactType, printableText(manifest.ArtifactType))
	}
	if len(manifest.Layers) != 2 || manifest.Layers[0].MediaType != FilesMediaType || manifest.Layers[1].MediaType != IndexMediaType {
		return found, fmt.Errorf("a catalog has two layers, '%s' and '%s'", FilesMediaType, IndexMediaType)
	}
	found = layers{files: manifest.Layers[0], index: manifest.Layers[1]}
	if found.files.Size > maxArchive {
		return found, fmt.Errorf("the layer of the files must have at most %d bytes, not %d", maxArchive, found.files.Size)
	}
	if found.index.Size > maxIndex {
		return found, fmt.Errorf("the layer of the index must have at most %d bytes, not %d", maxIndex, found.index.Size)
	}
	return found, nil
}

// readBlob reads a blob, and compares it with its size and its digest. The caller has checked the size. Because a registry must not send more than that,
// the limits of catalogLayers also limit the memory.
func (c *Client) readBlob(ctx context.Context, r registry.Reference, blob ocispec.Descriptor) (raw []byte, err error) {
	if blob.Size < 0 {
		return nil, fmt.Errorf("the size must not be negative, is %d", blob.Size)
	}
	if err := blob.Digest.Validate(); err != nil {
		return nil, err
	}
	reader, err := c.repositoryOf(r).Blobs().Fetch(ctx, blob)
	if err != nil {
		return nil, err
	}
	defer func(reader io.Closer) { err = errors.Join(err, reader.Close()) }(reader)
	return content.ReadAll(reader, blob)
}

// isDenied reports whether a registry refused the credentials, or requires some.
func isDenied(err error) bool {
	if errors.Is(err, auth.ErrBasicCredentialNotFound) {
		return true
	}
	var response *errcode.ErrorResponse
	return errors.As(err, &response) && (response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden)
}

// unknownRepository reports whether a registry does not have the repository.
func unknownRepository(err error) bool {
	var response *errcode.ErrorResponse
	return errors.As(err, &response) && response.StatusCode == http.StatusNotFound
}
