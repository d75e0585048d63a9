package operation

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	api "kubevirt.io/api/snapshot/v1beta1"
)

// ContentName returns KubeVirt's name of the content of a snapshot.
func ContentName(snapshot types.UID) string { return "vmsnapshot-content-" + string(snapshot) }

// PhaseOf returns the phase of a snapshot, and PhaseUnset if it has no status yet.
func PhaseOf(snapshot *api.VirtualMachineSnapshot) api.VirtualMachineSnapshotPhase {
	if snapshot.Status == nil {
		return api.PhaseUnset
	}
	return snapshot.Status.Phase
}

// FailureDeadline returns how long a snapshot may take, and 0 if it may take any time.
func FailureDeadline(snapshot *api.VirtualMachineSnapshot) time.Duration {
	if snapshot.Spec.FailureDeadline != nil {
		return snapshot.Spec.FailureDeadline.Duration
	}
	return api.DefaultFailureDeadline
}

// ErrNoCreator is the error of a restore or a clone whose creator is not known.
var ErrNoCreator = errors.New("annotation '" + v1alpha1.AnnotationAsker + "' does not name the account that created the object: create it again while " +
	"the webhook of Kiln answers")

// CreatorOf returns the account that created a restore or a clone, as the webhook noted it in an annotation.
func CreatorOf(object metav1.Object) (user authenticationv1.UserInfo, err error) {
	if json.Unmarshal([]byte(object.GetAnnotations()[v1alpha1.AnnotationAsker]), &user) != nil || user.Username == "" {
		return user, ErrNoCreator
	}
	return user, nil
}
