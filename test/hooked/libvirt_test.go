// Package hooked defines guests as KubeVirt's virt-launcher does, with Kiln's hook and without: by KubeVirt's own code, in a real libvirt.
package hooked

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/beevik/etree"
	"github.com/go-logr/logr"
	"github.com/kilnvm/kiln/internal/hook"
	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/libvirt"
	v1 "kubevirt.io/api/core/v1"
)

// launcher is KubeVirt's program, with a libvirt.
type launcher struct {
	requests *json.Encoder
	steps    *json.Decoder
	libvirt  *libvirt.Daemon
	// hook is the socket of Kiln's hook.
	hook string
}

// request and step are those of test/kubevirt/convert.
type request struct {
	VMI     *v1.VirtualMachineInstance `json:"vmi"`
	Sidecar string                     `json:"sidecar"`
	Plugin  string                     `json:"plugin"`
}

type step struct {
	Define, Error string
	Done          bool
}

func start(t *testing.T) *launcher {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	program := exec.Command(cluster.Convert(t, root))
	in, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	program.Stderr = os.Stderr
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(t, in, program) })
	return &launcher{requests: json.NewEncoder(in), steps: json.NewDecoder(out), libvirt: libvirt.Start(t), hook: serve(t)}
}

func end(t *testing.T, in io.Closer, program *exec.Cmd) {
	t.Helper()
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := program.Wait(); err != nil {
		t.Error(err)
	}
}

// serve runs the hook, and returns its socket.
func serve(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "kiln-hooked-") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	socket, ended := filepath.Join(dir, "kiln.sock"), make(chan error, 1)
	go func() { ended <- (&hook.Hook{Log: logr.Discard()}).Serve(ctx, socket) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = os.RemoveAll(dir)
	})
	return socket
}

// define returns the domain as libvirt has it after KubeVirt's last definition, and the number of definitions.
func (l *launcher) define(t *testing.T, vmi *v1.VirtualMachineInstance, sidecar, plugin string) (xml string, times int, err error) {
	t.Helper()
	if err := l.requests.Encode(request{vmi, sidecar, plugin}); err != nil {
		t.Fatal(err)
	}
	for {
		var s step
		if err := l.steps.Decode(&s); err != nil {
			t.Fatal(err)
		}
		switch {
		case s.Error != "":
			return "", times, errorText(s.Error)
		case s.Done:
			return xml, times, nil
		}
		times++
		var answer struct {
			XML   string `json:"xml"`
			Error string `json:"error"`
		}
		if answer.XML, err = l.libvirt.Define(emulated(t, s.Define)); err != nil {
			answer.Error = err.Error()
		}
		xml = answer.XML
		if err := l.requests.Encode(answer); err != nil {
			t.Fatal(err)
		}
	}
}

type errorText string

func (e errorText) Error() string { return string(e) }

// emulated is a domain as the libvirt of tests takes it: 9.0, which is older than KubeVirt's, and without KVM.
func emulated(t *testing.T, xml string) string {
	t.Helper()
	doc := etree.NewDocument()
	if err := doc.ReadFromString(xml); err != nil {
		t.Fatal(err)
	}
	root := doc.SelectElement("domain")
	root.CreateAttr("type", "qemu")
	for _, path := range []string{"maxMemory", "cpu", "launchSecurity"} {
		for _, e := range root.SelectElements(path) {
			root.RemoveChild(e)
		}
	}
	if root.FindElement("os/type[@arch='aarch64']") != nil {
		for _, e := range root.FindElements("features/acpi") { // needs firmware, which this machine may not have
			e.Parent().RemoveChild(e)
		}
	}
	for _, e := range root.FindElements("devices/interface/source") {
		e.Parent().RemoveChild(e)
	}
	text, err := doc.WriteToString()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(text)
}
