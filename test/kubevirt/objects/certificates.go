//go:build kubevirt

package main

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"kubevirt.io/kubevirt/pkg/certificates/bootstrap"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/components"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/install"
)

// authorities are the certificates that sign the others. Each is in a Secret and, without its key, in a ConfigMap of the same name.
var authorities = []string{components.KubeVirtCASecretName, components.KubeVirtExportCASecretName, components.KubeVirtBackupCASecretName}

// How long certificates are valid if the KubeVirt object does not say so. virt-operator replaces them in time; no process replaces them here.
const ofAuthorities, ofOthers = 7 * 24 * time.Hour, 24 * time.Hour

// certify adds what virt-operator adds first in each of its rounds: certificates in Secrets, the authorities in ConfigMaps, in
// webhook configurations and in APIServices.
func certify(strategy *install.Strategy) error {
	signers := map[string]*tls.Certificate{}
	for _, secret := range strategy.CertificateSecrets() {
		if !slices.Contains(authorities, secret.Name) {
			continue
		}
		if err := components.PopulateSecretWithCertificate(secret, nil, &metav1.Duration{Duration: ofAuthorities}); err != nil {
			return err
		}
		signer, err := components.LoadCertificates(secret)
		if err != nil {
			return err
		}
		signers[secret.Name] = signer
	}
	signer := signers[components.KubeVirtCASecretName]
	if signer == nil {
		return fmt.Errorf("virt-operator has no Secret '%s'", components.KubeVirtCASecretName)
	}
	for _, secret := range strategy.CertificateSecrets() {
		if slices.Contains(authorities, secret.Name) {
			continue
		}
		if err := components.PopulateSecretWithCertificate(secret, signer, &metav1.Duration{Duration: ofOthers}); err != nil {
			return fmt.Errorf("Secret '%s': %w", secret.Name, err)
		}
	}
	publish(strategy)
	return nil
}

// publish writes the authorities to where their readers look for them.
func publish(strategy *install.Strategy) {
	bundles := map[string]string{}
	for _, secret := range strategy.CertificateSecrets() {
		if slices.Contains(authorities, secret.Name) {
			bundles[secret.Name] = string(secret.Data[bootstrap.CertBytesValue])
		}
	}
	for _, object := range strategy.ConfigMaps() {
		object.Data = map[string]string{components.CABundleKey: bundles[object.Name]}
	}
	bundle := []byte(bundles[components.KubeVirtCASecretName])
	for _, object := range strategy.MutatingWebhookConfigurations() {
		for i := range object.Webhooks {
			object.Webhooks[i].ClientConfig.CABundle = bundle
		}
	}
	for _, object := range strategy.ValidatingWebhookConfigurations() {
		for i := range object.Webhooks {
			object.Webhooks[i].ClientConfig.CABundle = bundle
		}
	}
	for _, object := range strategy.APIServices() {
		object.Spec.CABundle = bundle
	}
}

// printConfigMaps prints each ConfigMap once: virt-operator has them twice.
func printConfigMaps(lines *json.Encoder, strategy *install.Strategy) func() error {
	return printEach(lines, slices.CompactFunc(slices.SortedFunc(slices.Values(strategy.ConfigMaps()), byName), sameName))
}

func byName(a, b *corev1.ConfigMap) int { return strings.Compare(a.Name, b.Name) }

func sameName(a, b *corev1.ConfigMap) bool { return a.Name == b.Name }
