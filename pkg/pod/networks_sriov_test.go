package pod

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// TestVirtualFunctions: the pod requests a device for each network of a resource, names the resource of each virtual function to the launcher, and has Multus
// give it the guest's MAC address.
func TestVirtualFunctions(t *testing.T) {
	in := input(t, `resourceClaims: [{name: pool, resourceClaimName: b}],
		domain: {devices: {interfaces: [{name: main, masquerade: {}}, {name: fast, sriov: {}, macAddress: '02:00:00:00:00:01'}, {name: lan, bridge: {}},
			{name: lan-2, bridge: {}}, {name: gone, sriov: {}, state: absent}, {name: drawn, sriov: {}}]}},
		networks: [{name: main, pod: {}}, {name: fast, multus: {networkName: vf}}, {name: lan, multus: {networkName: br}}, {name: lan-2, multus: {networkName: br}},
			{name: gone, multus: {networkName: other}}, {name: drawn, resourceClaim: {claimName: pool, requestName: nic}}]`)
	in.NetworkResources = map[string]string{"vf": "x.y/vf", "br": "bridge.x.y/br1"}
	locking(&in)
	taps(&in)
	made := made(t, in)
	got := made.Spec.Containers[0]
	devices := map[corev1.ResourceName]int64{}
	for _, list := range []corev1.ResourceList{got.Resources.Requests, got.Resources.Limits} {
		for _, name := range []corev1.ResourceName{"x.y/vf", "bridge.x.y/br1"} {
			one := list[name]
			devices[name] += one.Value()
		}
	}
	if diff := cmp.Diff(map[corev1.ResourceName]int64{"x.y/vf": 2, "bridge.x.y/br1": 4}, devices); diff != "" {
		t.Errorf("requests and limits (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]corev1.ResourceClaim{{Name: "pool", Request: "nic"}}, got.Resources.Claims); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
	named := map[string]string{}
	for _, variable := range got.Env {
		if value := variable.Value; value != "" {
			named[variable.Name] = value
		}
	}
	if diff := cmp.Diff(map[string]string{EnvVMI: "web", "NETWORK_RESOURCE_fast": "x.y/vf"}, named); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	want := `[{"name":"vf","namespace":"shop","mac":"02:00:00:00:00:01","interface":"` + PodInterface("fast") + `"},` +
		`{"name":"br","namespace":"shop","interface":"` + PodInterface("lan") + `"},{"name":"br","namespace":"shop","interface":"` + PodInterface("lan-2") + `"}]`
	if text := made.Annotations[annotationNetworks]; text != want {
		t.Errorf("Multus is asked for %s", text)
	}
}

// TestMissingNetworks: a pod waits for the definitions of its networks.
func TestMissingNetworks(t *testing.T) {
	in := input(t, nic("bridge: {}"))
	taps(&in)
	in.NetworkResources = nil
	_, errs := New(in)
	if diff := cmp.Diff([]string{"FieldValueNotFound spec.networks[0].multus.networkName"}, typesAndFields(errs)); diff != "" {
		t.Error(diff)
	}
	// Multus looks for it elsewhere.
	in.VMI.Spec.Networks[0].Multus.Default = true
	if _, errs := New(in); len(errs) > 0 {
		t.Errorf("a default network: %v", errs.ToAggregate())
	}
}
