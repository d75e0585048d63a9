package model

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/kilnvm/kiln/internal/admission"
	"github.com/kilnvm/kiln/internal/kubevirt/virtcontroller"
	"github.com/kilnvm/kiln/internal/lifecycle"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/internal/revision"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// process is one life of cmd/webhook and one of cmd/controller: admission, the VM controller and the collector, with caches of their own.
type process struct {
	live *mortal
	// admitting is what admission reads. It lags behind by less than the grace period, as informers do.
	admitting *view
	// collecting is what the collector reads. It may lag behind for ever, as the informer of a watch that is stuck does.
	collecting *view
	hooks      map[string]admission.Hook
	controller *lifecycle.Controller
	collector  *revision.Collector
}

func (m *model) newProcess() *process {
	t, namespace, now := m.T, m.namespace, m.now
	t.Helper()
	live := &mortal{WithWatch: server, namespace: namespace, left: -1}
	p := &process{live: live, admitting: newView(namespace), collecting: newView(namespace)}
	live.admit = func(vmi *v1.VirtualMachineInstance) error { return p.admitGuest(t, vmi) }
	p.admitting.refresh(t, kinds...)
	p.collecting.refresh(t, kinds...)
	resolver := resolve.Resolver{Cached: p.admitting, Live: live, Memo: resolve.NewMemo()}
	hooks := &admission.Server{Reviewer: review.Reviewer{Resolver: resolver, Configuration: m.cluster, KubeVirt: virtcontroller.Completer{}},
		Write: func(ctx context.Context, drafts ...revision.Draft) error {
			return revision.Write(ctx, live, drafts...)
		}}
	p.hooks = hooks.Hooks()
	p.controller = &lifecycle.Controller{Client: lagging{live, p.admitting}, Live: live, Resolver: resolver, Configuration: m.cluster,
		Events: &events.FakeRecorder{}, Now: now}
	p.collector = &revision.Collector{Cached: p.collecting, Live: live, Grace: revision.MinGrace, Now: now}
	return p
}

// admit asks both webhooks about a VM; old is nil on create. The VM is nil when it was refused.
func (p *process) admit(t *testing.T, vm, old *v1.VirtualMachine) (*v1.VirtualMachine, *metav1.Status) {
	t.Helper()
	request := &admissionv1.AdmissionRequest{UID: "u", Operation: admissionv1.Create, Namespace: vm.Namespace, Name: vm.Name}
	request.Object.Raw = encode(t, vm)
	if old != nil {
		request.Operation, request.OldObject.Raw = admissionv1.Update, encode(t, old)
	}
	admitted := &v1.VirtualMachine{}
	if refused := p.ask(t, request, admitted, admission.MutateVM, admission.ValidateVM); refused != nil {
		return nil, refused
	}
	return admitted, nil
}

// admitGuest asks the webhooks about a new VMI and takes their changes over.
func (p *process) admitGuest(t *testing.T, vmi *v1.VirtualMachineInstance) error {
	t.Helper()
	request := &admissionv1.AdmissionRequest{UID: "u", Operation: admissionv1.Create, Namespace: vmi.Namespace, Name: vmi.Name}
	request.Object.Raw = encode(t, vmi)
	var explicit v1.VirtualMachineInstance
	if refused := p.ask(t, request, &explicit, admission.MutateVMI, admission.ValidateVMI); refused != nil {
		return &apierrors.StatusError{ErrStatus: *refused}
	}
	explicit.DeepCopyInto(vmi)
	return nil
}

// ask calls webhooks one after the other, as the API server does, and reads what they make of an object.
func (p *process) ask(t *testing.T, request *admissionv1.AdmissionRequest, into any, paths ...string) *metav1.Status {
	t.Helper()
	for _, path := range paths {
		review := admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request}
		body, err := p.hooks[path].Answer(t.Context(), encode(t, review))
		if err != nil {
			t.Fatal(err)
		}
		var answered admissionv1.AdmissionReview
		if err := json.Unmarshal(body, &answered); err != nil {
			t.Fatal(err)
		}
		if !answered.Response.Allowed {
			return answered.Response.Result
		}
		if answered.Response.Patch == nil {
			continue
		}
		patch, err := jsonpatch.DecodePatch(answered.Response.Patch)
		if err == nil {
			request.Object.Raw, err = patch.Apply(request.Object.Raw)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := json.Unmarshal(request.Object.Raw, into); err != nil {
		t.Fatal(err)
	}
	return nil
}

func encode(t *testing.T, value any) []byte {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

var errDead = errors.New("the process has been killed")

// mortal is a client of one namespace whose process dies at one of its writes: before it, or after it without learning of it.
type mortal struct {
	client.WithWatch
	namespace string
	// left is how many writes there are until the death, negative for ever.
	left  int
	after bool
	dead  bool
	// between is what happens elsewhere before the next write.
	between func()
	// admit is what the API server asks about a VMI before it stores it.
	admit func(*v1.VirtualMachineInstance) error
}

func (m *mortal) write(do func() error) error {
	if elsewhere := m.between; elsewhere != nil && !m.dead {
		m.between = nil
		elsewhere()
	}
	switch {
	case m.dead:
		return errDead
	case m.left != 0:
		m.left--
		return do()
	}
	m.dead = true
	if m.after {
		_ = do() // its answer is never read
	}
	return errDead
}

func (m *mortal) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	return m.write(func() error {
		if vmi, guest := object.(*v1.VirtualMachineInstance); guest {
			if err := m.admit(vmi); err != nil {
				return err
			}
		}
		return m.WithWatch.Create(ctx, object, options...)
	})
}

func (m *mortal) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	return m.write(func() error { return m.WithWatch.Patch(ctx, object, patch, options...) })
}

func (m *mortal) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	return m.write(func() error { return m.WithWatch.Delete(ctx, object, options...) })
}

func (m *mortal) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if m.dead {
		return errDead
	}
	return m.WithWatch.Get(ctx, key, object, options...)
}

func (m *mortal) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if m.dead {
		return errDead
	}
	return m.WithWatch.List(ctx, list, append(options, client.InNamespace(m.namespace))...)
}

func (m *mortal) Status() client.SubResourceWriter { return mortalStatus{m.WithWatch.Status(), m} }

type mortalStatus struct {
	client.SubResourceWriter
	mortal *mortal
}

func (s mortalStatus) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	return s.mortal.write(func() error { return s.SubResourceWriter.Patch(ctx, object, patch, options...) })
}

// lagging reads from a cache and writes to the API server.
type lagging struct {
	*mortal
	cache *view
}

func (l lagging) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return l.cache.Get(ctx, key, object, options...)
}

func (l lagging) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return l.cache.List(ctx, list, options...)
}
