package vmipod

import (
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestClaimsThatAreFilled: a guest never gets a claim that CDI has not filled, whether the VMI names the DataVolume or its claim.
func TestClaimsThatAreFilled(t *testing.T) {
	for _, c := range []struct {
		why, phase, reason, says string
		missing                  bool
	}{
		{why: "it is imported", phase: "ImportInProgress", reason: v1alpha1.ReasonProvisioning, says: "'ImportInProgress', progress '45%'"},
		{why: "it has failed", phase: "Failed", reason: v1alpha1.ReasonFailedDataVolumeImport, says: "'Failed'"},
		{why: "CDI has not seen it", phase: "", reason: v1alpha1.ReasonProvisioning, says: "phase ''"},
		{why: "its words are a tenant's", phase: "Import\x1b[31m", reason: v1alpha1.ReasonProvisioning, says: "'Import [31m'"},
		{why: "it waits for a consumer, and would be filled beside the guest", phase: "WaitForFirstConsumer", reason: v1alpha1.ReasonWaitingForVolumeBinding,
			says: "bind.immediate.requested"},
		{why: "it is gone", missing: true, reason: v1alpha1.ReasonFailedPvcNotFound, says: "does not exist"},
		{why: "it is bound when it is filled", phase: "PendingPopulation"},
		{why: "it is filled", phase: "Succeeded"},
	} {
		t.Run(c.why, func(t *testing.T) {
			vmi := explicitVMI()
			vmi.Spec.Volumes = []v1.Volume{{Name: "d", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{
				PersistentVolumeClaimVolumeSource: corev1.PersistentVolumeClaimVolumeSource{ClaimName: "d"}}}}}
			owner := metav1.OwnerReference{APIVersion: "cdi.kubevirt.io/v1beta1", Kind: "DataVolume", Name: "d", UID: "dv", Controller: new(true)}
			objects := []client.Object{vmi, &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "d", OwnerReferences: []metav1.OwnerReference{owner}}}}
			if !c.missing {
				objects = append(objects, &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": owner.APIVersion, "kind": owner.Kind, "metadata": map[string]any{"namespace": "team", "name": "d"},
					"status": map[string]any{"phase": c.phase, "progress": "45%"},
				}})
			}
			on := newCluster(t, objects...)
			on.reconcileAll()
			if c.says == "" {
				if on.pod() == nil {
					_, why := on.readCondition(v1.VirtualMachineInstanceSynchronized)
					t.Errorf("no pod: %+v", why)
				}
				return
			}
			on.expectRefusal(c.why, c.reason, c.says)
			if on.pod() != nil {
				t.Error("the pod is made")
			}
		})
	}
}
