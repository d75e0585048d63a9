package hooked

import (
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	v1 "kubevirt.io/api/core/v1"
)

// TestPluginConditions: whom the Plugin of the manifests has KubeVirt ask, and what KubeVirt makes of a failure, by KubeVirt's own evaluator. The socket is
// there, and nobody answers, as when the hook was killed: a guest that is not asked about starts, and the annotation decides about others.
func TestPluginConditions(t *testing.T) {
	l := startAlone(t)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", l.Sidecar)
	if err != nil {
		t.Fatal(err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	record := func(vmi *v1.VirtualMachineInstance) { vmi.Annotations[v1alpha1.AnnotationFrontend] = "{}" }
	failure := func(value string) func(*v1.VirtualMachineInstance) {
		return func(vmi *v1.VirtualMachineInstance) { vmi.Annotations[v1alpha1.AnnotationHardwareFailure] = value }
	}
	for _, test := range []struct {
		why   string
		edits []func(*v1.VirtualMachineInstance)
		fails string
	}{
		{why: "no annotations", edits: []func(*v1.VirtualMachineInstance){func(vmi *v1.VirtualMachineInstance) { vmi.Annotations = nil }}},
		{why: "no record"},
		{why: "a record", edits: []func(*v1.VirtualMachineInstance){record}, fails: "plugin kiln hook 0 failed: dialing sidecar socket"},
		{why: "a record that may fail", edits: []func(*v1.VirtualMachineInstance){record, failure("Ignore")}},
		{why: "a record, and no word of KubeVirt's", edits: []func(*v1.VirtualMachineInstance){record, failure("ignore")}, fails: "plugin kiln hook 0 failed"},
		{why: "no record, which may fail", edits: []func(*v1.VirtualMachineInstance){failure("Ignore")}},
		{why: "a migration", edits: []func(*v1.VirtualMachineInstance){record, func(vmi *v1.VirtualMachineInstance) {
			vmi.Status.MigrationState = &v1.VirtualMachineInstanceMigrationState{}
		}}},
	} {
		vmi := explicit(t, guest(rand.New(rand.NewPCG(1, 9)))) //nolint:gosec // to be repeated
		vmi.Annotations = map[string]string{v1.PlacePCIDevicesOnRootComplex: "true"}
		for _, edit := range test.edits {
			edit(vmi)
		}
		xml, _, err := l.define(t, vmi, l.plugin())
		if (err == nil) != (test.fails == "") || err != nil && !strings.Contains(err.Error(), test.fails) || err == nil && xml == "" {
			t.Errorf("%s: %v, want '%s'", test.why, err, test.fails)
		}
	}
}
