package manifests_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// keyedState: with the rights of the manifests, the controller makes a key that it cannot read, finds out that a Secret is missing, and goes on when it is
// restored. Claim and Secret go with their owner.
func keyedState(t *testing.T, p plane) {
	p.kubectl(t, withTPM("b"), "create", "-f", "-")
	p.kubectl(t, "", "wait", "--for=create", "pod/guest-b", "-n", "team", "--timeout=60s")
	const annotation = `{.metadata.annotations.kilnvm\.io/tpm-key}`
	secret := p.jsonPath(t, "persistentvolumeclaim/guest-state-b", annotation)
	mounted := p.jsonPath(t, "pod/guest-b", `{.spec.volumes[?(@.name=="key")].secret.secretName}`)
	if of := p.jsonPath(t, "secret/"+secret, "{.type} {.immutable}"); secret == "" || mounted != secret || of != "kilnvm.io/tpm-key true" {
		t.Fatalf("the claim names Secret '%s', which is '%s'; the pod mounts '%s'", secret, of, mounted)
	}
	controller := p.client(t, rest.ImpersonationConfig{UserName: controllerAccount, Groups: []string{"system:serviceaccounts", "system:authenticated"}})
	secrets := controller.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace("team")
	if _, err := secrets.Get(t.Context(), secret, metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the controller reads the key: %v", err)
	}
	if _, err := secrets.List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the controller lists Secrets: %v", err)
	}
	p.kubectl(t, "", "delete", "vmi", "b", "-n", "team", "--timeout=60s")
	p.kubectl(t, "", "wait", "--for=delete", "secret/"+secret, "-n", "team", "--timeout=60s")
	// No controller of this server takes the finalizer of claims away.
	eventually(t, "the claim is deleted", func() bool {
		return p.jsonPath(t, "persistentvolumeclaim/guest-state-b", "{.metadata.deletionTimestamp}") != ""
	})

	const restored = "guest-state-c-abcdefghijklmnop"
	p.kubectl(t, `{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "guest-state-c", "namespace": "team", "annotations":
		{"kilnvm.io/tpm-key": "`+restored+`"}}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Mi"}}}}`, "create", "-f", "-")
	p.kubectl(t, withTPM("c"), "create", "-f", "-")
	eventually(t, "the Secret is missed", func() bool {
		return strings.Contains(p.jsonPath(t, "vmi/c", `{.status.conditions[?(@.type=="Synchronized")].message}`), "Secret '"+restored+"' does not exist")
	})
	if made := p.kubectl(t, "", "get", "secrets", "-n", "team", "-o", "name"); strings.Contains(made, "guest-state-") {
		t.Errorf("another key was made: %s", made)
	}
	p.kubectl(t, "", "create", "secret", "generic", restored, "-n", "team", "--from-literal=key=k")
	p.kubectl(t, "", "wait", "--for=create", "pod/guest-c", "-n", "team", "--timeout=60s")
}

// withTPM is the guest under another name, with a TPM whose state outlives its pods.
func withTPM(name string) string {
	named := strings.Replace(placedGuest, `"name": "a"`, `"name": "`+name+`"`, 1)
	return strings.Replace(named, `"devices": {`, `"devices": {"tpm": {"persistent": true}, `, 1)
}
