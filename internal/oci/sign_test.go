package oci

import (
	"encoding/pem"
	"errors"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/test/registry"
	"github.com/sigstore/sigstore/pkg/signature"
)

// TestSignAndVerify signs by two keys, copies, and verifies what holds and what does not.
func TestSignAndVerify(t *testing.T) {
	client, host := serve(t, nil)
	reference := "oci://" + host + "/general:1.0.0"
	digest, err := client.Push(t.Context(), reference, example("a: 1"))
	if err != nil {
		t.Fatal(err)
	}
	var keys []signature.Verifier
	for i := range 3 {
		private, public := registry.Keys(t, "secret")
		signer, err := PrivateKey(private, []byte("secret"))
		if err != nil {
			t.Fatal(err)
		}
		verifier, err := PublicKey(public)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, verifier)
		if i == 2 {
			continue // the third key signs nothing
		}
		var unsigned *UnsignedError
		if _, err := client.Verify(t.Context(), reference, verifier); !errors.As(err, &unsigned) || len(unsigned.Reasons) != i {
			t.Errorf("verified before key %d signed: %v", i, err)
		}
		if signed, err := client.Sign(t.Context(), reference, signer); err != nil || signed != digest {
			t.Fatalf("signed %s, %v, want %s", signed, err, digest)
		}
	}
	copied := "oci://" + host + "/mirror/general:1.0.0"
	if moved, err := client.Copy(t.Context(), reference, copied); err != nil || moved != digest {
		t.Fatalf("copied %s, %v", moved, err)
	}
	for _, reference := range []string{reference, copied} {
		for i, k := range keys {
			verified, err := client.Verify(t.Context(), reference, k)
			if i < 2 && (err != nil || verified != digest) {
				t.Errorf("%s, key %d: %s, %v", reference, i, verified, err)
			}
			if i == 2 && err == nil {
				t.Errorf("%s: a key that did not sign is verified", reference)
			}
		}
	}
}

// TestKeysThatAreRefused reads what is no key, and a key by another password.
func TestKeysThatAreRefused(t *testing.T) {
	private, public := registry.Keys(t, "secret")
	for _, test := range []struct {
		name, want string
		raw        []byte
	}{
		{"another password", "cannot be decrypted", private},
		{"no PEM", "must be in PEM", []byte("secret")},
		{"public", "not 'PUBLIC KEY'", public},
		{"no key", "cannot be read", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")})},
	} {
		if _, err := PrivateKey(test.raw, []byte("wrong")); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
	if _, err := PublicKey(private); err == nil {
		t.Error("a private key was read as a public one")
	}
}

// TestSignatureOfAnother moves the signatures of one artifact to another's tag.
func TestSignatureOfAnother(t *testing.T) {
	client, host := serve(t, nil)
	private, public := registry.Keys(t, "")
	signer, err := PrivateKey(private, nil)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := PublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	good, bad := "oci://"+host+"/general:1.0.0", "oci://"+host+"/general:2.0.0"
	signed, err := client.Push(t.Context(), good, example("a: 1"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := client.Push(t.Context(), bad, example("a: 2"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Sign(t.Context(), good, signer); err != nil {
		t.Fatal(err)
	}
	r, err := parseReference(good)
	if err != nil {
		t.Fatal(err)
	}
	repository := client.repositoryOf(r)
	manifest, err := repository.Resolve(t.Context(), signatureTag(signed))
	if err != nil {
		t.Fatal(err)
	}
	if err := repository.Tag(t.Context(), manifest, signatureTag(other)); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Verify(t.Context(), bad, verifier); err == nil || !strings.Contains(err.Error(), "the signature is for "+signed.String()) {
		t.Errorf("verified: %v", err)
	}
}
