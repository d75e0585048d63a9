package guest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/poll"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
)

// fakeAPIServer is an API server that has one VMI and one GuestPod, with a controller that answers reported facts with hardware.
type fakeAPIServer struct {
	*httptest.Server
	t *testing.T

	mutex sync.Mutex
	vmi   *v1.VirtualMachineInstance
	pod   *v1alpha1.GuestPod
	// changed is closed and replaced at each change of the GuestPod.
	changed chan struct{}
	// requests counts requests by verb, refused those that were refused, and vmiReads the answers with the VMI.
	requests          map[string]int
	refused, vmiReads int
	// watchedUID is the UID of the GuestPod that a watch sent last.
	watchedUID types.UID
	// unavailable makes the server refuse each request.
	unavailable bool
	// afterPatch is called after each change of the status, before it is answered.
	afterPatch func()
}

const podUID = "7a0c1f6e-6d2a-4c7b-9a43-8f3e1d2c7b6a"

// serveVMI serves a VMI and its GuestPod.
func serveVMI(t *testing.T, vmi *v1.VirtualMachineInstance) *fakeAPIServer {
	t.Helper()
	vmi = vmi.DeepCopy()
	vmi.TypeMeta = metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: "VirtualMachineInstance"}
	pod := &v1alpha1.GuestPod{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "GuestPod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: vmi.Namespace, Name: vmi.Name, UID: "c0ffee00-6d2a-4c7b-9a43-8f3e1d2c7b6a", ResourceVersion: "1"},
		Spec:       v1alpha1.GuestPodSpec{VMIUID: vmi.UID, PodUID: podUID, ClusterUID: "cluster", NodeName: "here"},
	}
	c := &fakeAPIServer{t: t, vmi: vmi, pod: pod, changed: make(chan struct{}), requests: map[string]int{}, afterPatch: func() {}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /apis/kubevirt.io/v1/namespaces/"+vmi.Namespace+"/virtualmachineinstances/"+vmi.Name, c.getVMI)
	pods := "/apis/kilnvm.io/v1alpha1/namespaces/" + vmi.Namespace + "/guestpods"
	mux.HandleFunc("GET "+pods+"/"+vmi.Name, c.getPod)
	mux.HandleFunc("GET "+pods, c.watchPod)
	mux.HandleFunc("PATCH "+pods+"/"+vmi.Name+"/status", c.patchStatus)
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mutex.Lock()
		down := c.unavailable
		c.requests[r.Method]++
		if down {
			c.refused++
		}
		c.mutex.Unlock()
		if down {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		c.CloseClientConnections()
		c.Close()
	})
	return c
}

func (c *fakeAPIServer) writeObject(w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(object); err != nil {
		c.t.Log(err) // the launcher has gone away
	}
}

func (c *fakeAPIServer) getVMI(w http.ResponseWriter, _ *http.Request) {
	c.mutex.Lock()
	vmi := c.vmi.DeepCopy()
	c.vmiReads++
	c.mutex.Unlock()
	c.writeObject(w, vmi)
}

func (c *fakeAPIServer) getPod(w http.ResponseWriter, _ *http.Request) {
	pod, _ := c.currentPod()
	c.writeObject(w, pod)
}

// waitUntil waits until done returns true, which is called with the mutex held.
func (c *fakeAPIServer) waitUntil(t *testing.T, what string, done func() bool) {
	t.Helper()
	locked := func() bool {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		return done()
	}
	if !poll.Until(time.Minute, locked) {
		t.Fatalf("did not happen: %s", what)
	}
}

// currentPod returns the GuestPod, and a channel that is closed when the GuestPod changes.
func (c *fakeAPIServer) currentPod() (*v1alpha1.GuestPod, <-chan struct{}) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.pod.DeepCopy(), c.changed
}

func (c *fakeAPIServer) watchPod(w http.ResponseWriter, r *http.Request) {
	if query := r.URL.Query(); query.Get("watch") == "" || query.Get("fieldSelector") != "metadata.name="+c.vmi.Name {
		c.t.Errorf("a launcher has no right to %s", r.URL)
	}
	for {
		pod, changed := c.currentPod()
		c.writeObject(w, map[string]any{"type": "MODIFIED", "object": pod})
		w.(http.Flusher).Flush()
		c.mutex.Lock()
		c.watchedUID = pod.UID
		c.mutex.Unlock()
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		}
	}
}

// patchStatus changes only the status.
func (c *fakeAPIServer) patchStatus(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	err = c.changePod(func(pod *v1alpha1.GuestPod) error {
		patch, err := jsonpatch.DecodePatch(body)
		if err != nil {
			return err
		}
		if stale := !bytes.Contains(body, []byte(pod.UID)); stale {
			return errStale
		}
		before, err := json.Marshal(pod)
		if err != nil {
			return err
		}
		after, err := patch.Apply(before)
		if err != nil {
			return err
		}
		patched := &v1alpha1.GuestPod{}
		if err := json.Unmarshal(after, patched); err != nil {
			return err
		}
		pod.Status = patched.Status
		return c.answerFacts(pod)
	})
	if err != nil {
		if !errors.Is(err, errStale) {
			c.t.Errorf("the patch %s is refused: %v", body, err)
		}
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	c.afterPatch()
	c.getPod(w, r)
}

// errStale refuses a report to a GuestPod that has been recreated: a launcher whose watch is closed may send one.
var errStale = errors.New("the UID belongs to another GuestPod")

// recreatePod replaces the GuestPod with one that has no status yet.
func (c *fakeAPIServer) recreatePod() {
	err := c.changePod(func(pod *v1alpha1.GuestPod) error {
		pod.UID, pod.Status = "another", v1alpha1.GuestPodStatus{}
		return nil
	})
	if err != nil {
		c.t.Error(err)
	}
}

func (c *fakeAPIServer) changePod(change func(*v1alpha1.GuestPod) error) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	pod := c.pod.DeepCopy()
	if err := change(pod); err != nil {
		return err
	}
	c.pod = pod
	close(c.changed)
	c.changed = make(chan struct{})
	return nil
}

// answerFacts writes the hardware for reported facts into the GuestPod, as Kiln's controller does.
func (c *fakeAPIServer) answerFacts(pod *v1alpha1.GuestPod) error {
	if pod.Status.Facts == nil || pod.Spec.Hardware != nil {
		return nil
	}
	facts, err := render.ReadFacts(c.vmi, pod.Status.Facts)
	if err != nil {
		return err
	}
	hardware, errs := render.FromFacts(render.Machine{VMI: c.vmi, Defaults: config.Default().Frontend}, facts)
	if len(errs) > 0 {
		return errs.ToAggregate()
	}
	text, err := hardware.Frontend.Marshal()
	pod.Spec.Hardware = &v1alpha1.GuestPodHardware{Frontend: text, Digest: hardware.Record.Digest}
	return err
}

// kubeconfig returns the content of a kubeconfig for the server.
func (c *fakeAPIServer) kubeconfig() string {
	return strings.ReplaceAll(`{"apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [{"name": "c", "cluster": {"server": "URL"}}],
"contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}], "users": [{"name": "c", "user": {}}]}`, "URL", c.URL)
}
