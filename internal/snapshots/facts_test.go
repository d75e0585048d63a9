package snapshots

import (
	"testing"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/snapshot"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// template is a ResourceClaimTemplate that asks for a device of a class.
func template() *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"spec": map[string]any{"devices": map[string]any{
		"requests": []any{map[string]any{"name": "gpu", "exactly": map[string]any{"deviceClassName": "gpu.example.com"}}}}}}}}
	object.SetGroupVersionKind(kinds[snapshot.ResourceClaimTemplate])
	object.SetNamespace("team")
	object.SetName("gpus")
	return object
}

// TestFacts: each kind is looked for as this process may: by its metadata, by the nodes, or by a dry run of a create.
func TestFacts(t *testing.T) {
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "team", Name: name} }
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{Capacity: corev1.ResourceList{
		"example.com/gpu": resource.MustParse("0"), "example.com/nic": resource.MustParse("1")}}}
	objects := []client.Object{&corev1.Secret{ObjectMeta: meta("a")}, &corev1.ConfigMap{ObjectMeta: meta("a")}, &corev1.ServiceAccount{ObjectMeta: meta("a")},
		claim("a"), size(), node, template(), lan()}
	c := newCluster(t, nil, objects...)
	c.controller.Configuration = func() config.Cluster {
		all := config.Default()
		all.Limits.PermittedHostDevices = &v1.PermittedHostDevices{PciHostDevices: []v1.PciHostDevice{
			{ResourceName: "example.com/gpu"}, {ResourceName: "example.com/x"}}}
		return all
	}
	s := &seeing{Controller: c.controller, user: authenticationv1.UserInfo{Username: "alice"}, namespace: "team",
		claims: map[string]bool{"made": true}, shared: map[string]bool{"shared": true}}
	for of, want := range map[snapshot.Object]snapshot.Fact{
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
		{Kind: snapshot.Revision, Namespace: "team", Name: size().Name}:         snapshot.Present,
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
		if got, err := s.fact(t.Context(), of); err != nil || got != want {
			t.Errorf("%+v: %d, want %d, %v", of, got, want, err)
		}
	}
	if len(c.writes) > 0 {
		t.Errorf("looking writes %v", c.writes)
	}
	need := snapshot.Need{Object: snapshot.Object{Kind: snapshot.ResourceClaimTemplate, Namespace: "team", Name: "gpus"}, Path: field.NewPath("spec")}
	all, err := s.withClasses(t.Context(), []snapshot.Need{need})
	if err != nil || len(all) != 2 || all[1].Name != "gpu.example.com" || all[1].Kind != snapshot.DeviceClass || all[1].Path != need.Path {
		t.Errorf("%v: %v", err, all)
	}
}
