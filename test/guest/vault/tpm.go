package main

import (
	"crypto/sha256"
	"fmt"

	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport"
)

// secureBoot is the PCR into which firmware and shim measure the keys of Secure Boot, and what they have verified with them (TCG PC Client Platform Firmware
// Profile, 3.3.4.8).
const secureBoot = 7

var pcrs = tpm2.TPMLPCRSelection{PCRSelections: []tpm2.TPMSPCRSelection{
	{Hash: tpm2.TPMAlgSHA256, PCRSelect: tpm2.PCClientCompatible.PCRs(secureBoot)}}}

// vault is a TPM with its storage root key, which a TPM derives from a seed that never leaves it.
type vault struct {
	tpm  transport.TPM
	root tpm2.NamedHandle
}

func openVault(tpm transport.TPM) (*vault, error) {
	key, err := tpm2.CreatePrimary{PrimaryHandle: tpm2.TPMRHOwner, InPublic: tpm2.New2B(tpm2.ECCSRKTemplate)}.Execute(tpm)
	if err != nil {
		return nil, fmt.Errorf("the storage root key: %w", err)
	}
	return &vault{tpm, tpm2.NamedHandle{Handle: key.ObjectHandle, Name: key.Name}}, nil
}

// beginPolicySession begins a session and returns the digest of its policy, which demands the current value of PCR 7.
func (v *vault) beginPolicySession(options ...tpm2.AuthOption) (session tpm2.Session, digest tpm2.TPM2BDigest, end func() error, err error) {
	if session, end, err = tpm2.PolicySession(v.tpm, tpm2.TPMAlgSHA256, 16, options...); err != nil {
		return nil, digest, nil, fmt.Errorf("a policy session: %w", err)
	}
	if _, err = (tpm2.PolicyPCR{PolicySession: session.Handle(), Pcrs: pcrs}).Execute(v.tpm); err == nil {
		var current *tpm2.PolicyGetDigestResponse
		if current, err = (tpm2.PolicyGetDigest{PolicySession: session.Handle()}).Execute(v.tpm); err == nil {
			return session, current.PolicyDigest, end, nil
		}
	}
	_ = end()
	return nil, digest, nil, fmt.Errorf("the policy: %w", err)
}

// sealSecret returns the secret as only this TPM opens it, and only while PCR 7 is as it is now.
func (v *vault) sealSecret(secret []byte) (sealed, error) {
	_, digest, end, err := v.beginPolicySession(tpm2.Trial())
	if err != nil {
		return sealed{}, err
	}
	if err := end(); err != nil {
		return sealed{}, err
	}
	made, err := tpm2.Create{
		ParentHandle: v.root,
		InSensitive: tpm2.TPM2BSensitiveCreate{Sensitive: &tpm2.TPMSSensitiveCreate{
			Data: tpm2.NewTPMUSensitiveCreate(&tpm2.TPM2BSensitiveData{Buffer: secret})}},
		InPublic: tpm2.New2B(tpm2.TPMTPublic{
			Type: tpm2.TPMAlgKeyedHash, NameAlg: tpm2.TPMAlgSHA256, AuthPolicy: digest,
			ObjectAttributes: tpm2.TPMAObject{FixedTPM: true, FixedParent: true, NoDA: true},
		}),
	}.Execute(v.tpm)
	if err != nil {
		return sealed{}, fmt.Errorf("the secret is not sealed: %w", err)
	}
	return sealed{tpm2.Marshal(made.OutPublic), tpm2.Marshal(made.OutPrivate)}, nil
}

// unsealSecret returns the secret.
func (v *vault) unsealSecret(what sealed) ([]byte, error) {
	public, err := tpm2.Unmarshal[tpm2.TPM2BPublic](what.Public)
	if err != nil {
		return nil, err
	}
	private, err := tpm2.Unmarshal[tpm2.TPM2BPrivate](what.Private)
	if err != nil {
		return nil, err
	}
	object, err := tpm2.Load{ParentHandle: v.root, InPublic: *public, InPrivate: *private}.Execute(v.tpm)
	if err != nil {
		return nil, fmt.Errorf("the secret was not sealed by this TPM: %w", err)
	}
	defer tpm2.FlushContext{FlushHandle: object.ObjectHandle}.Execute(v.tpm) //nolint:errcheck // the TPM forgets it at the end of the connection
	session, _, end, err := v.beginPolicySession()
	if err != nil {
		return nil, err
	}
	defer end() //nolint:errcheck // as above
	unsealed, err := tpm2.Unseal{ItemHandle: tpm2.AuthHandle{Handle: object.ObjectHandle, Name: object.Name, Auth: session}}.Execute(v.tpm)
	if err != nil {
		return nil, err
	}
	return unsealed.OutData.Buffer, nil
}

// extendPCR changes PCR 7 until the machine is started again.
func (v *vault) extendPCR() error {
	digest := sha256.Sum256([]byte("another boot loader"))
	_, err := tpm2.PCRExtend{
		PCRHandle: tpm2.AuthHandle{Handle: tpm2.TPMHandle(secureBoot), Auth: tpm2.PasswordAuth(nil)},
		Digests:   tpm2.TPMLDigestValues{Digests: []tpm2.TPMTHA{{HashAlg: tpm2.TPMAlgSHA256, Digest: digest[:]}}},
	}.Execute(v.tpm)
	return err
}
