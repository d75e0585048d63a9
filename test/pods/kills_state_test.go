package pods

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/kilnvm/kiln/test/guest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// Kinds of objects that a VM has, besides the kinds of pods_test.go.
var (
	hardwareKind       = schema.GroupVersionResource{Group: "kilnvm.io", Version: "v1alpha1", Resource: "guesthardwares"}
	roleKind           = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}
	roleBindingKind    = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"}
	serviceAccountKind = schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
)

// reader reads a tenant's objects in this process: a kubectl for each look would cost more CPU time than the guest. An error is an answer, because the API
// server may have been killed a moment ago.
type reader struct {
	*tenant
	objects dynamic.Interface
	core    kubernetes.Interface
}

func (n *tenant) reader() reader {
	n.Helper()
	config := shared.Config()
	config.QPS, config.Timeout = -1, 10*time.Second // a connection to an API server that was killed may never answer
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		n.Fatal(err)
	}
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		n.Fatal(err)
	}
	return reader{n, objects, core}
}

// get returns the fields of an object.
func (r reader) get(kind schema.GroupVersionResource, name string) (map[string]any, error) {
	object, err := r.objects.Resource(kind).Namespace(r.namespace).Get(r.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return object.Object, nil
}

// phaseOf returns status.phase of an object, or why it cannot be read.
func (r reader) phaseOf(kind schema.GroupVersionResource, name string) string {
	object, err := r.get(kind, name)
	if err != nil {
		return err.Error()
	}
	phase, _, _ := unstructured.NestedString(object, "status", "phase")
	return phase
}

// left returns the name of an object of these kinds for which the test is true, or why objects cannot be read. It is empty if no such object exists.
func (r reader) left(is func(name string) bool, kinds ...schema.GroupVersionResource) string {
	for _, kind := range kinds {
		list, err := r.objects.Resource(kind).Namespace(r.namespace).List(r.Context(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		for _, object := range list.Items {
			if is(object.GetName()) {
				return kind.Resource + "/" + object.GetName()
			}
		}
	}
	return ""
}

// log returns the log of a pod, with the serial console of a guest as its guest wrote it. With an error, it is the error's text.
func (r reader) log(pod string) (string, error) {
	log, err := r.core.CoreV1().Pods(r.namespace).GetLogs(pod, &corev1.PodLogOptions{}).DoRaw(r.Context())
	if err != nil {
		return err.Error(), err
	}
	return guest.Console(string(log)), nil
}

// hardwareOf returns spec.hardware of the VM's record as JSON.
func (r reader) hardwareOf(vm string) (string, error) {
	object, err := r.get(hardwareKind, vm)
	if err != nil {
		return "", err
	}
	hardware, _, err := unstructured.NestedMap(object, "spec", "hardware")
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(hardware)
	return string(text), err
}

// runs says why the guest does not run; empty if it does, in one pod, and has written its mark.
func (k *killer) runs() string {
	if phase := k.phaseOf(vmiKind, "target"); phase != "Running" {
		return "phase of the VMI: " + phase
	}
	if phase := k.phaseOf(podKind, "guest-target"); phase != "Running" {
		return "phase of the pod: " + phase
	}
	if count := k.guard.count(); count != 1 {
		return fmt.Sprintf("%d QEMU", count)
	}
	if log, _ := k.log("guest-target"); !strings.Contains(log, "KILN-MARKED kept") {
		return "the guest has not booted: " + log[max(0, len(log)-300):]
	}
	return ""
}

// stopped says what of the guest is there; empty if nothing but VM and record are.
func (k *killer) stopped() string {
	return cmp.Or(k.left(isTargets, vmiKind, podKind, guestPodKind), k.guard.remains())
}

// nothingIsLeft says what of the VM is there; empty if nothing is.
func (k *killer) nothingIsLeft() string {
	left := k.left(isTargets, vmKind, vmiKind, podKind, guestPodKind, hardwareKind, roleKind, roleBindingKind, serviceAccountKind)
	return cmp.Or(left, k.guard.remains())
}

// isTargets reports whether an object of this name belongs to the target, and neither to the other guest nor to the namespace's default account.
func isTargets(name string) bool {
	return name != "bystander" && name != "guest-bystander" && name != "default"
}
