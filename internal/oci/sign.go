package oci

import (
	"bytes"
	"context"
	"crypto"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/payload"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
)

// The format of cosign 2: a manifest beside the artifact, under a tag made of its digest, whose layers are signed statements.
// https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md
const (
	payloadMediaType    = "application/vnd.dev.cosign.simplesigning.v1+json"
	signatureAnnotation = "dev.cosignproject.cosign/signature"
	// maxPayload is the maximal size of a statement in bytes. Cosign's statements have about 250.
	maxPayload = 64 << 10
	// maxSignatures bounds the statements about one artifact, because each costs a request.
	maxSignatures = 100
)

// signatureTag is the tag of the manifest with the signatures of a digest.
func signatureTag(of digest.Digest) string {
	return of.Algorithm().String() + "-" + of.Encoded() + ".sig"
}

// UnsignedError reports that an artifact has no valid signature of a key.
type UnsignedError struct {
	Reference string
	Digest    digest.Digest
	// Reasons says for each signature of the artifact why it is not valid.
	Reasons []error
}

func (e *UnsignedError) Error() string {
	if len(e.Reasons) == 0 {
		return fmt.Sprintf("'%s' (%s) has no signature", e.Reference, e.Digest)
	}
	return fmt.Sprintf("'%s' (%s) has no signature of this key: %v", e.Reference, e.Digest, errors.Join(e.Reasons...))
}

// PrivateKey parses a private key in PEM: one that 'cosign generate-key-pair' wrote, which the password decrypts, or an unencrypted one in PKCS #8.
func PrivateKey(raw, password []byte) (signature.SignerVerifier, error) {
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, errors.New("the private key must be in PEM")
	}
	der := block.Bytes
	switch block.Type {
	case "ENCRYPTED SIGSTORE PRIVATE KEY", "ENCRYPTED COSIGN PRIVATE KEY":
		var err error
		if der, err = encrypted.Decrypt(block.Bytes, password); err != nil {
			return nil, fmt.Errorf("the private key cannot be decrypted with this password: %w", err)
		}
	case string(cryptoutils.PrivateKeyPEMType):
	default:
		return nil, fmt.Errorf("the private key must be 'ENCRYPTED SIGSTORE PRIVATE KEY' or 'PRIVATE KEY' in PEM, not '%s'", printableText(block.Type))
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("the private key cannot be read: %w", err)
	}
	return signature.LoadSignerVerifier(key, crypto.SHA256)
}

// PublicKey parses a public key in PEM, as 'cosign generate-key-pair' writes it.
func PublicKey(raw []byte) (signature.Verifier, error) {
	key, err := cryptoutils.UnmarshalPEMToPublicKey(raw)
	if err != nil {
		return nil, fmt.Errorf("the public key cannot be read: %w", err)
	}
	return signature.LoadVerifier(key, crypto.SHA256)
}

// KeyDigest identifies a public key: the SHA-256 of the key in DER, as 'openssl pkey -pubin -in cosign.pub -outform der | sha256sum' prints it.
func KeyDigest(key signature.Verifier) (digest.Digest, error) {
	public, err := key.PublicKey()
	if err != nil {
		return "", err
	}
	der, err := cryptoutils.MarshalPublicKeyToDER(public)
	if err != nil {
		return "", err
	}
	return digest.FromBytes(der), nil
}

// Sign adds a signature of the artifact that a reference names now, and returns the artifact's digest. Existing signatures are kept. Like
// cosign, it replaces the manifest of signatures: if two users sign at the same time, one signature is lost.
func (c *Client) Sign(ctx context.Context, reference string, signer signature.SignerVerifier) (digest.Digest, error) {
	ctx, done := c.withDeadline(ctx)
	defer done()
	r, found, err := c.resolveAny(ctx, reference)
	if err != nil {
		return "", err
	}
	image, err := name.NewDigest(r.Registry + "/" + r.Repository + "@" + found.Digest.String())
	if err != nil {
		return "", explainError(reference, err)
	}
	statement, err := json.Marshal(payload.Cosign{Image: image})
	if err != nil {
		return "", err
	}
	signed, err := signer.SignMessage(bytes.NewReader(statement))
	if err != nil {
		return "", fmt.Errorf("'%s' cannot be signed: %w", reference, err)
	}
	layer := content.NewDescriptorFromBytes(payloadMediaType, statement)
	layer.Annotations = map[string]string{signatureAnnotation: base64.StdEncoding.EncodeToString(signed)}
	return found.Digest, explainError(reference, c.addSignature(ctx, c.repositoryOf(r), found.Digest, layer, statement))
}

// addSignature appends a layer to the manifest of signatures of a digest. It creates the manifest if it does not exist.
func (c *Client) addSignature(ctx context.Context, repository *remote.Repository, of digest.Digest, layer ocispec.Descriptor, statement []byte) error {
	existing, err := c.readSignatures(ctx, repository, of)
	if err != nil {
		return err
	}
	if len(existing.layers) == maxSignatures {
		return fmt.Errorf("%s has %d signatures already", of, maxSignatures)
	}
	all := append(existing.layers, layer)
	// Cosign reads the manifest as the manifest of an image. The configuration of an image lists its layers.
	config := ocispec.Image{RootFS: ocispec.RootFS{Type: "layers"}}
	for _, l := range all {
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, l.Digest)
	}
	rawConfig, err := json.Marshal(config)
	if err != nil {
		return err
	}
	configBlob := content.NewDescriptorFromBytes(ocispec.MediaTypeImageConfig, rawConfig)
	raw, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: configBlob, Layers: all,
	})
	if err != nil {
		return err
	}
	if err := pushBlob(ctx, repository, layer, statement); err != nil {
		return err
	}
	if err := pushBlob(ctx, repository, configBlob, rawConfig); err != nil {
		return err
	}
	return repository.PushReference(ctx, content.NewDescriptorFromBytes(ocispec.MediaTypeImageManifest, raw), bytes.NewReader(raw), signatureTag(of))
}

// pushBlob pushes a blob unless the registry has it.
func pushBlob(ctx context.Context, repository *remote.Repository, blob ocispec.Descriptor, raw []byte) error {
	if has, err := repository.Exists(ctx, blob); err != nil || has {
		return err
	}
	return repository.Push(ctx, blob, bytes.NewReader(raw))
}

// signatures are the parts of a manifest of signatures. The zero value means that the manifest does not exist.
type signatures struct {
	digest digest.Digest
	// config is the size of the configuration in bytes.
	config int64
	layers []ocispec.Descriptor
}

// readSignatures reads the manifest of signatures of a digest. It refuses more than maxSignatures.
func (c *Client) readSignatures(ctx context.Context, repository *remote.Repository, of digest.Digest) (signatures, error) {
	r := repository.Reference
	r.Reference = signatureTag(of)
	manifest, found, err := c.readManifest(ctx, r)
	if errors.Is(err, errdef.ErrNotFound) {
		return signatures{}, nil
	}
	if err == nil && len(manifest.Layers) > maxSignatures {
		err = fmt.Errorf("an artifact must have at most %d signatures, not %d", maxSignatures, len(manifest.Layers))
	}
	return signatures{found.Digest, manifest.Config.Size, manifest.Layers}, err
}

// Verify returns the digest of the artifact that a reference names now. If the artifact has no valid signature of the key, the error is an UnsignedError.
// A caller must read the artifact by the digest, because the tag may have moved since.
//
// A signature is for a digest. As in cosign, the repository in the statement is not compared: a copied catalog keeps its signatures.
func (c *Client) Verify(ctx context.Context, reference string, key signature.Verifier) (digest.Digest, error) {
	ctx, done := c.withDeadline(ctx)
	defer done()
	r, found, err := c.resolveAny(ctx, reference)
	if err != nil {
		return "", err
	}
	all, err := c.readSignatures(ctx, c.repositoryOf(r), found.Digest)
	if err != nil {
		return "", explainError(reference, fmt.Errorf("the signatures cannot be read: %w", err))
	}
	unsigned := &UnsignedError{Reference: reference, Digest: found.Digest}
	for _, layer := range all.layers {
		if layer.MediaType != payloadMediaType {
			continue
		}
		if layer.Size > maxPayload {
			unsigned.Reasons = append(unsigned.Reasons, fmt.Errorf("a statement must have at most %d bytes, not %d", maxPayload, layer.Size))
			continue
		}
		statement, err := c.readBlob(ctx, r, layer)
		if err == nil {
			err = verifyStatement(key, layer.Annotations[signatureAnnotation], statement, found.Digest)
		}
		if err == nil {
			return found.Digest, nil
		}
		unsigned.Reasons = append(unsigned.Reasons, err)
	}
	return "", unsigned
}

// verifyStatement returns nil if the key made the signature and the statement is about this digest. The signature is verified before the statement is
// parsed.
func verifyStatement(key signature.Verifier, encoded string, statement []byte, of digest.Digest) error {
	signed, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return fmt.Errorf("the annotation '%s' must be in base64: %w", signatureAnnotation, err)
	}
	if err := key.VerifySignature(bytes.NewReader(signed), bytes.NewReader(statement)); err != nil {
		return err
	}
	var about payload.Cosign
	if err := json.Unmarshal(statement, &about); err != nil {
		return err
	}
	if about.Image.DigestStr() != of.String() {
		return fmt.Errorf("the signature is for %s", about.Image.DigestStr())
	}
	return nil
}
