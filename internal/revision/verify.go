package revision

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/kilnvm/kiln/pkg/instancetype"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json" // whole numbers stay whole: a generation is one
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/instancetype"
)

// Untrusted is the error of a revision whose content does not match its name.
type Untrusted struct {
	Namespace, Name string
	reason          error
}

func (u *Untrusted) Error() string {
	return fmt.Sprintf("revision '%s' in namespace '%s' cannot be trusted: %v", u.Name, u.Namespace, u.reason)
}

// Verify returns an *Untrusted error unless a revision can be trusted: its name contains the hash of its content, or KubeVirt made it, whose names contain no
// hash. A revision with a name like Kiln's must match its hash, even if another controller owns it.
func Verify(r *appsv1.ControllerRevision) error {
	err := instancetype.Verify(r.Name, r.Data.Raw)
	if err != nil && !instancetype.Addressed(r.Name) {
		err = verifyKubeVirts(r)
	}
	if err != nil {
		return &Untrusted{r.Namespace, r.Name, err}
	}
	return nil
}

// verifyKubeVirts accepts a revision that KubeVirt's controller made for a VirtualMachine: the VM owns it, or, if a backup tool has dropped the owner, its
// labels match its content. The labels can be trusted because the policy kiln-revision-writers guards them.
func verifyKubeVirts(r *appsv1.ControllerRevision) error {
	if owner := metav1.GetControllerOf(r); owner != nil && owner.Kind == v1.VirtualMachineGroupVersionKind.Kind &&
		strings.HasPrefix(owner.APIVersion, v1.VirtualMachineGroupVersionKind.Group+"/") {
		return nil
	}
	if r.Labels[api.ControllerRevisionObjectNameLabel] == "" {
		return errors.New("its name has no digest, no VirtualMachine owns it, and it has no label '" + api.ControllerRevisionObjectNameLabel + "'")
	}
	var object unstructured.Unstructured
	if err := json.Unmarshal(r.Data.Raw, &object.Object); err != nil {
		return fmt.Errorf("its data is not a JSON object: %w", err)
	}
	for label, content := range map[string]string{
		api.ControllerRevisionObjectNameLabel:       object.GetName(),
		api.ControllerRevisionObjectKindLabel:       object.GetKind(),
		api.ControllerRevisionObjectVersionLabel:    object.GroupVersionKind().Version,
		api.ControllerRevisionObjectUIDLabel:        string(object.GetUID()),
		api.ControllerRevisionObjectGenerationLabel: strconv.FormatInt(object.GetGeneration(), 10),
	} {
		if value, labelled := r.Labels[label]; labelled && !strings.EqualFold(value, content) {
			return fmt.Errorf("label '%s' has value '%s', its data has '%s'", label, value, content)
		}
	}
	return nil
}
