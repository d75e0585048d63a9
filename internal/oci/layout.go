package oci

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/errdef"
)

// PushArchive publishes the image or artifact of an OCI archive in a repository such as 'oci://HOST/kiln', under its tag in the archive. It returns its
// reference and its digest. Pushing it again changes nothing. If the tag names another artifact, the error is a TakenError. The archive is trusted.
func (c *Client) PushArchive(ctx context.Context, file, repository string) (reference string, pushed digest.Digest, err error) {
	ctx, done := c.withDeadline(ctx)
	defer done()
	store, err := oci.NewFromTar(ctx, file)
	if err != nil {
		return "", "", fmt.Errorf("'%s' must be an OCI archive: %w", file, err)
	}
	tag, err := onlyTag(ctx, store)
	if err != nil {
		return "", "", fmt.Errorf("archive '%s': %w", file, err)
	}
	archived, err := store.Resolve(ctx, tag)
	if err != nil {
		return "", "", fmt.Errorf("archive '%s': %w", file, err)
	}
	reference = Scheme + trimScheme(repository) + ":" + tag
	r, err := parseReference(reference)
	if err != nil {
		return "", "", err
	}
	target := c.repositoryOf(r)
	switch existing, err := target.Resolve(ctx, tag); {
	case err == nil && existing.Digest != archived.Digest:
		return "", "", &TakenError{reference, existing.Digest}
	case err != nil && !errors.Is(err, errdef.ErrNotFound):
		return "", "", explainError(reference, err)
	}
	_, err = oras.Copy(ctx, store, tag, target, tag, oras.DefaultCopyOptions)
	return reference, archived.Digest, explainError(reference, err)
}

// onlyTag returns the tag of an archive that has only one.
func onlyTag(ctx context.Context, store *oci.ReadOnlyStore) (string, error) {
	var tags []string
	err := store.Tags(ctx, "", func(page []string) error {
		tags = append(tags, page...)
		return nil
	})
	if err == nil && len(tags) != 1 {
		err = fmt.Errorf("it must have one tag, not %d", len(tags))
	}
	if err != nil {
		return "", err
	}
	return tags[0], nil
}

// Attach publishes a document about the artifact that a reference names now, as its referrer: 'oras discover' lists it, and 'oras pull' writes it to the file
// title. Its media type is also its artifact type. It returns the digest of the referrer. Attaching the same document again changes nothing.
func (c *Client) Attach(ctx context.Context, reference, mediaType, title string, document []byte) (digest.Digest, error) {
	ctx, done := c.withDeadline(ctx)
	defer done()
	r, about, err := c.resolveAny(ctx, reference)
	if err != nil {
		return "", err
	}
	repository := c.repositoryOf(r)
	layer := describeLayer(mediaType, title, document)
	raw, err := marshalReferrer(mediaType, about, layer)
	if err != nil {
		return "", err
	}
	referrer := content.NewDescriptorFromBytes(ocispec.MediaTypeImageManifest, raw)
	err = errors.Join(pushBlob(ctx, repository, layer, document), pushBlob(ctx, repository, ocispec.DescriptorEmptyJSON, ocispec.DescriptorEmptyJSON.Data))
	if err == nil {
		// For a registry without the API of referrers, this also writes the tag by which clients find referrers.
		err = repository.Push(ctx, referrer, bytes.NewReader(raw))
	}
	return referrer.Digest, explainError(reference, err)
}

// marshalReferrer returns the manifest of a document about an artifact. It has no time: equal documents have equal digests.
func marshalReferrer(artifactType string, about, layer ocispec.Descriptor) ([]byte, error) {
	empty := ocispec.DescriptorEmptyJSON
	empty.Data = nil
	return json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: artifactType, Config: empty,
		Layers:  []ocispec.Descriptor{layer},
		Subject: &ocispec.Descriptor{MediaType: about.MediaType, Digest: about.Digest, Size: about.Size},
	})
}

// maxReferrers bounds the referrers of an artifact that are read, because each costs a request.
const maxReferrers = 100

// Attached returns the document of a media type that was attached to the artifact that a reference names now. It must have at most maxIndex bytes. If several
// are attached, it returns the one that the registry lists first. A document is not signed: its digest proves only that it is complete.
func (c *Client) Attached(ctx context.Context, reference, mediaType string) ([]byte, error) {
	ctx, done := c.withDeadline(ctx)
	defer done()
	r, about, err := c.resolveAny(ctx, reference)
	if err != nil {
		return nil, err
	}
	var referrers []ocispec.Descriptor
	// The types in the list are not trusted: some registries list the type of the configuration instead.
	err = c.repositoryOf(r).Referrers(ctx, about, "", func(page []ocispec.Descriptor) error {
		if referrers = append(referrers, page...); len(referrers) > maxReferrers {
			return fmt.Errorf("an artifact must have at most %d referrers", maxReferrers)
		}
		return nil
	})
	if err != nil {
		return nil, explainError(reference, err)
	}
	for _, referrer := range referrers {
		r.Reference = referrer.Digest.String()
		manifest, _, err := c.readManifest(ctx, r)
		if err != nil {
			return nil, explainError(reference, err)
		}
		if manifest.ArtifactType != mediaType || manifest.Subject == nil || manifest.Subject.Digest != about.Digest {
			continue
		}
		if len(manifest.Layers) != 1 || manifest.Layers[0].Size > maxIndex {
			return nil, explainError(reference, fmt.Errorf("a document has one layer of at most %d bytes", maxIndex))
		}
		document, err := c.readBlob(ctx, r, manifest.Layers[0])
		return document, explainError(reference, err)
	}
	return nil, fmt.Errorf("'%s' (%s) has no document '%s'", reference, about.Digest, mediaType)
}
