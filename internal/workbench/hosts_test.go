package workbench

import (
	"strings"
	"testing"
)

const hostKind = "apiVersion: kilnvm.io/v1alpha1\nkind: HostCapabilities\nspec: "

// TestFilesOfHosts: a file of another kind or with a mistyped field is refused. Read as a host without facts, it would refuse each VM for another reason.
func TestFilesOfHosts(t *testing.T) {
	t.Parallel()
	const spec = "{architecture: amd64, virtTypes: [kvm], emulators: {amd64: /usr/bin/qemu-system-x86_64}}"
	for _, c := range []struct{ why, text, want string }{
		{"a host", hostKind + spec, ""},
		{"no kind", "spec: " + spec, "must have apiVersion 'kilnvm.io/v1alpha1' and kind 'HostCapabilities', and has '' and ''"},
		{"another version", strings.Replace(hostKind, "v1alpha1", "v1", 1) + spec, "has 'kilnvm.io/v1' and 'HostCapabilities'"},
		{"another kind", strings.Replace(hostKind, "HostCapabilities", "HostProfile", 1) + "{}", "and 'HostProfile'"},
		{"a mistyped field", hostKind + "{architecture: amd64, virtType: [kvm]}", `unknown field "virtType"`},
		{"no spec", "architecture: amd64", `unknown field "architecture"`},
	} {
		host, err := readHost(write(t, "host.yaml", c.text), "arm64")
		switch {
		case c.want == "" && (err != nil || host.Architecture != "amd64"):
			t.Errorf("%s: %+v, %v", c.why, host, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: error '%v', want '%s'", c.why, err, c.want)
		}
	}
}
