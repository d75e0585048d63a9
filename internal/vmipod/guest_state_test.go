package vmipod

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/pod"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// vmiWithState returns a VMI whose TPM, EFI variables or both outlive the pod.
func vmiWithState(tpm, variables bool) *v1.VirtualMachineInstance {
	vmi := explicitVMI()
	if tpm {
		vmi.Spec.Domain.Devices.TPM = &v1.TPMDevice{Persistent: new(true)}
	}
	if variables {
		vmi.Spec.Domain.Firmware = &v1.Firmware{Bootloader: &v1.Bootloader{EFI: &v1.EFI{Persistent: new(true), SecureBoot: new(false)}}}
	}
	return vmi
}

// withStorage is a cluster that has a storage class for state.
func withStorage(t *testing.T, objects ...client.Object) *cluster {
	t.Helper()
	on := newCluster(t, objects...)
	on.setStateClass()
	return on
}

func (c *cluster) setStateClass() {
	c.controller.Configuration = func() config.Cluster {
		now := config.Default()
		now.Pods.StateClass = "fast"
		return now
	}
}

func (c *cluster) stateClaim() *corev1.PersistentVolumeClaim {
	return read(c, client.ObjectKey{Namespace: "team", Name: pod.StateName("a")}, &corev1.PersistentVolumeClaim{})
}

func (c *cluster) secrets() []corev1.Secret {
	c.Helper()
	var list corev1.SecretList
	c.must(c.List(c.Context(), &list))
	return list.Items
}

// mountedSecret returns the Secret that the pod mounts, empty for none.
func mountedSecret(made *corev1.Pod) string {
	for _, v := range made.Spec.Volumes {
		if v.Secret != nil {
			return v.Secret.SecretName
		}
	}
	return ""
}

// existingStateClaim is a claim for state. The annotation is left out if it is empty.
func existingStateClaim(secret string) client.Object {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: pod.StateName("a"), UID: "claim"}}
	if secret != "" {
		claim.Annotations = map[string]string{v1alpha1.AnnotationTPMKey: secret}
	}
	return claim
}

// TestStateThatOutlivesAPod: claim and Secret are made before the pod, and are the VM's. Only a persistent TPM gets a key.
func TestStateThatOutlivesAPod(t *testing.T) {
	on := newCluster(t, vmiWithState(true, false))
	on.reconcileAll()
	on.expectRefusal("no storage class", v1alpha1.ReasonNotPlaceable, "vmStateStorageClass")
	if len(on.secrets()) > 0 {
		t.Error("a refused guest has a key")
	}
	for why, c := range map[string]struct{ tpm, variables bool }{"a TPM": {true, false}, "both": {true, true}, "variables": {false, true}} {
		on := withStorage(t, vmiWithState(c.tpm, c.variables))
		on.reconcileAll()
		claim, secrets := on.stateClaim(), on.secrets()
		if claim == nil || *claim.Spec.StorageClassName != "fast" || claim.OwnerReferences[0].UID != "vm" || on.pod() == nil {
			t.Fatalf("%s: the claim is %+v, pod %v", why, claim, on.pod() != nil)
		}
		if !c.tpm {
			if len(secrets) > 0 || mountedSecret(on.pod()) != "" || len(claim.Annotations) > 0 {
				t.Errorf("%s: Secrets %v, annotations of the claim %v", why, secrets, claim.Annotations)
			}
			continue
		}
		if len(secrets) != 1 {
			t.Fatalf("%s: there are %d Secrets", why, len(secrets))
		}
		secret := secrets[0]
		if diff := cmp.Diff(claim.OwnerReferences, secret.OwnerReferences); diff != "" {
			t.Errorf("%s: claim and Secret have different owners:\n%s", why, diff)
		}
		if key := string(secret.Data[pod.KeyFile]); len(key) != 52 || !pod.HoldsKey(secret.Name, key) || !pod.IsKeySecret(secret.Name) || !*secret.Immutable {
			t.Errorf("%s: the Secret is %+v", why, secret)
		}
		if claim.Annotations[v1alpha1.AnnotationTPMKey] != secret.Name || mountedSecret(on.pod()) != secret.Name {
			t.Errorf("%s: Secret '%s', the claim names %v, the pod mounts '%s'", why, secret.Name, claim.Annotations, mountedSecret(on.pod()))
		}
	}
}

// TestKeysDiffer: two VMs never have the same key.
func TestKeysDiffer(t *testing.T) {
	if one, another := newKey(), newKey(); one == another {
		t.Error("two keys are equal")
	}
}

// TestStateOfAnEarlierBoot: a claim that exists says whether its state is encrypted. Its key is never replaced.
func TestStateOfAnEarlierBoot(t *testing.T) {
	lost := pod.KeySecret(pod.Input{VMI: explicitVMI()}, "LOST").Name
	kept := pod.KeySecret(pod.Input{VMI: explicitVMI()}, "KEPT")
	for _, c := range []struct {
		why     string
		vmi     *v1.VirtualMachineInstance
		claim   client.Object
		mounts  string
		refused string
	}{
		{"a claim of an earlier release", vmiWithState(true, true), existingStateClaim(""), "", ""},
		{"a claim and its key", vmiWithState(true, true), existingStateClaim(kept.Name), kept.Name, ""},
		{"a backup without the Secret", vmiWithState(true, true), existingStateClaim(lost), "", "Secret '" + lost + "' does not exist"},
		{"a TPM that is no more, without the Secret", vmiWithState(false, true), existingStateClaim(lost), "", ""},
		{"another Secret of the tenant's", vmiWithState(true, false), existingStateClaim("bank-password"), "", "is not the name of a Secret with the key of a TPM"},
		{"an impossible name", vmiWithState(true, false), existingStateClaim("guest-state-../-aaaaaaaaaaaaaaaa"), "",
			"is not the name of a Secret with the key of a TPM"},
	} {
		on := withStorage(t, c.vmi, c.claim, kept.DeepCopy())
		on.reconcileAll()
		if c.refused != "" {
			on.expectRefusal(c.why, v1alpha1.ReasonNotPlaceable, c.refused)
		} else if on.pod() == nil || mountedSecret(on.pod()) != c.mounts {
			t.Errorf("%s: the pod is %v", c.why, on.pod())
		}
		if secrets := on.secrets(); len(secrets) != 1 || string(secrets[0].Data[pod.KeyFile]) != "KEPT" {
			t.Errorf("%s: Secrets are %v", c.why, secrets)
		}
	}
}

// TestRefusedState: a claim that the API server refuses leaves no Secret, and a quota that answers before the name is looked up does not stop a guest.
func TestRefusedState(t *testing.T) {
	refuse := func(kind string) func(client.Object) error {
		return func(object client.Object) error {
			if strings.HasSuffix(fmt.Sprintf("%T", object), kind) {
				return apierrors.NewForbidden(schema.GroupResource{}, object.GetName(), errQuota)
			}
			return nil
		}
	}
	for _, kind := range []string{"PersistentVolumeClaim", "Secret"} {
		on := withStorage(t, vmiWithState(true, false))
		on.refuse = refuse(kind)
		on.reconcileAll()
		on.expectRefusal(kind, v1alpha1.ReasonFailedCreate, errQuota.Error())
		if len(on.secrets()) > 0 || on.stateClaim() != nil || on.pod() != nil {
			t.Errorf("%s is refused: %d Secrets, claim %v, pod %v", kind, len(on.secrets()), on.stateClaim() != nil, on.pod() != nil)
		}
	}
	kept := pod.KeySecret(pod.Input{VMI: explicitVMI()}, "KEPT")
	on := withStorage(t, vmiWithState(true, false), existingStateClaim(kept.Name), kept)
	on.refuse = refuse("Secret")
	on.reconcileAll()
	if on.pod() == nil || mountedSecret(on.pod()) != kept.Name {
		t.Error("a quota of Secrets keeps a guest from its key")
	}
}

// TestCrashesAtTheState: whichever write of the state is the last one of a process, the next one makes a claim whose Secret exists, and no other claim.
func TestCrashesAtTheState(t *testing.T) {
	for dies := range 8 {
		on := withStorage(t, vmiWithState(true, false))
		on.fails = dies
		for range 3 {
			on.reconcileAll()
			on.setStateClass() // restart has the configuration of other tests
			on.now = on.now.Add(longestInterval)
		}
		if on.pod() == nil {
			t.Fatalf("dies after write %d: there is no pod", dies)
		}
		name, found := mountedSecret(on.pod()), 0
		for _, secret := range on.secrets() {
			if secret.Name == name && pod.HoldsKey(name, string(secret.Data[pod.KeyFile])) {
				found++
			}
		}
		if found != 1 || on.stateClaim().Annotations[v1alpha1.AnnotationTPMKey] != name {
			t.Errorf("dies after write %d: the pod mounts '%s', the claim names %v", dies, name, on.stateClaim().Annotations)
		}
	}
}

// TestClaimOfAnEarlierGuest: a claim that goes with a VM of the same name before is waited for: a pod would wait for it for ever, or lose its state with it.
func TestClaimOfAnEarlierGuest(t *testing.T) {
	owned := func(uid types.UID) *corev1.PersistentVolumeClaim {
		claim := existingStateClaim("").(*corev1.PersistentVolumeClaim)
		owner := *metav1.GetControllerOf(explicitVMI())
		owner.UID = uid
		claim.OwnerReferences = []metav1.OwnerReference{owner}
		return claim
	}
	going := owned("vm")
	going.Finalizers = []string{"kubernetes.io/pvc-protection"}
	for why, c := range map[string]struct {
		claim *corev1.PersistentVolumeClaim
		going bool
		pod   bool
	}{"of a VM before": {owned("earlier"), false, false}, "being deleted": {going, true, false}, "its own": {owned("vm"), false, true}} {
		on := withStorage(t, vmiWithState(true, true), c.claim)
		if c.going {
			on.must(on.WithWatch.Delete(t.Context(), c.claim))
		}
		on.reconcileAll()
		if got := on.pod() != nil; got != c.pod {
			t.Errorf("%s: pod %v, want %v", why, got, c.pod)
		}
		if c.pod {
			continue
		}
		gone := on.stateClaim()
		gone.Finalizers = nil
		on.must(on.Update(t.Context(), gone))
		on.must(client.IgnoreNotFound(on.WithWatch.Delete(t.Context(), gone)))
		on.reconcileAll()
		if claim := on.stateClaim(); on.pod() == nil || claim == nil || claim.OwnerReferences[0].UID != "vm" {
			t.Errorf("%s: when it is gone, there is pod %v, claim %+v", why, on.pod() != nil, claim)
		}
	}
}
