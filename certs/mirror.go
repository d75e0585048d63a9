package certs

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Mirror writes the Secret's certificate and key into o.Dir whenever they change: what kubelet does for
// a pod, for a webhook that runs outside of the cluster. The manager's scheme must know core/v1 and
// admissionregistration.k8s.io/v1.
func Mirror(mgr manager.Manager, o Options) error {
	return mgr.Add(mirror{reader: mgr.GetAPIReader(), dir: o.Dir, namespace: o.namespace()})
}

type mirror struct {
	reader         client.Reader
	dir, namespace string
}

// follows is how often the Secret is read. kubelet is slower, and an open watch would bring a second
// cache for one object of a development setup.
const follows = time.Second

func (m mirror) NeedLeaderElection() bool { return false }

func (m mirror) Start(ctx context.Context) error {
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return err
	}
	_ = wait.PollUntilContextCancel(ctx, follows, true, func(ctx context.Context) (bool, error) {
		// Errors are of the moment: the Secret is not signed yet, or the API server is away.
		_ = m.copy(ctx)
		return false, nil
	})
	return nil
}

// copy waits with a new certificate until the API server trusts its CA: here, unlike in a pod, the
// files could otherwise be faster.
func (m mirror) copy(ctx context.Context) error {
	var secret corev1.Secret
	if err := m.reader.Get(ctx, client.ObjectKey{Namespace: m.namespace, Name: Secret}, &secret); err != nil {
		return err
	}
	bundles, err := m.bundles(ctx)
	if err != nil {
		return err
	}
	ca := secret.Data[caFile]
	for _, bundle := range bundles {
		if len(ca) == 0 || !bytes.Equal(bundle, ca) {
			return nil
		}
	}
	// The key first: in the moment between the two the pair does not fit and the old one stays in use.
	for _, name := range []string{keyFile, certificateFile} {
		if err := replace(filepath.Join(m.dir, name), secret.Data[name]); err != nil {
			return err
		}
	}
	return nil
}

// bundles are the CA bundles of all webhooks.
func (m mirror) bundles(ctx context.Context) ([][]byte, error) {
	var mutating admissionv1.MutatingWebhookConfiguration
	if err := m.reader.Get(ctx, client.ObjectKey{Name: Mutating}, &mutating); err != nil {
		return nil, err
	}
	var validating admissionv1.ValidatingWebhookConfiguration
	if err := m.reader.Get(ctx, client.ObjectKey{Name: Validating}, &validating); err != nil {
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
