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

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/render"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

// api is an API server that has one VMI and one GuestPod, with a controller that answers reported facts with hardware.
type api struct {
	*httptest.Server
	t *testing.T

	mutex sync.Mutex
	vmi   *v1.VirtualMachineInstance
	pod   *v1alpha1.GuestPod
	// changed is closed and made anew at each change of the GuestPod.
	changed chan struct{}
	// requests counts them by verb.
	requests map[string]int
	// down makes it refuse each request.
	down bool
	// patched is called after each change of the status, before it is answered.
	patched func()
}

const podUID = "7a0c1f6e-6d2a-4c7b-9a43-8f3e1d2c7b6a"

// serve serves a VMI and its GuestPod.
func serve(t *testing.T, vmi *v1.VirtualMachineInstance) *api {
	t.Helper()
	vmi = vmi.DeepCopy()
	vmi.TypeMeta = metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: "VirtualMachineInstance"}
	pod := &v1alpha1.GuestPod{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "GuestPod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: vmi.Namespace, Name: vmi.Name, UID: "c0ffee00-6d2a-4c7b-9a43-8f3e1d2c7b6a", ResourceVersion: "1"},
		Spec:       v1alpha1.GuestPodSpec{VMIUID: vmi.UID, PodUID: podUID, ClusterUID: "cluster", NodeName: "here"},
	}
	c := &api{t: t, vmi: vmi, pod: pod, changed: make(chan struct{}), requests: map[string]int{}, patched: func() {}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /apis/kubevirt.io/v1/namespaces/"+vmi.Namespace+"/virtualmachineinstances/"+vmi.Name, c.getVMI)
	pods := "/apis/kilnvm.io/v1alpha1/namespaces/" + vmi.Namespace + "/guestpods"
	mux.HandleFunc("GET "+pods+"/"+vmi.Name, c.getPod)
	mux.HandleFunc("GET "+pods, c.watch)
	mux.HandleFunc("PATCH "+pods+"/"+vmi.Name+"/status", c.patch)
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mutex.Lock()
		down := c.down
		c.requests[r.Method]++
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

func (c *api) answer(w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(object); err != nil {
		c.t.Log(err) // the launcher has gone away
	}
}

func (c *api) getVMI(w http.ResponseWriter, _ *http.Request) {
	c.mutex.Lock()
	vmi := c.vmi.DeepCopy()
	c.mutex.Unlock()
	c.answer(w, vmi)
}

func (c *api) getPod(w http.ResponseWriter, _ *http.Request) {
	pod, _ := c.now()
	c.answer(w, pod)
}

// now returns the GuestPod, and what is closed when it changes.
func (c *api) now() (*v1alpha1.GuestPod, <-chan struct{}) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.pod.DeepCopy(), c.changed
}

func (c *api) watch(w http.ResponseWriter, r *http.Request) {
	if query := r.URL.Query(); query.Get("watch") == "" || query.Get("fieldSelector") != "metadata.name="+c.vmi.Name {
		c.t.Errorf("a launcher has no right to %s", r.URL)
	}
	for {
		pod, changed := c.now()
		c.answer(w, map[string]any{"type": "MODIFIED", "object": pod})
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		}
	}
}

// patch changes the status, and no more than that.
func (c *api) patch(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	err = c.change(func(pod *v1alpha1.GuestPod) error {
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
		return c.decide(pod)
	})
	if err != nil {
		if !errors.Is(err, errStale) {
			c.t.Errorf("the patch %s is refused: %v", body, err)
		}
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	c.patched()
	c.getPod(w, r)
}

// errStale refuses a report to a GuestPod that was made anew: a launcher whose watch is down may send one.
var errStale = errors.New("the UID is that of another GuestPod")

// renew replaces the GuestPod by one that has no status yet.
func (c *api) renew() {
	err := c.change(func(pod *v1alpha1.GuestPod) error {
		pod.UID, pod.Status = "another", v1alpha1.GuestPodStatus{}
		return nil
	})
	if err != nil {
		c.t.Error(err)
	}
}

func (c *api) change(change func(*v1alpha1.GuestPod) error) error {
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

// decide does what Kiln's controller does with facts.
func (c *api) decide(pod *v1alpha1.GuestPod) error {
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

// kubeconfig is a file's content that leads to the server.
func (c *api) kubeconfig() string {
	return strings.ReplaceAll(`{"apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [{"name": "c", "cluster": {"server": "URL"}}],
"contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}], "users": [{"name": "c", "user": {}}]}`, "URL", c.URL)
}
