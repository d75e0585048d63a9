package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/pod"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// TestRuntime: what the flags about guests mean, and which are refused.
func TestRuntime(t *testing.T) {
	for _, c := range []struct {
		why, refused string
		args         []string
		want         pod.Settings
		finalizers   []string
	}{
		{"no image", "--launcher-image must name the image", nil, pod.Settings{}, nil},
		{"an image", "", []string{"--launcher-image=l:1"}, pod.Settings{Image: "l:1", Network: pod.Passt}, []string{v1.VirtualMachineInstanceFinalizer}},
		{"bare machines need none", "", []string{"--runtime=node"}, pod.Settings{Network: pod.Passt}, nil},
		{"another runtime", "--runtime is 'kubevirt': it must be 'pod' or 'node'", []string{"--runtime=kubevirt"}, pod.Settings{}, nil},
		{"another network", "--guest-network is 'bridge': it must be 'passt' or 'slirp'", []string{"--guest-network=bridge", "--launcher-image=l"},
			pod.Settings{}, nil},
		{"all", "", []string{"--launcher-image=l", "--launcher-pull-secrets=a,b", "--guest-network=slirp", "--guest-taps", "--guest-locked-memory"},
			pod.Settings{Image: "l", PullSecrets: []corev1.LocalObjectReference{{Name: "a"}, {Name: "b"}}, Network: pod.Slirp, Taps: true, LockedMemory: true},
			[]string{v1.VirtualMachineInstanceFinalizer}},
	} {
		var g guests
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		g.addFlags(flags)
		if err := flags.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		got, err := g.podSettings()
		if (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: %v, want '%s'", c.why, err, c.refused)
		}
		if diff := cmp.Diff(c.want, got); err == nil && diff != "" {
			t.Errorf("%s: -want +got\n%s", c.why, diff)
		}
		if err == nil && !slices.Equal(g.vmiFinalizers(), c.finalizers) {
			t.Errorf("%s: finalizers of new VMIs are %v", c.why, g.vmiFinalizers())
		}
	}
}
