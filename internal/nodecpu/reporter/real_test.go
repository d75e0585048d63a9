package reporter

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/kilnvm/kiln/internal/nodecpu"
	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/libvirt"
	"github.com/kilnvm/kiln/test/poll"
	corev1 "k8s.io/api/core/v1"
)

// apiServer serves one Node.
type apiServer struct {
	mutex sync.Mutex
	node  []byte
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	s.mutex.Lock()
	defer s.mutex.Unlock()
	switch r.URL.Path {
	case "/api":
		fmt.Fprint(w, `{"kind": "APIVersions", "versions": ["v1"]}`)
	case "/apis":
		fmt.Fprint(w, `{"kind": "APIGroupList", "apiVersion": "v1", "groups": []}`)
	case "/api/v1":
		fmt.Fprint(w, `{"kind": "APIResourceList", "groupVersion": "v1", "resources": [{"name": "nodes", "kind": "Node", "namespaced": false, "verbs": ["get"]}]}`)
	case "/api/v1/nodes/here":
		if r.Method == http.MethodPatch {
			patch, err := io.ReadAll(r.Body)
			if err == nil {
				s.node, err = jsonpatch.MergePatch(s.node, patch)
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
		}
		_, _ = w.Write(s.node)
	default:
		http.NotFound(w, r)
	}
}

func (s *apiServer) read(t *testing.T) (node corev1.Node) {
	t.Helper()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if err := json.Unmarshal(s.node, &node); err != nil {
		t.Fatal(err)
	}
	return node
}

// runScript gives the user of pods a name, which libvirt requires, and an empty folder of its own, and executes the launcher.
const runScript = `set -e
mount --bind "$0/passwd" /etc/passwd
mkdir -p /var/run/kiln
mount -t tmpfs -o uid=107,gid=107,mode=700 none /var/run/kiln
exec setpriv --reuid 107 --regid 107 --clear-groups --no-new-privs --bounding-set -all "$@"`

// TestLauncherCPU: 'launcher cpu', run as the account of pods, starts a real libvirtd, and writes into the Node what it offers. libvirtd has ended then.
func TestLauncherCPU(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: the launcher runs in namespaces of its own")
	}
	if err := libvirt.Missing(); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := cluster.Build(t.Context(), "../../..", root, "launcher"); err != nil {
		t.Fatal(err)
	}
	api := &apiServer{node: []byte(`{"kind": "Node", "apiVersion": "v1", "metadata": {"name": "here", "labels": {"cpu-feature.kilnvm.io/none": "true"}}}`)}
	server := httptest.NewServer(api)
	defer server.Close()
	passwd, err := os.ReadFile("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"passwd": string(passwd) + "qemu:x:107:107:QEMU:/:/usr/sbin/nologin\n",
		"kubeconfig": fmt.Sprintf("clusters: [{name: a, cluster: {server: '%s'}}]\ncontexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n"+
			"kind: Config\napiVersion: v1\n", server.URL),
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for dir := root; dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) { // t.TempDir is closed to others
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--", "/bin/sh", "-c", runScript, root,
		filepath.Join(root, "launcher"), "cpu", "--node=here", "--kvm=never")
	log, err := os.Create(filepath.Join(root, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Env, cmd.Stdout, cmd.Stderr = []string{"PATH=" + os.Getenv("PATH"), "KUBECONFIG=" + filepath.Join(root, "kubeconfig")}, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// The launcher is process 1 of its namespace, and runs itself (/proc/self/exe). All others end with it.
	defer func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() }()
	reported := poll.Until(2*time.Minute, func() bool { return api.read(t).Labels["kilnvm.io/cpu-emulated"] == "true" })
	running := processesOf(t, cmd.Process.Pid)
	node := api.read(t)
	offer, _ := nodecpu.FromKiln.Read(node.Labels)
	// Under QEMU's emulation each machine has these.
	if !reported || !offer.Features["sse2"] || !offer.Features["lm"] || offer.Features["none"] || !offer.Models["qemu64"] || offer.Vendor == "" ||
		strings.Join(running, " ") != "launcher exe" {
		t.Errorf("the Node has %v and %v, processes %v run", node.Labels, node.Annotations, running)
		text, err := os.ReadFile(log.Name())
		t.Logf("its log: %v\n%s", err, text)
	}
	t.Logf("%d features and %d models, vendor %s", len(offer.Features), len(offer.Models), offer.Vendor)
}

// processesOf returns the names of the processes in the namespace that an unshare has made.
func processesOf(t *testing.T, unshare int) (names []string) {
	t.Helper()
	own, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid_for_children", unshare))
	if err != nil {
		t.Fatal(err)
	}
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, process := range all {
		name, err := os.ReadFile(filepath.Join(process, "comm"))
		if of, _ := os.Readlink(filepath.Join(process, "ns/pid")); err == nil && of == own {
			names = append(names, strings.TrimSpace(string(name)))
		}
	}
	return names
}
