package cli

import (
	"slices"
	"strings"
	"testing"
)

const (
	exampleProfiles = "../../examples/profiles"
	windowsVM       = `apiVersion: v1
kind: Namespace
metadata: {name: desks, labels: {desktops: "true"}}
---
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: desk, namespace: desks}
spec:
  runStrategy: Always
  template:
    metadata: {labels: {os: windows}}
    spec: {domain: {memory: {guest: 1Gi}, devices: {}}}
`
)

// TestExampleProfiles: the examples are accepted, and fill VMs that libvirt documents are rendered of.
func TestExampleProfiles(t *testing.T) {
	t.Parallel()
	got := call(t, "", "validate", "-f", exampleProfiles)
	lines := strings.Split(strings.TrimSpace(got.out), "\n")
	slices.Sort(lines)
	in := " is accepted in " + exampleProfiles
	if want := []string{"3 accepted, 0 rejected in 3 files", "ClusterGuestProfile base" + in + "/base.yaml",
		"ClusterGuestProfile windows" + in + "/windows.yaml", "GuestProfile default/web" + in + "/web.yaml"}; got.err != nil ||
		!slices.Equal(lines, want) || got.errOut != "" {
		t.Errorf("%v\n%s%s", got.err, got.out, got.errOut)
	}
	for _, test := range []struct{ vm, profile string }{
		{strings.Replace(webVM(""), "namespace: shop", "namespace: default", 1), "GuestProfile web"},
		{windowsVM, "ClusterGuestProfile windows"},
	} {
		if got := call(t, test.vm, "explain", "-f", "-", "--catalog", exampleProfiles); got.err != nil || !strings.Contains(got.out, test.profile+"@") {
			t.Errorf("%s fills nothing: %v\n%s%s", test.profile, got.err, got.out, got.errOut)
		}
		if got := call(t, test.vm, "render", "-f", "-", "--catalog", exampleProfiles); got.err != nil || !strings.Contains(got.out, "<domain") {
			t.Errorf("%s: %v\n%s", test.profile, got.err, got.errOut)
		}
	}
}
