package vmrestore

import (
	"context"
	"testing"

	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/snapshot"
	"github.com/kilnvm/kiln/test/fakecluster"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// template is a ResourceClaimTemplate that asks for a device of a class.
func template() *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"spec": map[string]any{"devices": map[string]any{
		"requests": []any{map[string]any{"name": "gpu", "exactly": map[string]any{"deviceClassName": "gpu.example.com"}}}}}}}}
	object.SetGroupVersionKind(metadataKinds[snapshot.ResourceClaimTemplate])
	object.SetNamespace("team")
	object.SetName("gpus")
	return object
}

// newFactsClient returns a client whose API server allows alice everything, answers dry runs of creates, and refuses all writes.
func newFactsClient(t *testing.T, stored ...client.Object) client.Client {
	t.Helper()
	return interceptor.NewClient(fakecluster.NewClient(t, nil, stored...), interceptor.Funcs{
		Create: func(ctx context.Context, to client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if review, is := object.(*authorizationv1.SubjectAccessReview); is {
				review.Status.Allowed = review.Spec.User == "alice"
				return nil
			}
			if all := (&client.CreateOptions{}).ApplyOptions(options); len(all.DryRun) == 0 {
				t.Errorf("%T '%s' is created", object, object.GetName())
			}
			err := to.Get(ctx, client.ObjectKeyFromObject(object), object)
			if err == nil {
				return apierrors.NewAlreadyExists(schema.GroupResource{}, object.GetName())
			}
			return client.IgnoreNotFound(err)
		},
	})
}

// TestFacts: each kind is looked for as this process may: by its metadata, by the nodes, or by a dry run of a create.
func TestFacts(t *testing.T) {
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "team", Name: name} }
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{Capacity: corev1.ResourceList{
		"example.com/gpu": resource.MustParse("0"), "example.com/nic": resource.MustParse("1")}}}
	network := &unstructured.Unstructured{}
	network.SetGroupVersionKind(metadataKinds[snapshot.Network])
	network.SetNamespace("other")
	network.SetName("lan")
	draft, err := revision.NewDraft("team", &unstructured.Unstructured{Object: map[string]any{"apiVersion": "instancetype.kubevirt.io/v1beta1",
		"kind": instancetype.Kinds.Cluster, "metadata": map[string]any{"name": "small"}, "spec": map[string]any{}}})
	if err != nil {
		t.Fatal(err)
	}
	c := newFactsClient(t, &corev1.Secret{ObjectMeta: meta("a")}, &corev1.ConfigMap{ObjectMeta: meta("a")}, &corev1.ServiceAccount{ObjectMeta: meta("a")},
		&corev1.PersistentVolumeClaim{ObjectMeta: meta("a")}, draft.Object(), node, template(), network)
	configuration := config.Default()
	configuration.Limits.PermittedHostDevices = &v1.PermittedHostDevices{PciHostDevices: []v1.PciHostDevice{
		{ResourceName: "example.com/gpu"}, {ResourceName: "example.com/x"}}}
	f := &restoreFacts{live: c, configuration: configuration, user: authenticationv1.UserInfo{Username: "alice"}, namespace: "team",
		claims: map[string]bool{"made": true}, shared: map[string]bool{"shared": true}}
	for object, want := range map[snapshot.Object]snapshot.Fact{
		{Kind: snapshot.Secret, Namespace: "team", Name: "a"}:                   snapshot.Present,
		{Kind: snapshot.Secret, Namespace: "team", Name: "b"}:                   snapshot.Gone,
		{Kind: snapshot.ConfigMap, Namespace: "team", Name: "a"}:                snapshot.Present,
		{Kind: snapshot.ConfigMap, Namespace: "team", Name: "b"}:                snapshot.Gone,
		{Kind: snapshot.ServiceAccount, Namespace: "team", Name: "a"}:           snapshot.Present,
		{Kind: snapshot.ServiceAccount, Namespace: "team", Name: "../a"}:        snapshot.Gone,
		{Kind: snapshot.Claim, Namespace: "team", Name: "a"}:                    snapshot.Present,
		{Kind: snapshot.Claim, Namespace: "team", Name: "b"}:                    snapshot.Gone,
		{Kind: snapshot.Claim, Namespace: "team", Name: "made"}:                 snapshot.Present,
		{Kind: snapshot.Claim, Namespace: "team", Name: "shared"}:               snapshot.Shared,
		{Kind: snapshot.Revision, Namespace: "team", Name: draft.Name}:          snapshot.Present,
		{Kind: snapshot.Revision, Namespace: "team", Name: "b"}:                 snapshot.Gone,
		{Kind: snapshot.Network, Namespace: "other", Name: "lan"}:               snapshot.Present,
		{Kind: snapshot.Network, Namespace: "other/..", Name: "lan"}:            snapshot.Gone,
		{Kind: snapshot.Resource, Name: "example.com/gpu"}:                      snapshot.Present, // its plugin is restarted, perhaps
		{Kind: snapshot.Resource, Name: "example.com/x"}:                        snapshot.Gone,
		{Kind: snapshot.Resource, Name: "example.com/nic"}:                      snapshot.Forbidden,
		{Kind: snapshot.ResourceClaimTemplate, Namespace: "team", Name: "gpus"}: snapshot.Present,
		{Kind: snapshot.ResourceClaim, Namespace: "team", Name: "gpus"}:         snapshot.Gone,
		{Kind: snapshot.DeviceClass, Name: "gpu.example.com"}:                   snapshot.Gone,
	} {
		if got, err := f.readObject(t.Context(), object); err != nil || got != want {
			t.Errorf("%+v: %d, want %d, %v", object, got, want, err)
		}
	}
	need := snapshot.Need{Object: snapshot.Object{Kind: snapshot.ResourceClaimTemplate, Namespace: "team", Name: "gpus"}, Path: field.NewPath("spec")}
	all, err := f.withDeviceClasses(t.Context(), []snapshot.Need{need})
	if err != nil || len(all) != 2 || all[1].Name != "gpu.example.com" || all[1].Kind != snapshot.DeviceClass || all[1].Path != need.Path {
		t.Errorf("%v: %v", err, all)
	}
}
