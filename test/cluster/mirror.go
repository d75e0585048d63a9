package cluster

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/kilnvm/kiln/certs"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// follows is how often the Secret is read. kubelet is slower, and an open watch would bring a cache for one object.
const follows = time.Second

// Mirror does what kubelet does for pods: it writes certificate and key of the webhook's Secret in a namespace into a folder whenever they
// change, until the context ends.
// It fails only before the first reading: for a kubeconfig that cannot be used, or a folder that cannot be made.
func Mirror(ctx context.Context, kubeconfig, namespace, dir string) error {
	return mirrors(ctx, kubeconfig, dir, func(ctx context.Context, server kubernetes.Interface) error {
		return mirror(ctx, server, namespace, dir)
	})
}

// mirrors calls once again and again until the context ends.
func mirrors(ctx context.Context, kubeconfig, dir string, once func(context.Context, kubernetes.Interface) error) error {
	access, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	server, err := kubernetes.NewForConfig(access)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	_ = wait.PollUntilContextCancel(ctx, follows, true, func(ctx context.Context) (bool, error) {
		// Errors are of the moment: the Secret is not signed yet, or the API server is away.
		_ = once(ctx, server)
		return false, nil
	})
	return nil
}

// mirror waits with a new certificate until the API server trusts its CA: here, unlike in a pod, the files could otherwise be faster.
func mirror(ctx context.Context, server kubernetes.Interface, namespace, dir string) error {
	secret, err := server.CoreV1().Secrets(namespace).Get(ctx, certs.Secret, metav1.GetOptions{})
	if err != nil {
		return err
	}
	bundles, err := bundles(ctx, server)
	if err != nil {
		return err
	}
	// The rotation keeps the CA beside the certificate. Every webhook must trust it, because each is called with the same certificate.
	ca := secret.Data[corev1.ServiceAccountRootCAKey]
	for _, bundle := range bundles {
		if len(ca) == 0 || !bytes.Equal(bundle, ca) {
			return nil
		}
	}
	return lay(dir, secret, corev1.TLSPrivateKeyKey, corev1.TLSCertKey)
}

// lay writes files of a Secret. The key comes first: in the moment between it and the certificate the pair does not fit, and the old one stays in use.
func lay(dir string, secret *corev1.Secret, names ...string) error {
	for _, name := range names {
		if err := replace(filepath.Join(dir, name), secret.Data[name]); err != nil {
			return err
		}
	}
	return nil
}

// bundles are the CA bundles of all webhooks.
func bundles(ctx context.Context, server kubernetes.Interface) (all [][]byte, err error) {
	mutating, err := server.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, certs.Mutating, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	validating, err := server.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, certs.Validating, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
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
