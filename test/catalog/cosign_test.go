package catalog

import (
	"bytes"
	"encoding/base64"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/sigstore/cosign/v2/pkg/cosign"
	"github.com/sigstore/cosign/v2/pkg/oci/mutate"
	"github.com/sigstore/cosign/v2/pkg/oci/remote"
	"github.com/sigstore/cosign/v2/pkg/oci/static"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/payload"
)

// keyPair writes keys as 'cosign generate-key-pair' does.
func (w *world) keyPair(of string) (private, public string, signer signature.SignerVerifier) {
	w.Helper()
	keys, err := cosign.GenerateKeyPair(func(bool) ([]byte, error) { return []byte("key's password"), nil })
	if err != nil {
		w.Fatal(err)
	}
	if signer, err = cosign.LoadPrivateKey(keys.PrivateBytes, []byte("key's password")); err != nil {
		w.Fatal(err)
	}
	return w.write(of+".key", string(keys.PrivateBytes)), w.write(of+".pub", string(keys.PublicBytes)), signer
}

// TestCosign signs with Kiln and verifies with cosign, and the reverse, beside one another on one artifact.
func TestCosign(t *testing.T) {
	w := start(t)
	t.Setenv("COSIGN_PASSWORD", "key's password")
	w.kiln("push", w.catalog(), w.general("1.0.0"))
	private, public, ours := w.keyPair("ours")
	_, theirsPublic, theirs := w.keyPair("theirs")

	w.kiln("sign", w.general("1.0.0"), "--key", private)
	tag, err := name.NewTag(strings.TrimPrefix(w.general("1.0.0"), "oci://"))
	if err != nil {
		t.Fatal(err)
	}
	verify := func(key signature.Verifier) error {
		_, _, err := cosign.VerifyImageSignatures(t.Context(), tag, &cosign.CheckOpts{
			SigVerifier: key, IgnoreTlog: true, IgnoreSCT: true, ClaimVerifier: cosign.SimpleClaimVerifier,
		})
		return err
	}
	if err := verify(ours); err != nil {
		t.Errorf("cosign refuses Kiln's signature: %v", err)
	}
	if err := verify(theirs); err == nil {
		t.Error("cosign accepts a key that signed nothing")
	}
	if _, _, status := w.run(filepath.Join(programs, "kubectl-kiln"), "catalog", "verify", w.general("1.0.0"), "--key", theirsPublic); status != 1 {
		t.Errorf("Kiln accepts a key that signed nothing: %d", status)
	}

	// As 'cosign sign --key' does without a transparency log.
	digest, err := remote.ResolveDigest(tag)
	if err != nil {
		t.Fatal(err)
	}
	entity, err := remote.SignedEntity(digest)
	if err != nil {
		t.Fatal(err)
	}
	statement, err := payload.Cosign{Image: digest}.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	signed, err := theirs.SignMessage(bytes.NewReader(statement))
	if err != nil {
		t.Fatal(err)
	}
	layer, err := static.NewSignature(statement, base64.StdEncoding.EncodeToString(signed))
	if err != nil {
		t.Fatal(err)
	}
	if entity, err = mutate.AttachSignatureToEntity(entity, layer); err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteSignatures(digest.Repository, entity); err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]string{"cosign's": theirsPublic, "Kiln's, which cosign kept": public} {
		if out := w.kiln("verify", w.general("1.0.0"), "--key", key); !strings.Contains(out, digest.DigestStr()+": verified") {
			t.Errorf("%s: %s", name, out)
		}
	}
	w.kiln("copy", w.general("1.0.0"), "oci://"+w.host+"/mirror/general:1.0.0")
	w.kiln("verify", "oci://"+w.host+"/mirror/general:1.0.0", "--key", theirsPublic)
}
