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
	"github.com/kilnvm/kiln/internal/kubevirt/hook"
	"github.com/kilnvm/kiln/internal/kubevirt/virtcontroller"
	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/libvirt"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// launcher is KubeVirt's program, with a libvirt.
type launcher struct {
	requests *json.Encoder
	steps    *json.Decoder
	libvirt  *libvirt.Daemon
	hooks
}

// hooks are what virt-launcher asks: the socket of a hook sidecar, and the plugins of the cluster.
type hooks struct {
	Sidecar string `json:"sidecar"`
	Plugins []any  `json:"plugins"`
}

// sidecar and plugin are one of the two.
func (h hooks) sidecar() hooks { return hooks{Sidecar: h.Sidecar} }
func (h hooks) plugin() hooks  { return hooks{Plugins: h.Plugins} }

// request and step have the fields of the types in test/kubevirt/convert.
type request struct {
	VMI *v1.VirtualMachineInstance `json:"vmi"`
	hooks
}

type step struct {
	Define, Error string
	Done          bool
}

// inPod runs a program whose /var/run/kubevirt-plugin is a folder, as in a pod.
const inPod = `mount -t tmpfs none /var/run && mkdir /var/run/kubevirt-plugin && mount --bind "$1" /var/run/kubevirt-plugin && exec "$2"`

// start starts the program, with Kiln's hook at the socket of the Plugin.
func start(t *testing.T) *launcher {
	t.Helper()
	l := startAlone(t)
	serve(t, l.Sidecar)
	return l
}

// startAlone starts it with nobody at the socket.
func startAlone(t *testing.T) *launcher {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "kiln-hooked-") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, strings.TrimPrefix(virtcontroller.HookSocket, "/var/run/kubevirt-plugin/"))
	if err := os.Mkdir(filepath.Dir(socket), 0o700); err != nil { // kubelet makes it, as it is a subPath
		t.Fatal(err)
	}
	program := exec.Command("unshare", "--mount", "sh", "-ec", inPod, "sh", dir, cluster.Convert(t, root))
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
	return &launcher{requests: json.NewEncoder(in), steps: json.NewDecoder(out), libvirt: libvirt.Start(t),
		hooks: hooks{socket, installed(t, filepath.Join(root, "manifests/beside-kubevirt/plugin/plugin.yaml"))}}
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

// serve runs the hook on a socket.
func serve(t *testing.T, socket string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- (&hook.Hook{Log: logr.Discard()}).Serve(ctx, socket) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// installed is the Plugin of the manifests, of which there is one.
func installed(t *testing.T, file string) []any {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	plugin := map[string]any{}
	if err := yaml.UnmarshalStrict(text, &plugin); err != nil {
		t.Fatal(err)
	}
	return []any{plugin}
}

// define returns the domain as libvirt has it after KubeVirt's last definition, and the number of definitions.
func (l *launcher) define(t *testing.T, vmi *v1.VirtualMachineInstance, asked hooks) (xml string, times int, err error) {
	t.Helper()
	if err := l.requests.Encode(request{vmi, asked}); err != nil {
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
			if e.SelectElement("vendor") == nil { // which only the hook writes
				root.RemoveChild(e)
			}
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
