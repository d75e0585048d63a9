package lifecycle

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestRestoredRecords: a restored VM boots with the hardware that it had, if the records of it were restored with it; those of others
// are not its own.
func TestRestoredRecords(t *testing.T) {
	const was, older, seed = `{"machine":"q35-1"}`, `{"machine":"q35-0"}`, "00000000-dead"
	record := func(name, data string, revision int64) *appsv1.ControllerRevision {
		return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: key.Namespace, Labels: map[string]string{v1alpha1.LabelFrontendOf: seed}},
			Data: runtime.RawExtension{Raw: []byte(data)}, Revision: revision}
	}
	by := func(r *appsv1.ControllerRevision, kind, name string) *appsv1.ControllerRevision {
		r.OwnerReferences = []metav1.OwnerReference{{APIVersion: "kubevirt.io/v1", Kind: kind, Name: name, UID: types.UID(seed), Controller: new(true)}}
		return r
	}
	elsewhere := record("r1", was, 1)
	elsewhere.Namespace = "other"
	unlabelled := record("r1", was, 1)
	unlabelled.Labels = map[string]string{v1alpha1.LabelFrontendOf: "another"}
	for _, c := range []struct {
		why, seed string
		records   []client.Object
		want      string
	}{
		{"without their owner, the newest", seed, []client.Object{record("r2", was, 2), record("r1", older, 1)}, was},
		{"with the VM that was their owner and is no more", seed, []client.Object{by(record("r1", was, 1), "VirtualMachine", key.Name)}, was},
		{"that of a VM of another name, which may be there", seed, []client.Object{by(record("r1", was, 1), "VirtualMachine", "b")}, ""},
		{"that of something else", seed, []client.Object{by(record("r1", was, 1), "StatefulSet", key.Name)}, ""},
		{"that of another VM", seed, []client.Object{unlabelled}, ""},
		{"that of another namespace", seed, []client.Object{elsewhere}, ""},
		{"one that is no record", seed, []client.Object{record("r1", `{"machine":5}`, 1)}, ""},
		{"a VM that was not restored", "11111111-aaaa", []client.Object{record("r1", was, 1)}, ""},
		{"a seed that is no label", strings.Repeat("long words, ", 20), nil, ""},
	} {
		t.Run(c.why, func(t *testing.T) {
			vm := machine(v1.RunStrategyAlways)
			vm.Annotations = map[string]string{v1alpha1.AnnotationIdentity: c.seed}
			cluster := newCluster(t, append([]client.Object{vm}, c.records...)...)
			cluster.step()
			if got := cluster.guest().Annotations[v1alpha1.AnnotationFrontend]; got != c.want {
				t.Errorf("the guest is given '%s', want '%s'", got, c.want)
			}
			cluster.boot(`{"machine":"q35-2"}`)
			cluster.step()
			if got := cluster.guest().Annotations[v1alpha1.AnnotationFrontend]; got != `{"machine":"q35-2"}` {
				t.Errorf("after a boot of its own the guest is given '%s'", got)
			}
			own, err := cluster.controller.records(t.Context(), cluster.vm())
			if err != nil || len(own) == 0 || len(own) > kept {
				t.Errorf("%d records, %v", len(own), err)
			}
		})
	}
}
