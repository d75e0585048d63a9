package certs

import (
	"bytes"
	"context"
	"encoding/pem"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// overlap keeps the previous CA beside the new one. cert-controller replaces the CA at once, in the Secret and in the webhook configurations, while kubelet
// takes up to two minutes to mount the new certificate. In between, the API server would not trust the served certificate, and with failurePolicy Fail no VM
// could be written. cert-controller signs with the first certificate of ca.crt and injects the whole file. So overlap appends the old CA to the file, and
// drops it when the next CA comes.
type overlap struct {
	client.Client
	live client.Reader
}

// Update adds the CA of the stored Secret. If another process has written the Secret meanwhile, the update fails because of its resourceVersion. So the CA
// that was read is always the one that is replaced.
func (o overlap) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	if secret, ok := object.(*corev1.Secret); ok {
		var stored corev1.Secret
		if err := o.live.Get(ctx, client.ObjectKeyFromObject(secret), &stored); err != nil {
			return err
		}
		secret.Data[caFile] = bundleCAs(secret.Data[caFile], stored.Data[caFile])
	}
	return o.Client.Update(ctx, object, options...)
}

// bundleCAs returns the new CA followed by the previous one, as PEM. If only the certificate was renewed, it returns next unchanged.
func bundleCAs(next, stored []byte) []byte {
	current, previous := firstCertificate(next), firstCertificate(stored)
	if previous == nil || bytes.Equal(current, previous) {
		return next
	}
	return append(current, previous...)
}

// firstCertificate returns the first certificate of a bundle, as PEM; nil if the bundle has no certificate.
func firstCertificate(bundle []byte) []byte {
	block, _ := pem.Decode(bundle)
	if block == nil {
		return nil
	}
	return pem.EncodeToMemory(block)
}
