package cli

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
)

const (
	// everywhere is for namespaces with a label, and extends a profile that is for none.
	everywhere = `apiVersion: kilnvm.io/v1alpha1
kind: ClusterGuestProfile
metadata: {name: everywhere, namespace: ignored}
spec:
  selector: {}
  namespaceSelector: {matchLabels: {team: shop}}
  extends: [{name: base}]
  template: {metadata: {labels: {from: everywhere}}}
`
	base = `apiVersion: kilnvm.io/v1alpha1
kind: ClusterGuestProfile
metadata: {name: base}
spec: {template: {spec: {domain: {ioThreadsPolicy: auto}}}}
`
	ofTeam = `apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {team: shop}}
`
)

// TestProfilesOfFiles: profiles are read from -f and from --catalog, and a ClusterGuestProfile counts where a Namespace among the files has the label
// that it selects.
func TestProfilesOfFiles(t *testing.T) {
	t.Parallel()
	catalog, _ := write(t, size, preference, everywhere, base, ofTeam)
	elsewhere, _ := write(t, size, preference, everywhere, base)
	_, vm := write(t, graceful, preferred)
	got := call(t, "", "explain", "-f", vm, "--catalog", catalog)
	for _, want := range []string{
		`GuestProfile graceful@graceful-`,
		`ClusterGuestProfile everywhere@everywhere-`,
		`, which extends ClusterGuestProfile base@base-`,
	} {
		if got.err != nil || !strings.Contains(got.out, want) {
			t.Errorf("explain does not say '%s': %v %s\n%s", want, got.err, got.errOut, got.out)
		}
	}
	other := call(t, "", "explain", "-f", vm, "--catalog", elsewhere)
	if other.err != nil || strings.Contains(other.out, "ClusterGuestProfile") || !strings.Contains(other.out, "GuestProfile graceful") {
		t.Errorf("a namespace without the label: %v %s\n%s", other.err, other.errOut, other.out)
	}
	_, lost := write(t, strings.Replace(graceful, "selector: {}", "selector: {}, extends: [{name: nothing}]", 1), preferred)
	if refused := call(t, "", "validate", "-f", lost, "--catalog", catalog); cmdutil.ExitStatus(refused.err) != 1 ||
		!strings.Contains(refused.errOut, "spec.template.metadata.labels") || !strings.Contains(refused.errOut, "'nothing'") {
		t.Errorf("a profile that extends nothing: %v\n%s%s", refused.err, refused.out, refused.errOut)
	}
}
