package catalogcmd

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/oci"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/opencontainers/go-digest"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// passwordVariable is the environment variable from which cosign, too, reads the password of a private key.
// There is no flag for the password, because others could read it in the list of processes.
const passwordVariable = "COSIGN_PASSWORD"

// catalogSignCommand returns 'catalog sign'. It signs the digest that the tag names now, and prints it. It keeps existing signatures. The exit status is
// 0, or 2 for a fault.
func catalogSignCommand(s *cmdutil.Session) *cobra.Command {
	o := newCatalogOptions(s)
	var key string
	cmd := &cobra.Command{
		Use: "sign oci://HOST/REPOSITORY:VERSION --key FILE", Short: "Sign a published catalog with a key, in cosign's format",
		Long: "Sign a published catalog with a key, in cosign's format: 'cosign verify --key cosign.pub --insecure-ignore-tlog' accepts the\n" +
			"signature. The key is made by 'cosign generate-key-pair'. Its password is in " + passwordVariable + " or is typed in the terminal. No\n" +
			"transparency log is written.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			raw, err := manifest.ReadFile(key)
			if err != nil {
				return err
			}
			password, err := o.readPassword()
			if err != nil {
				return err
			}
			signer, err := oci.PrivateKey(raw, password)
			if err != nil {
				return fmt.Errorf("'%s': %w", key, err)
			}
			client, err := o.RegistryClient()
			if err != nil {
				return err
			}
			digest, err := client.Sign(cmd.Context(), args[0], signer)
			if err != nil {
				return err
			}
			fmt.Fprintf(o.Out, "%s@%s: signed\n", args[0], digest)
			return nil
		},
	}
	addKey(cmd, &key, "file of the private key")
	o.AddRegistry(cmd)
	return cmd
}

// catalogVerifyCommand returns 'catalog verify'. The exit status is 1 if there is no valid signature, and 2 for a fault, because a
// pipeline must not take an unreachable registry for an unsigned catalog.
func catalogVerifyCommand(s *cmdutil.Session) *cobra.Command {
	o := newCatalogOptions(s)
	var key string
	cmd := &cobra.Command{
		Use: "verify oci://HOST/REPOSITORY:VERSION --key FILE", Short: "Verify that a published catalog has a signature of a key",
		Long: "Verify that a published catalog has a signature of a key, made by 'kubectl kiln catalog sign' or by 'cosign sign --key'. The\n" +
			"answer names the digest that was signed: a tag may be moved later.\n\n" +
			"The exit status is 1 if there is no valid signature of the key.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := o.RegistryClient()
			if err != nil {
				return err
			}
			digest, err := o.verifySignature(cmd.Context(), client, signedBy{args[0], key})
			if err != nil {
				return err
			}
			fmt.Fprintf(o.Out, "%s@%s: verified\n", args[0], digest)
			return nil
		},
	}
	addKey(cmd, &key, "file of the public key")
	o.AddRegistry(cmd)
	return cmd
}

// signedBy is an artifact and the file of a public key.
type signedBy struct{ reference, key string }

// readKey reads the file of a public key.
func readKey(file string) (signature.Verifier, error) {
	raw, err := manifest.ReadFile(file)
	if err != nil {
		return nil, err
	}
	key, err := oci.PublicKey(raw)
	if err != nil {
		return nil, fmt.Errorf("'%s': %w", file, err)
	}
	return key, nil
}

// verifySignature returns the digest of an artifact with a valid signature of a key. If there is no such signature, it prints the reasons and returns
// ErrRejected.
func (o *catalogOptions) verifySignature(ctx context.Context, client *oci.Client, s signedBy) (digest.Digest, error) {
	key, err := readKey(s.key)
	if err != nil {
		return "", err
	}
	found, err := client.Verify(ctx, s.reference, key)
	var unsigned *oci.UnsignedError
	if errors.As(err, &unsigned) {
		fmt.Fprintln(o.ErrOut, cmdutil.Printable(err.Error()))
		return "", cmdutil.ErrRejected
	}
	return found, err
}

// addKey adds --key, which is required. cosign has the same flag.
func addKey(cmd *cobra.Command, key *string, usage string) {
	cmd.Flags().StringVar(key, "key", "", usage+", in PEM")
	_ = cmd.MarkFlagRequired("key") // fails for a flag that is not there
}

// readPassword returns the password of a private key from the environment or from the terminal.
// The variable may be empty, for a key without encryption. Without a terminal, as in a pipeline, it fails. The prompt
// is printed to standard error, so that standard output contains only the answer.
func (o *catalogOptions) readPassword() ([]byte, error) {
	if given, found := os.LookupEnv(passwordVariable); found {
		return []byte(given), nil
	}
	terminal, ok := o.In.(*os.File)
	if !ok || !term.IsTerminal(int(terminal.Fd())) {
		return nil, errors.New("the password of the key must be in the environment variable " + passwordVariable + ", or be typed in a terminal")
	}
	fmt.Fprint(o.ErrOut, "Password of the private key: ")
	defer fmt.Fprintln(o.ErrOut)
	return term.ReadPassword(int(terminal.Fd()))
}
