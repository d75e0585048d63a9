// Package bench measures the webhook from raw review bytes to response bytes, and rendering, each beside its limit in the same run. The metric x-limit is the
// ratio of the times, x-allocs the ratio of the allocations. The limit of a webhook call is only encoding/json: decode the review, decode its object into the
// typed kind, and for a mutation encode it. The limit of rendering is marshalling the finished domain.
package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/kilnvm/kiln/internal/admission"
	"github.com/kilnvm/kiln/internal/kubevirt/virtcontroller"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/validate"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// TestMain sets a logger, as the programs do. controller-runtime's own one, for processes that set none, keeps something of each request.
func TestMain(m *testing.M) {
	log.SetLogger(logr.FromSlogHandler(slog.DiscardHandler))
	m.Run()
}

// sizes of the inputs: two disks and two NICs, and thirty and eight.
var sizes = []string{"mid", "large"}

// server has what the inputs refer to, and its revisions, in its caches: no request leaves it. shared are the profiles.
func server(b *testing.B, shared ...*unstructured.Unstructured) *admission.Server {
	b.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1.AddToScheme, appsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			b.Fatal(err)
		}
	}
	known, revisions := []*unstructured.Unstructured{}, map[client.ObjectKey]*appsv1.ControllerRevision{}
	for _, file := range []string{"instancetype.json", "preference.json"} {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(input(b, file)); err != nil {
			b.Fatal(err)
		}
		object.SetUID(types.UID(file))
		object.SetResourceVersion("1")
		stored := snapshot(b, object)
		known, revisions[client.ObjectKeyFromObject(stored)] = append(known, object), stored
	}
	cluster := config.Default()
	return &admission.Server{
		Reviewer: review.Reviewer{
			Resolver:      resolve.Resolver{Cached: cache{objects.New(scheme, known...), known, revisions, shared}, Memo: resolve.NewMemo()},
			Configuration: func() config.Cluster { return cluster }, KubeVirt: virtcontroller.Completer{},
		},
		Write: func(context.Context, ...revision.Draft) error { return nil },
	}
}

// cache answers as a manager's does: it holds revisions typed and other objects untyped, and an answer is a copy unless the caller asks for none.
type cache struct {
	objects.Reader
	// known are the objects of the Reader.
	known     []*unstructured.Unstructured
	revisions map[client.ObjectKey]*appsv1.ControllerRevision
	// shared are objects that lists return.
	shared []*unstructured.Unstructured
}

// namespace is the namespace of all inputs.
var namespace = metav1.PartialObjectMetadata{
	ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{"kubernetes.io/metadata.name": "default"}},
}

func (c cache) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if uncopied(options) && c.share(key, into) {
		return nil
	}
	if out, typed := into.(*appsv1.ControllerRevision); typed && c.revisions[key] != nil {
		c.revisions[key].DeepCopyInto(out)
		return nil
	}
	if out, metadata := into.(*metav1.PartialObjectMetadata); metadata {
		namespace.DeepCopyInto(out)
		return nil
	}
	return c.Reader.Get(ctx, key, into, options...)
}

func uncopied(options []client.GetOption) bool {
	var asked client.GetOptions
	asked.ApplyOptions(options)
	return asked.UnsafeDisableDeepCopy != nil && *asked.UnsafeDisableDeepCopy
}

// share gives out the object itself, and reports whether there is one.
func (c cache) share(key client.ObjectKey, into client.Object) bool {
	switch out := into.(type) {
	case *appsv1.ControllerRevision:
		if stored := c.revisions[key]; stored != nil {
			*out = *stored
			return true
		}
	case *unstructured.Unstructured:
		for _, object := range c.known {
			if client.ObjectKeyFromObject(object) == key && object.GetKind() == out.GetKind() {
				*out = *object
				return true
			}
		}
	}
	return false
}

func snapshot(b *testing.B, of *unstructured.Unstructured) *appsv1.ControllerRevision {
	draft, err := revision.NewDraft("default", of)
	if err != nil {
		b.Fatal(err)
	}
	stored := draft.Object()
	stored.UID, stored.ResourceVersion = of.GetUID()+"-revision", "1"
	return stored
}

// beside reports the time of an operation, and its allocations, as multiples of its limit's. The two take turns, and the
// median of the turns counts: on a machine that others use too, one long run beside another compares two different hours. A turn lasts for
// several collections of garbage: with turns of 4 ms, which saw one or none, the ratio of rendering was between 1.36 and 1.71 in one run.
func beside(b *testing.B, work, limit func()) {
	b.ReportAllocs()
	for b.Loop() {
		work()
	}
	const turns, turn = 41, 40 * time.Millisecond
	rounds := max(1, int(turn/max(b.Elapsed()/time.Duration(b.N), 1)))
	ratios := make([]float64, turns)
	for i := range ratios {
		ratios[i] = float64(clocked(rounds, work)) / float64(clocked(rounds, limit))
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[turns/2], "x-limit")
	b.ReportMetric(testing.AllocsPerRun(20, work)/testing.AllocsPerRun(20, limit), "x-allocs")
}

func clocked(rounds int, work func()) time.Duration {
	start := time.Now()
	for range rounds {
		work()
	}
	return time.Since(start)
}

func benchmarkHook[T any](b *testing.B, path, file string, rest func(*T) error) {
	raw := input(b, file)
	hook := server(b).Hooks()[path]
	work := func() {
		response, err := hook.Answer(b.Context(), raw)
		if err != nil || !bytes.Contains(response, []byte(`"allowed":true`)) {
			b.Fatalf("%v %s", err, response)
		}
	}
	beside(b, work, func() {
		if err := rest(read[T](b, raw)); err != nil {
			b.Fatal(err)
		}
	})
}

// read is the limit of every webhook call: the review, and the object in it.
func read[T any](b *testing.B, raw []byte) *T {
	var review admissionv1.AdmissionReview
	var object T
	if json.Unmarshal(raw, &review) != nil || json.Unmarshal(review.Request.Object.Raw, &object) != nil {
		b.Fatal("the input cannot be read")
	}
	return &object
}

// encoded and decoded are what a limit does with the decoded object: a mutation has to write it, a validation nothing.
func encoded[T any](object *T) error {
	_, err := json.Marshal(object)
	return err
}

func decoded[T any](*T) error { return nil }

func BenchmarkMutateVMI(b *testing.B) {
	for _, size := range sizes {
		b.Run(size, func(b *testing.B) {
			benchmarkHook(b, admission.MutateVMI, "review-vmi-"+size+".json", encoded[v1.VirtualMachineInstance])
		})
	}
}

func BenchmarkValidateVMI(b *testing.B) {
	for _, size := range sizes {
		b.Run(size, func(b *testing.B) {
			benchmarkHook(b, admission.ValidateVMI, "review-vmi-"+size+".json", decoded[v1.VirtualMachineInstance])
		})
	}
}

// A VM with an instancetype and a preference, whose revisions are known: its VMI is made explicit and judged in both calls.
func BenchmarkVM(b *testing.B) {
	for _, size := range sizes {
		b.Run("mutate/"+size, func(b *testing.B) {
			benchmarkHook(b, admission.MutateVM, "review-vm-it-"+size+".json", encoded[v1.VirtualMachine])
		})
		b.Run("validate/"+size, func(b *testing.B) {
			benchmarkHook(b, admission.ValidateVM, "review-vm-it-"+size+".json", decoded[v1.VirtualMachine])
		})
	}
}

// Only the rules, beside the limit of the call that they are a part of.
func BenchmarkRules(b *testing.B) {
	for _, size := range sizes {
		b.Run(size, func(b *testing.B) {
			raw := input(b, "review-vmi-"+size+".json")
			vmi, limits := read[v1.VirtualMachineInstance](b, raw), config.Default().Limits
			beside(b, func() { validate.Guest(vmi, limits, nil) }, func() { read[v1.VirtualMachineInstance](b, raw) })
		})
	}
}
