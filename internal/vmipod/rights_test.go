package vmipod

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"
)

// resources are the groups and resources of the objects that the controller asks for.
var resources = map[string]string{
	"*v1.Pod": " pods", "*v1.ServiceAccount": " serviceaccounts", "*v1.PersistentVolumeClaim": " persistentvolumeclaims",
	"*v1.ResourceQuotaList": " resourcequotas", "*v1.EventList": " events", "*v1.Secret": " secrets", "*v1.ConfigMap": " configmaps",
	"*v1.PartialObjectMetadata": "k8s.cni.cncf.io network-attachment-definitions",
	"*v1.Role":                  "rbac.authorization.k8s.io roles", "*v1.RoleBinding": "rbac.authorization.k8s.io rolebindings",
	"*v1alpha1.GuestPod": "kilnvm.io guestpods", "*v1alpha1.GuestHardware": "kilnvm.io guesthardwares",
	"*v1.VirtualMachineInstance": "kubevirt.io virtualmachineinstances",
}

// unusedRights are rights that no request in this test needs, each with the reason.
var unusedRights = map[string]string{
	"get  nodes": "for guests that KubeVirt runs: internal/kubevirt/guestcontroller",
	"list  pods": "its informer's", "watch  pods": "its informer's", "list  nodes": "its informer's", "watch  nodes": "its informer's",
	"list  resourcequotas": "its informer's, and of limits", "watch  resourcequotas": "its informer's",
	"list  limitranges": "its informer's", "watch  limitranges": "its informer's",
	"list k8s.cni.cncf.io network-attachment-definitions": "its informer's", "watch k8s.cni.cncf.io network-attachment-definitions": "its informer's",
	"list kilnvm.io guestpods": "its informer's, and granted to launchers", "watch kilnvm.io guestpods": "its informer's, and granted to launchers",
	"patch kilnvm.io guestpods/status": "granted to launchers",
}

// recordRights records the rights that the requests of the controller need.
func (c *cluster) recordRights(used map[string]bool) {
	note := func(verb string, object any, sub string) {
		resource, known := resources[fmt.Sprintf("%T", object)]
		if !known {
			c.Errorf("what resource is %T?", object)
		}
		used[verb+" "+resource+sub] = true
	}
	writes := interceptor.Funcs{
		Create: func(ctx context.Context, to client.WithWatch, object client.Object, options ...client.CreateOption) error {
			note("create", object, "")
			return to.Create(ctx, object, options...)
		},
		Patch: func(ctx context.Context, to client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			note("patch", object, "")
			return to.Patch(ctx, object, patch, options...)
		},
		Delete: func(ctx context.Context, to client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			note("delete", object, "")
			return to.Delete(ctx, object, options...)
		},
		SubResourcePatch: func(ctx context.Context, to client.Client, of string, object client.Object, p client.Patch, o ...client.SubResourcePatchOption) error {
			note("patch", object, "/"+of)
			return to.SubResource(of).Patch(ctx, object, p, o...)
		},
	}
	c.controller.Client = interceptor.NewClient(c.controller.Client.(client.WithWatch), writes)
	writes.Get = func(ctx context.Context, from client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
		note("get", object, "")
		return from.Get(ctx, key, object, options...)
	}
	writes.List = func(ctx context.Context, from client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		note("list", list, "")
		return from.List(ctx, list, options...)
	}
	c.controller.Live = interceptor.NewClient(c.controller.Live.(client.WithWatch), writes)
}

// TestRightsOfTheController: manifests/rbac grants what the controller asks for, and of pods and what belongs to them no more.
func TestRightsOfTheController(t *testing.T) {
	granted, used := grantedRights(t), map[string]bool{}
	earlier := explicitVMI()
	earlier.UID = "0000-earlier"
	objects := accountObjects(earlier)
	for _, object := range objects {
		object.SetUID("1111")
	}
	claimed := vmiOnNetworks("blue")
	claimed.Spec.Domain.CPU.MaxSockets = 2
	claimed.Spec.Domain.Devices.TPM = &v1.TPMDevice{Persistent: new(true)}
	claimed.Spec.Volumes = []v1.Volume{{Name: "d", VolumeSource: v1.VolumeSource{DataVolume: &v1.DataVolumeSource{Name: "d"}}},
		{Name: "c", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}}}}
	c := newCluster(t, append(objects, claimed, definition("team", "blue", ""),
		&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "d"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "c"}},
		&v1alpha1.GuestPod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "a", UID: "1111"}, Spec: v1alpha1.GuestPodSpec{PodUID: "earlier"}})...)
	c.controller.Settings.Taps = true
	c.controller.Configuration = func() config.Cluster {
		now := config.Default()
		now.Pods.StateClass = "fast"
		return now
	}
	c.recordRights(used)
	c.runGuest()
	c.reportRunning(func(*v1alpha1.LiveHardware) {})
	c.reconcileAll()
	c.editSpec(func(spec *v1.VirtualMachineInstanceSpec) { spec.Domain.CPU.Sockets++ })
	c.reconcileAll()
	c.must(c.WithWatch.Delete(t.Context(), c.vmi()))
	c.reconcileAll()
	c.reportDomain(v1alpha1.GuestPoweredOff, "")
	c.endPod()
	if c.reconcileAll(); c.vmi() != nil {
		t.Fatalf("the VMI has not gone: %+v", c.vmi().Status)
	}
	for right := range used {
		if !granted[right] {
			t.Errorf("manifests/rbac/controller.yaml does not grant '%s'", right)
		}
	}
	kinds := []string{"pods", "pods/resize", "nodes", "guestpods", "guestpods/status", "serviceaccounts", "roles", "rolebindings", "resourcequotas", "secrets",
		"network-attachment-definitions", "limitranges"}
	for right := range granted {
		if resource := right[strings.LastIndex(right, " ")+1:]; slices.Contains(kinds, resource) && !used[right] && unusedRights[right] == "" {
			t.Errorf("nothing needs the right to '%s'", right)
		}
	}
}

// grantedRights returns the rights of ClusterRole kiln-controller, such as 'patch kilnvm.io guestpods'.
func grantedRights(t *testing.T) map[string]bool {
	t.Helper()
	raw, err := os.ReadFile("../../manifests/rbac/controller.yaml")
	if err != nil {
		t.Fatal(err)
	}
	granted := map[string]bool{}
	for document := range strings.SplitSeq(string(raw), "\n---\n") {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		if role.Kind != "ClusterRole" {
			continue
		}
		for _, rule := range role.Rules {
			for _, verb := range rule.Verbs {
				for _, resource := range rule.Resources {
					granted[verb+" "+rule.APIGroups[0]+" "+resource] = true
				}
			}
		}
	}
	return granted
}
