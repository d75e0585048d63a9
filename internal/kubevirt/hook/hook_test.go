package hook

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/test/explicit"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
)

const (
	before = `<domain><os><type machine="q35">hvm</type></os><devices/></domain>`
	after  = `<domain><os><type machine="pc-q35-7.2">hvm</type></os><devices><controller type="pci" index="1" model="pcie-root-port">`
	kept   = `{"machine": "pc-q35-7.2", "freePorts": 1, "devices": {"controller.pci.1": {"pci": "0000:00:02.0"}}}`
	broken = `{"machine": "virt-7.2"}`
)

// serve runs the hook on a socket of its own, and returns a client, the socket, and what Serve returns.
func serve(t *testing.T) (*grpc.ClientConn, string, <-chan error) {
	t.Helper()
	dir, err := os.MkdirTemp("", "kiln-hook-") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "kiln.sock")
	if err := os.WriteFile(socket, nil, 0o600); err != nil { // of a process that was killed
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	ended := make(chan error, 1)
	go func() { ended <- (&Hook{Log: testr.New(t)}).Serve(ctx, socket); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended }) // the log is the test's
	client, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{}), grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client, socket, ended
}

func call(t *testing.T, client *grpc.ClientConn, method string, request message) (response message, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = client.Invoke(ctx, method, &request, &response)
	return response, err
}

// instance is a VMI with a record, as virt-launcher hands it over.
func instance(t *testing.T, text string, edit func(*v1.VirtualMachineInstance)) []byte {
	t.Helper()
	given := &v1.VirtualMachineInstance{}
	given.Name, given.Namespace, given.UID = "web", "team", "uid"
	given.Spec.Domain.Memory = &v1.Memory{Guest: ptr.To(resource.MustParse("1Gi"))}
	vmi := explicit.Expand(t, given)
	vmi.Annotations = map[string]string{}
	if text != "" {
		vmi.Annotations[v1alpha1.AnnotationFrontend] = text
	}
	if edit != nil {
		edit(vmi)
	}
	out, err := json.Marshal(vmi)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestOnDefineDomain: what each version of hook sidecars answers. KubeVirt's own client asks it in test/kubevirt.
func TestOnDefineDomain(t *testing.T) {
	t.Parallel()
	client, _, _ := serve(t)
	ignore := func(vmi *v1.VirtualMachineInstance) {
		vmi.Annotations[v1alpha1.AnnotationHardwareFailure] = v1alpha1.HardwareFailureIgnore
	}
	for _, c := range []struct {
		why, want, fails string
		vmi              []byte
	}{
		{why: "a record", want: after, vmi: instance(t, kept, nil)},
		{why: "no record", want: before, vmi: instance(t, "", nil)},
		{why: "a record that is to be made", want: `<domain><os><type machine="q35">hvm</type></os><devices><controller type="pci" index="1"`,
			vmi: instance(t, "{}", nil)},
		{why: "a guest that Kiln cannot render", fails: "spec.domain.memory", vmi: instance(t, kept, func(vmi *v1.VirtualMachineInstance) {
			vmi.Spec.Domain.Memory = nil
		})},
		{why: "new hardware", want: before, vmi: instance(t, kept, func(vmi *v1.VirtualMachineInstance) {
			vmi.Annotations[v1alpha1.AnnotationHardware] = v1alpha1.HardwareLatest
		})},
		{why: "a migration", want: before, vmi: instance(t, broken, func(vmi *v1.VirtualMachineInstance) {
			vmi.Status.MigrationState = &v1.VirtualMachineInstanceMigrationState{}
		})},
		{why: "a guest that runs elsewhere", want: before, vmi: instance(t, broken, func(vmi *v1.VirtualMachineInstance) { vmi.Status.Phase = v1.Running })},
		{why: "a record that does not fit", fails: "machine: the record has 'virt-7.2'", vmi: instance(t, broken, nil)},
		{why: "one that may fail", want: before, vmi: instance(t, broken, ignore)},
		{why: "one that nobody wrote", fails: "annotation kilnvm.io/hardware-failure 'Ignore'", vmi: instance(t, "{", nil)},
		{why: "one that nobody wrote, and that may fail", want: before, vmi: instance(t, "{", ignore)},
		{why: "no VMI", fails: "the VirtualMachineInstance of virt-launcher", vmi: []byte("{")},
	} {
		for _, version := range versions {
			got, err := call(t, client, "/kubevirt.hooks."+version+".Callbacks/OnDefineDomain", message{{1, []byte(before)}, {2, c.vmi}})
			switch {
			case c.fails != "" && (status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), c.fails)):
				t.Errorf("%s %s: '%v', want '%s'", version, c.why, err, c.fails)
			case c.fails == "" && (err != nil || !strings.HasPrefix(string(got.lastValue(1)), c.want)):
				t.Errorf("%s %s: %v, %s", version, c.why, err, got.lastValue(1))
			}
		}
	}
}

// TestMutateDomain: plugins are asked in more circumstances.
func TestMutateDomain(t *testing.T) {
	t.Parallel()
	client, _, _ := serve(t)
	for _, c := range []struct {
		kind, circumstances, want string
		code                      codes.Code
	}{
		{"libvirt", "Boot", after, codes.OK},
		{"libvirt", "MigrationTarget", before, codes.OK},
		{"libvirt", "MigrationSource", before, codes.OK},
		{"xen", "Boot", "", codes.InvalidArgument},
	} {
		got, err := call(t, client, "/kubevirt.hooks.plugins.v1alpha1.DomainHookService/MutateDomain",
			message{{1, []byte(c.kind)}, {2, []byte(before)}, {3, instance(t, kept, nil)}, {4, message{{1, []byte(c.circumstances)}}.encodeMessage()}})
		if status.Code(err) != c.code || !strings.HasPrefix(string(got.lastValue(1)), c.want) {
			t.Errorf("%s at %s: %v, %s", c.kind, c.circumstances, err, got.lastValue(1))
		}
	}
	if _, err := call(t, client, "/kubevirt.hooks.plugins.v1alpha1.DomainHookService/MutateDomain",
		message{{1, []byte("libvirt")}, {4, []byte{0xff}}}); status.Code(err) != codes.InvalidArgument {
		t.Error(err)
	}
}

// TestInfo: virt-launcher learns what to call, and Shutdown ends the process.
func TestInfo(t *testing.T) {
	t.Parallel()
	client, socket, ended := serve(t)
	got, err := call(t, client, "/kubevirt.hooks.info.Info/Info", nil)
	if err != nil {
		t.Fatal(err)
	}
	point := func(name string) []byte { return message{{1, []byte(name)}}.encodeMessage() }
	want := message{{1, []byte("kiln")}, {3, point("OnDefineDomain")}, {3, point("Shutdown")}, {4, []byte("v1alpha3")}, {4, []byte("v1alpha2")}, {4,
		[]byte("v1alpha1")}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(entry{})); diff != "" {
		t.Error(diff)
	}
	if _, err := call(t, client, "/kubevirt.hooks.v1alpha3.Callbacks/Shutdown", nil); err != nil {
		t.Error(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the process goes on")
	}
	if _, err := os.Stat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
}

// TestServeFails: a socket that cannot be made ends the process.
func TestServeFails(t *testing.T) {
	t.Parallel()
	h := &Hook{Log: logr.Discard()}
	if err := h.Serve(t.Context(), filepath.Join(t.TempDir(), "none", "kiln.sock")); err == nil {
		t.Error("no folder, no error")
	}
	full := t.TempDir()
	if err := os.Mkdir(filepath.Join(full, "kept"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := h.Serve(t.Context(), full); err == nil {
		t.Error("a folder that is not empty, no error")
	}
}

// TestDecode: what later versions add is left out, and what is cut off is an error.
func TestDecode(t *testing.T) {
	t.Parallel()
	whole := []byte{0x08, 0x05, 0x12, 0x01, 'a', 0x12, 0x01, 'b', 0x1d, 1, 2, 3, 4} // 1: number 5, 2: 'a', 2: 'b', 3: fixed32
	got, err := decodeMessage(whole)
	if diff := cmp.Diff(message{{2, []byte("a")}, {2, []byte("b")}}, got, cmp.AllowUnexported(entry{})); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if string(got.lastValue(2)) != "b" || got.lastValue(1) != nil {
		t.Errorf("%s, %s", got.lastValue(2), got.lastValue(1))
	}
	for _, cut := range [][]byte{{0x12, 0x05, 'a'}, {0x80}, {0x08}} {
		if _, err := decodeMessage(cut); err == nil {
			t.Errorf("%x is no error", cut)
		}
	}
}
