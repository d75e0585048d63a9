package virtlauncher

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	v1 "kubevirt.io/api/core/v1"

	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/poll"
)

// console is the container whose log is what the guest writes to its first serial port.
const console = "guest-console-log"

// reader reads what tests wait for. A kubectl for each look would take the CPU time of the guests that are waited for.
type reader struct {
	vmis dynamic.ResourceInterface
	pods corev1client.PodInterface
}

func newReader(t *testing.T, namespace string) reader {
	t.Helper()
	config := shared.Config()
	config.QPS = -1 // several guests are waited for at the same time
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	pods, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return reader{objects.Resource(v1.GroupVersion.WithResource("virtualmachineinstances")).Namespace(namespace), pods.CoreV1().Pods(namespace)}
}

// vmi reads a VMI. It is empty if the VMI does not exist. A busy API server is asked again.
func (g space) vmi(name string) (vmi v1.VirtualMachineInstance) {
	g.Helper()
	var err error
	if !poll.Until(patience, func() bool {
		object, failed := g.reader.vmis.Get(g.Context(), name, metav1.GetOptions{})
		if err = failed; err == nil {
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &vmi)
		}
		return err == nil || apierrors.IsNotFound(err)
	}) {
		g.Fatalf("reading VMI %s: %v", name, err)
	}
	return vmi
}

// reports waits for the report that the guest writes when it boots.
func (g space) reports(vmi v1.VirtualMachineInstance) (report guest.Report) {
	g.Helper()
	pod := strings.TrimPrefix(g.pod(vmi), "pod/")
	g.eventually("the guest reports its hardware", func() (bool, any) {
		var log string
		var err error
		report, log, err = g.follow(pod)
		return err == nil, []any{err, log[max(0, len(log)-1000):]}
	})
	return report
}

// follow reads the log of the guest's console until it has the report, for as long as tests are patient.
func (g space) follow(pod string) (report guest.Report, log string, err error) {
	ctx, cancel := context.WithTimeout(g.Context(), patience)
	defer cancel()
	stream, err := g.reader.pods.GetLogs(pod, &corev1.PodLogOptions{Container: console, Follow: true}).Stream(ctx)
	if err != nil {
		return report, "", err
	}
	defer stream.Close()
	var seen bytes.Buffer
	report, err = guest.ParseReport(io.TeeReader(stream, &seen))
	return report, seen.String(), err
}
