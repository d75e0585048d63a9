package guest

import (
	"encoding/json"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
)

// statusPatch replaces the status of the GuestPod of this UID: the launcher of its pod is the only one that writes it. A merge patch would leave facts in it
// that are gone.
func statusPatch(uid types.UID, status v1alpha1.GuestPodStatus) ([]byte, error) {
	return json.Marshal([]operation{{"test", "/metadata/uid", uid}, {"add", "/status", status}})
}

// operation is one of RFC 6902.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}
