// Command publish pushes the images and the chart of a release to a registry, and attaches the bill of materials to each. With a key it also signs them, and
// the list of sums. Run it after 'go run ./manifests/release', with the credentials that 'docker login' has written:
//
//	COSIGN_PASSWORD=... go run ./manifests/publish -from bin/release -to registry.example.org/kiln -key cosign.key
//
// pushes kiln:VERSION and charts/kiln:VERSION below registry.example.org/kiln, and writes bin/release/SHA256SUMS.sig and cosign.pub. It prints each artifact by
// its digest. What is pushed already is left as it is. A tag is never moved.
package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/kilnvm/kiln/internal/oci"
	"github.com/opencontainers/go-digest"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
)

// options are the flags.
type options struct {
	from, to, launcher, key string
	registry                oci.Options
}

// passwordVariable is the environment variable from which cosign, too, reads the password of a private key.
const passwordVariable = "COSIGN_PASSWORD"

// materialsType is the media type of the bill of materials: https://cyclonedx.org/specification/overview/
const materialsType = "application/vnd.cyclonedx+json"

func main() {
	o := options{registry: oci.Options{UserAgent: "kiln-publish"}}
	flag.StringVar(&o.from, "from", "bin/release", "folder of the release")
	flag.StringVar(&o.to, "to", "", "registry, with or without a path: the images are pushed below it, and the chart into its folder charts")
	flag.StringVar(&o.launcher, "launcher", "", "archive of the image 'launcher', which 'make image IMAGE=launcher' writes (default: not pushed)")
	flag.StringVar(&o.key, "key", "", "file of a private key of 'cosign generate-key-pair', whose password is in "+passwordVariable+" (default: none)")
	flag.BoolVar(&o.registry.PlainHTTP, "plain-http", false, "reach the registry by HTTP instead of HTTPS")
	flag.StringVar(&o.registry.CAFile, "registry-ca", "", "file with certificates of further authorities for the registry, in PEM")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	published, err := publish(ctx, o)
	stop()
	for _, artifact := range published {
		fmt.Println(artifact)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "publish:", err)
		os.Exit(1)
	}
}

// published is an artifact in the registry.
type published struct {
	reference string
	digest    digest.Digest
}

func (p published) String() string { return p.reference + "@" + p.digest.String() }

// publish pushes, attaches and signs. The chart is last, because it names the images. It also returns what was published before an error.
func publish(ctx context.Context, o options) (all []published, err error) {
	if o.to == "" {
		return nil, errors.New("-to names the registry, such as registry.example.org/kiln")
	}
	materials, err := os.ReadFile(filepath.Join(o.from, "kiln.cdx.json"))
	if err != nil {
		return nil, fmt.Errorf("-from must be a folder that 'make release' has written: %w", err)
	}
	signer, err := o.signer()
	if err != nil {
		return nil, err
	}
	client, err := oci.New(o.registry)
	if err != nil {
		return nil, err
	}
	archives := [][2]string{{filepath.Join(o.from, "kiln-image.tar"), "kiln"}}
	if o.launcher != "" {
		archives = append(archives, [2]string{o.launcher, "kiln-launcher"})
	}
	archives = append(archives, [2]string{filepath.Join(o.from, "kiln-chart.tar"), "charts/kiln"})
	for _, archive := range archives {
		reference, pushed, err := client.PushArchive(ctx, archive[0], o.to+"/"+archive[1])
		if err != nil {
			return all, err
		}
		if _, err := client.Attach(ctx, reference, materialsType, "kiln.cdx.json", materials); err != nil {
			return all, err
		}
		if signer != nil {
			if err := signOnce(ctx, client, reference, signer); err != nil {
				return all, err
			}
		}
		all = append(all, published{reference, pushed})
	}
	if signer == nil {
		return all, nil
	}
	return all, signSums(o.from, signer)
}

// signer returns the private key, or nil if nothing is to be signed.
func (o options) signer() (signature.SignerVerifier, error) {
	if o.key == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(o.key)
	if err != nil {
		return nil, err
	}
	signer, err := oci.PrivateKey(raw, []byte(os.Getenv(passwordVariable)))
	if err != nil {
		return nil, fmt.Errorf("'%s' with the password in %s: %w", o.key, passwordVariable, err)
	}
	return signer, nil
}

// signOnce signs an artifact unless this key has signed it.
func signOnce(ctx context.Context, client *oci.Client, reference string, signer signature.SignerVerifier) error {
	_, err := client.Verify(ctx, reference, signer)
	var unsigned *oci.UnsignedError
	if !errors.As(err, &unsigned) {
		return err
	}
	_, err = client.Sign(ctx, reference, signer)
	return err
}

// signSums writes the signature of the list of sums, as 'cosign sign-blob' writes it, and the public key.
func signSums(folder string, signer signature.SignerVerifier) error {
	list, err := os.ReadFile(filepath.Join(folder, "SHA256SUMS"))
	if err != nil {
		return err
	}
	signed, err := signer.SignMessage(bytes.NewReader(list))
	if err != nil {
		return err
	}
	key, err := signer.PublicKey()
	if err != nil {
		return err
	}
	public, err := cryptoutils.MarshalPublicKeyToPEM(key)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(folder, "SHA256SUMS.sig"), []byte(base64.StdEncoding.EncodeToString(signed)+"\n"), 0o644),
		os.WriteFile(filepath.Join(folder, "cosign.pub"), public, 0o644))
}
