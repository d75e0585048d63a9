package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/kubevirt/virtcontroller"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/config"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

const preferences = `
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterPreference
metadata: {name: linux, uid: p, generation: 1}
spec: {devices: {preferredDiskBus: virtio}}
`

// requests are those that leave the process.
type requests struct{ get, list, create, other int }

// counted is a webhook whose API server holds stored and whose informers hold cached, and the requests that it makes.
func counted(t *testing.T, stored, cached []*unstructured.Unstructured) (*Server, *requests) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(appsv1.AddToScheme(scheme), v1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	made := &requests{}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			made.get++
			return c.Get(ctx, key, o, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, options ...client.ListOption) error {
			made.list++
			return c.List(ctx, l, options...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			made.create++
			return c.Create(ctx, o, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			made.other++
			return c.Patch(ctx, o, p, options...)
		},
	})
	for _, object := range stored {
		builder.WithObjects(object)
	}
	live := builder.Build()
	write := func(ctx context.Context, drafts ...revision.Draft) error { return revision.Write(ctx, live, drafts...) }
	return &Server{Reviewer: review.Reviewer{Resolver: resolve.Resolver{Cached: objects.New(scheme, cached...), Live: live}, Configuration: config.Default,
		KubeVirt: virtcontroller.Completer{}},
		Write: write}, made
}

func TestRequestsThatLeaveTheProcess(t *testing.T) {
	size, preference := document(t, catalog), document(t, preferences)
	sizeRevision, preferenceRevision := snapshot(t, size), snapshot(t, preference)
	pins := func(keys ...string) string {
		return fmt.Sprintf("name: web, annotations: {kilnvm.io/pins: '{%s}'},", strings.Join(keys, ","))
	}
	bySize := fmt.Sprintf("%q:%q", "instancetype", sizeRevision.GetName())
	pinned := strings.Replace(sparse, "name: web,", pins(bySize), 1)
	both := strings.Replace(sparse, "instancetype: {name: small}", "instancetype: {name: small}\n  preference: {name: linux}", 1)
	guest := "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {" + strings.TrimSuffix(pins(bySize), ",") +
		", namespace: team}\nspec: {domain: {devices: {}}}\n"
	type objects = []*unstructured.Unstructured
	for _, test := range []struct {
		name, why, path, before, after string
		stored, cached                 objects
		want                           requests
	}{
		{name: "hit", why: "informers know size and revision", path: MutateVM, after: sparse,
			stored: objects{size, sizeRevision}, cached: objects{size, sizeRevision}},
		{name: "hit with a preference", path: MutateVM, after: both,
			stored: objects{size, sizeRevision, preference, preferenceRevision}, cached: objects{size, sizeRevision, preference, preferenceRevision}},
		{name: "judged", why: "judging a pinned VM reads its revision alone", path: ValidateVM, after: pinned,
			stored: objects{size, sizeRevision}, cached: objects{sizeRevision}},
		{name: "update", path: MutateVM, before: pinned, after: strings.Replace(pinned, "runStrategy: Always", "runStrategy: Halted", 1),
			stored: objects{size, sizeRevision}, cached: objects{sizeRevision}},
		{name: "guest", why: "the controller pinned it", path: MutateVMI, after: guest,
			stored: objects{size, sizeRevision}, cached: objects{sizeRevision}},
		{name: "first of its size", why: "no revision yet", path: MutateVM, after: sparse,
			stored: objects{size}, cached: objects{size}, want: requests{create: 1}},
		{name: "first of its size and preference", why: "one create for each", path: MutateVM, after: both,
			stored: objects{size, preference}, cached: objects{size, preference}, want: requests{create: 2}},
		{name: "newer than the informers", why: "a size that was created a moment ago", path: MutateVM, after: sparse,
			stored: objects{size}, want: requests{get: 1, create: 1}},
		{name: "no such size", path: MutateVM, after: sparse, want: requests{get: 1}},
		{name: "revision newer than the informers", why: "the controller made the guest at once", path: MutateVMI, after: guest,
			stored: objects{size, sizeRevision}, want: requests{get: 1}},
		{name: "pin newer than the informers", why: "the size in the cache has the content of the pin", path: ValidateVM, after: pinned,
			stored: objects{size, sizeRevision}, cached: objects{size}},
		{name: "restored", why: "the size has changed since the backup", path: MutateVM, after: pinned,
			stored: objects{sizeRevision}, want: requests{get: 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			server, made := counted(t, test.stored, test.cached)
			request := create(t, test.after)
			if test.before != "" {
				request = update(t, test.before, test.after)
			}
			if response := ask(t, server.Hooks()[test.path], request); !response.Allowed {
				t.Fatalf("refused: %+v", response.Result)
			}
			if *made != test.want {
				t.Errorf("made %+v, want %+v %s", *made, test.want, test.why)
			}
		})
	}
}

func document(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(toJSON(t, text)); err != nil {
		t.Fatal(err)
	}
	return object
}

// snapshot is the revision of an object in the namespace of the guests.
func snapshot(t *testing.T, of *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	draft, err := revision.NewDraft("team", of)
	if err != nil {
		t.Fatal(err)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(draft.Object())
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{Object: fields}
	object.SetAPIVersion("apps/v1")
	object.SetKind("ControllerRevision")
	return object
}
