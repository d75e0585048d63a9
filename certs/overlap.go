package certs

import (
	"bytes"
	"context"
	"encoding/pem"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// overlap keeps the previous CA beside the new one.
//
// cert-controller replaces the CA at once, in the Secret and in the webhook configurations, while
// kubelet takes up to two minutes to mount the new certificate: in between the API server would not
// trust what is served, and with failurePolicy Fail no VM could be written. cert-controller signs with
// the first certificate of ca.crt and injects the whole file. So the old one is appended to it, and
// goes when the new one is replaced in its turn.
type overlap struct {
	client.Client
	live client.Reader
}

// Update adds the CA of the Secret as it is stored now. When somebody else has written it meanwhile,
// the update fails on its resourceVersion, so what was read here is always what is replaced.
func (o overlap) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	if secret, ok := object.(*corev1.Secret); ok {
		var stored corev1.Secret
		if err := o.live.Get(ctx, client.ObjectKeyFromObject(secret), &stored); err != nil {
			return err
		}
		secret.Data[caFile] = bundle(secret.Data[caFile], stored.Data[caFile])
	}
	return o.Client.Update(ctx, object, options...)
}

// bundle returns the new CA followed by the previous one, PEM. If only the certificate was renewed, it returns the bundle unchanged.
func bundle(next, stored []byte) []byte {
	current, previous := first(next), first(stored)
	if previous == nil || bytes.Equal(current, previous) {
		return next
	}
	return append(current, previous...)
}

// first returns the first certificate of a bundle, nil if there is none.
func first(bundle []byte) []byte {
	block, _ := pem.Decode(bundle)
	if block == nil {
		return nil
	}
	return pem.EncodeToMemory(block)
}
