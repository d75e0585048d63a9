package cluster

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/kilnvm/kiln/certs"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// follows is how often the Secret is read. kubelet is slower, and an open watch would bring a cache for one object.
const follows = time.Second

// Mirror does what kubelet does for pods: it writes certificate and key of the webhook's Secret into a folder whenever they change, until the
// context ends.
func Mirror(ctx context.Context, kubeconfig, dir string) error {
	access, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), admissionv1.AddToScheme(scheme), os.MkdirAll(dir, 0o700)); err != nil {
		return err
	}
	reader, err := client.New(access, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	_ = wait.PollUntilContextCancel(ctx, follows, true, func(ctx context.Context) (bool, error) {
		// Errors are of the moment: the Secret is not signed yet, or the API server is away.
		_ = mirror(ctx, reader, dir)
		return false, nil
	})
	return nil
}

// mirror waits with a new certificate until the API server trusts its CA: here, unlike in a pod, the files could otherwise be faster.
func mirror(ctx context.Context, reader client.Reader, dir string) error {
	var secret corev1.Secret
	if err := reader.Get(ctx, client.ObjectKey{Namespace: system, Name: certs.Secret}, &secret); err != nil {
		return err
	}
	bundles, err := bundles(ctx, reader)
	if err != nil {
		return err
	}
	ca := secret.Data[corev1.ServiceAccountRootCAKey]
	for _, bundle := range bundles {
		if len(ca) == 0 || !bytes.Equal(bundle, ca) {
			return nil
		}
	}
	// The key first: in the moment between the two the pair does not fit and the old one stays in use.
	for _, name := range []string{corev1.TLSPrivateKeyKey, corev1.TLSCertKey} {
		if err := replace(filepath.Join(dir, name), secret.Data[name]); err != nil {
			return err
		}
	}
	return nil
}

// bundles are the CA bundles of all webhooks.
func bundles(ctx context.Context, reader client.Reader) ([][]byte, error) {
	var mutating admissionv1.MutatingWebhookConfiguration
	if err := reader.Get(ctx, client.ObjectKey{Name: certs.Mutating}, &mutating); err != nil {
		return nil, err
	}
	var validating admissionv1.ValidatingWebhookConfiguration
	if err := reader.Get(ctx, client.ObjectKey{Name: certs.Validating}, &validating); err != nil {
		return nil, err
	}
	var all [][]byte
	for _, hook := range mutating.Webhooks {
		all = append(all, hook.ClientConfig.CABundle)
	}
	for _, hook := range validating.Webhooks {
		all = append(all, hook.ClientConfig.CABundle)
	}
	return all, nil
}

// replace writes a file that a reader sees whole or not at all, and leaves one alone that is right.
func replace(file string, content []byte) error {
	if now, err := os.ReadFile(file); err == nil && bytes.Equal(now, content) {
		return nil
	}
	if err := os.WriteFile(file+".new", content, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}
