package pods

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kilnvm/kiln/test/nightly"
	"github.com/kilnvm/kiln/test/node"
)

// TestNodeLoss: a guest whose node does not answer starts nowhere else, also after its pod was deleted with force, until its kubelet says that it has ended
// or the administrator that the machine is off. At no time two guests of a VM run.
func TestNodeLoss(t *testing.T) {
	nightly.Only(t)
	n := newTenant(t, "lost")
	lost := &loss{witness: newWitness(n), node: join(t), starts: map[string]types.UID{}}
	t.Cleanup(func() { lost.mend() })
	lost.start("cut", "killed")
	lost.cutOff()
	lost.killed()
	lost.outOfService()
}

// loss is a node that fails, and those who see what becomes of its guests.
type loss struct {
	*witness
	node *node.Node
	// starts are the VMIs that have begun on the node, by their names.
	starts map[string]types.UID
	// down tells what must be mended for later tests.
	down func(context.Context) error
}

// start runs VMs on the node, whose next VMIs may run on any.
func (l *loss) start(vms ...string) {
	l.Helper()
	for _, vm := range vms {
		l.apply(firmware(vm, only("node-2"), ""))
	}
	for _, vm := range vms {
		l.phase(vm, "Running")
		l.starts[vm] = l.uid(vm)
		if l.process(vm) == 0 {
			l.Errorf("guest %s runs, and has no process", vm)
		}
		l.apply(firmware(vm, "", "")) // only the next VMI gets this template
	}
}

// uid returns the UID of a VMI.
func (l *loss) uid(vmi string) types.UID {
	l.Helper()
	return types.UID(l.kubectl("get", "vmi", vmi, "-o", "jsonpath={.metadata.uid}"))
}

// fail has the node fail until mend.
func (l *loss) fail(fail, mend func(context.Context) error) {
	l.Helper()
	if err := fail(l.Context()); err != nil {
		l.Fatal(err)
	}
	l.down = mend
}

// mend makes the node a good one again.
func (l *loss) mend() {
	l.Helper()
	if l.down == nil {
		return
	}
	mend := l.down
	l.down = nil
	if err := mend(context.WithoutCancel(l.Context())); err != nil {
		l.Fatal(err)
	}
}

// force deletes the pod of a VMI as somebody does who believes that it is gone.
func (l *loss) force(vmi string) {
	l.Helper()
	l.kubectl("delete", "pod", "guest-"+vmi, "--force", "--grace-period=0", "--wait=false")
}

// kept fails unless the VMI that began on the node is there still, with its pod, which is being deleted, and the guest's process (0 for none).
func (l *loss) kept(vmi string, process int) {
	l.Helper()
	pod := l.kubectl("get", "pod", "guest-"+vmi, "-o", "jsonpath={.metadata.uid} {.spec.nodeName} {.metadata.deletionTimestamp} {.metadata.finalizers}")
	active := l.kubectl("get", "vmi", vmi, "-o", "jsonpath={.status.activePods}")
	fields := strings.Fields(pod)
	if len(fields) != 4 || !strings.Contains(active, fields[0]) || fields[1] != "node-2" || !strings.Contains(fields[3], "kilnvm.io/guest-pod") {
		l.Errorf("the pod of VMI %s is '%s', and its pods are %s", vmi, pod, active)
	}
	if now := l.process(vmi); l.uid(vmi) != l.starts[vmi] || now != process {
		l.Errorf("VMI %s was %s, and is %s; its guest's process was %d, and is %d", vmi, l.starts[vmi], l.uid(vmi), process, now)
	}
}

// again waits until the next VMI of a VM runs, and returns its node.
func (l *loss) again(vm string) string {
	l.Helper()
	l.eventually("the next VMI of "+vm+" runs", func() (string, bool) {
		got, err := l.vmis().Get(l.Context(), vm, metav1.GetOptions{})
		if err != nil {
			return err.Error(), false
		}
		phase, _, err := unstructured.NestedString(got.Object, "status", "phase")
		return fmt.Sprint(got.GetUID(), " ", phase), err == nil && got.GetUID() != l.starts[vm] && phase == "Running"
	})
	if l.process(vm) == 0 {
		l.Errorf("the guest of VM %s has no process", vm)
	}
	return l.nodeOf(vm)
}

// cutOff: the cable is pulled, and the guests run on. One pod is deleted with force. With the cable in kubelet ends that guest, and it starts again.
func (l *loss) cutOff() {
	l.Helper()
	cut, other := l.process("cut"), l.process("killed")
	l.fail(l.node.Disconnect, l.node.Connect)
	l.force("cut")
	l.eventually("VMI cut says that its node is lost", func() (string, bool) {
		out := l.kubectl("get", "vmi", "cut", "-o", `jsonpath={.status.phase} {.status.conditions[?(@.type=="Ready")]}`)
		return out, strings.HasPrefix(out, "Running ") && strings.Contains(out, `"reason":"NodeLost"`) && strings.Contains(out, "may still run there")
	})
	l.kept("cut", cut)
	l.mend()
	l.end(l.starts["cut"], "Failed PodDeleted")
	node := l.again("cut")
	if l.process("killed") != other || l.uid("killed") != l.starts["killed"] {
		l.Error("the guest beside it, whose pod nobody has deleted, has not run on")
	}
	l.Logf("the guest that was cut off runs again on node '%s'", node)
}

// killed: the machine loses its power, and the pod is deleted with force. When the machine is back, kubelet says that the guest has ended.
func (l *loss) killed() {
	l.Helper()
	l.fail(l.node.Kill, l.node.Restart)
	l.force("killed")
	l.kept("killed", 0)
	l.mend()
	l.end(l.starts["killed"], "Failed PodDeleted")
	l.Logf("the guest of the machine that lost its power runs again on node '%s'", l.again("killed"))
}

// taint is how an administrator says that a machine is off.
const taint = "node.kubernetes.io/out-of-service=off:NoExecute"

// untaint takes it back.
func untaint(ctx context.Context) error {
	_, err := shared.Kubectl(ctx, "taint", "node", "node-2", taint+"-")
	return err
}

// outOfService: the machine loses its power, and its administrator says that it is off. The guest starts on the other node, and once.
func (l *loss) outOfService() {
	l.Helper()
	l.start("gone")
	pod := l.kubectl("get", "pod", "guest-gone", "-o", "jsonpath={.metadata.uid}")
	l.fail(l.node.Kill, func(ctx context.Context) error {
		if err := l.node.Restart(ctx); err != nil {
			return err
		}
		return untaint(ctx)
	})
	// Without that the pod's name is free when kube-controller-manager has removed the pod, a minute after the node has last answered.
	l.force("gone")
	l.kept("gone", 0)
	l.kubectl("taint", "node", "node-2", taint)
	l.end(l.starts["gone"], "Failed NodeLost")
	if on := l.again("gone"); on != "node-1" {
		l.Errorf("the guest of the machine that is off runs on node '%s'", on)
	}
	process := l.process("gone")
	l.mend()
	l.eventually("the node has forgotten the pod", func() (string, bool) {
		_, err := os.Stat(filepath.Join(l.node.Dir, "kubelet", "pods", pod))
		return fmt.Sprint(err), errors.Is(err, os.ErrNotExist)
	})
	if now := l.process("gone"); now != process {
		l.Errorf("the guest's process was %d, and is %d, after the machine was there again", process, now)
	}
}
