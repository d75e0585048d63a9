package pod

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
)

func TestPodNetwork(t *testing.T) {
	for _, test := range []struct {
		why, spec string
		with      func(*Input)
		passt     bool
	}{
		{"masquerade", onPodNetwork(", masquerade: {}"), nil, true},
		{"bridge", onPodNetwork(", bridge: {}"), nil, true},
		{"passt", onPodNetwork(", passtBinding: {}"), nil, true},
		{"no setting is passt", onPodNetwork(", masquerade: {}"), func(in *Input) { in.Network = "" }, true},
		{"slirp", onPodNetwork(", masquerade: {}"), slirp, false},
		{"no interface", "", nil, false},
		{"an interface that is gone", onPodNetwork(", masquerade: {}, state: absent"), nil, false},
		{"another network", nic("bridge: {}"), taps, false},
	} {
		t.Run(test.why, func(t *testing.T) {
			in := input(t, test.spec)
			if test.with != nil {
				test.with(&in)
			}
			made := made(t, in)
			want := corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
			if test.passt {
				want = corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: new("kiln/launcher.json")}
			}
			if diff := cmp.Diff(want, *made.Spec.SecurityContext.SeccompProfile); diff != "" {
				t.Error(diff)
			}
			var sysctls []corev1.Sysctl
			if test.passt {
				sysctls = []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "0"}}
			}
			if diff := cmp.Diff(sysctls, made.Spec.SecurityContext.Sysctls); diff != "" {
				t.Error(diff)
			}
			if labelled := made.Spec.NodeSelector[v1alpha1.LabelPasst] == "true"; labelled != test.passt {
				t.Errorf("nodes with passt: %t", labelled)
			}
		})
	}
}

func TestPorts(t *testing.T) {
	in := input(t, onPodNetwork(", masquerade: {}, ports: [{name: web, port: 80}, {port: 53, protocol: UDP}]"))
	want := []corev1.ContainerPort{{Name: "web", ContainerPort: 80, Protocol: "TCP"}, {ContainerPort: 53, Protocol: "UDP"}}
	if diff := cmp.Diff(want, container(t, in).Ports); diff != "" {
		t.Error(diff)
	}
	in.Network = Slirp
	if result, _ := New(in); result.Pod.Spec.Containers[0].Ports != nil {
		t.Error("nothing reaches the guest, and its pod has ports")
	}
}

// TestMultus: the annotations are the same as KubeVirt 1.9 writes for the networks.
func TestMultus(t *testing.T) {
	in := input(t, `domain: {devices: {interfaces: [{name: main, bridge: {}}, {name: blue, bridge: {}, macAddress: '02:00:00:00:00:01'},
			{name: red, bridge: {}}, {name: gone, bridge: {}, state: absent}]}},
		networks: [{name: main, multus: {networkName: infra/lan, default: true}}, {name: blue, multus: {networkName: blue-net}},
			{name: red, multus: {networkName: other/red-net}}, {name: gone, multus: {networkName: x}}]`)
	in.Taps = true
	in.VMI.Annotations = map[string]string{annotationNetworks: "stolen"}
	got := made(t, in).Annotations
	want := `[{"name":"blue-net","namespace":"shop","mac":"02:00:00:00:00:01","interface":"pod16477688c0e"},` +
		`{"name":"red-net","namespace":"other","interface":"podb1f51a511f1"}]`
	if got[annotationNetworks] != want || got[annotationDefaultNetwork] != "infra/lan" {
		t.Errorf("got %s and %s", got[annotationNetworks], got[annotationDefaultNetwork])
	}
	delete(in.VMI.Annotations, "unused")
	in.VMI.Spec.Networks, in.VMI.Spec.Domain.Devices.Interfaces = nil, nil
	if text, has := made(t, in).Annotations[annotationNetworks]; has {
		t.Errorf("a tenant connects the pod with '%s'", text)
	}
}
