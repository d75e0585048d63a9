package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/distribution/distribution/v3/configuration"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd" // the registry asks for a password
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory" // and keeps nothing
	"golang.org/x/crypto/bcrypt"
)

// programs are the built commands: kubectl-kiln and oras.
var programs string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "kiln-catalog-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		programs = dir
		for _, build := range [][]string{{"../..", "./cmd/kubectl-kiln"}, {".", "oras.land/oras/cmd/oras"}} {
			command := exec.Command("go", "-C", build[0], "build", "-o", dir, build[1])
			if out, err := command.CombinedOutput(); err != nil {
				fmt.Fprintf(os.Stderr, "building %s: %v\n%s", build[1], err, out)
				return 1
			}
		}
		return m.Run()
	}())
}

// User and password that the registry asks for.
const (
	user     = "admin"
	password = "secret"
)

// world is a registry with its clients' configuration, and a folder for files.
type world struct {
	*testing.T
	dir string
	// host of the registry, and the file of its authority.
	host, authority string
}

// start starts a registry over TLS with passwords.
func start(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, dir: t.TempDir()}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	passwords := w.write("htpasswd", fmt.Sprintf("%s:%s\n", user, hash))
	config := &configuration.Configuration{
		Storage: configuration.Storage{"inmemory": configuration.Parameters{}},
		Auth:    configuration.Auth{"htpasswd": configuration.Parameters{"realm": "catalogs", "path": passwords}},
	}
	config.Log.Level, config.Log.AccessLog.Disabled = "error", true
	config.Catalog.MaxEntries = 100
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(stop)
	server := httptest.NewTLSServer(handlers.NewApp(ctx, config))
	t.Cleanup(server.Close)
	w.host = strings.TrimPrefix(server.URL, "https://")
	w.authority = w.write("ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	t.Setenv("SSL_CERT_FILE", w.authority) // Go's clients trust it
	t.Setenv("DOCKER_CONFIG", w.dir)
	w.login(password)
	return w
}

// login writes docker's configuration file.
func (w *world) login(password string) {
	w.Helper()
	raw, err := json.Marshal(map[string]any{"auths": map[string]any{w.host: map[string]string{"username": user, "password": password}}})
	if err != nil {
		w.Fatal(err)
	}
	w.write("config.json", string(raw))
}

func (w *world) write(name, content string) string {
	w.Helper()
	file := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		w.Fatal(err)
	}
	return file
}

// run runs a program and returns what it prints, and its exit status.
func (w *world) run(name string, arguments ...string) (out, errOut string, status int) {
	w.Helper()
	command := exec.CommandContext(w.Context(), name, arguments...)
	command.Dir = w.dir
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	if command.ProcessState == nil {
		w.Fatal(err)
	}
	return stdout.String(), stderr.String(), command.ProcessState.ExitCode()
}

// kiln runs 'kubectl kiln' and fails the test if it fails.
func (w *world) kiln(arguments ...string) string {
	w.Helper()
	out, errOut, status := w.run(filepath.Join(programs, "kubectl-kiln"), append([]string{"catalog"}, arguments...)...)
	if status != 0 {
		w.Fatalf("kubectl kiln catalog %s: %d: %s", strings.Join(arguments, " "), status, errOut)
	}
	return out
}

// general is the reference of a version of the catalog.
func (w *world) general(version string) string {
	return "oci://" + w.host + "/catalogs/general:" + version
}

// catalog writes a catalog of two objects.
func (w *world) catalog() (folder string) {
	w.Helper()
	w.write("general/all.yaml", `apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterInstancetype
metadata: {name: small, labels: {instancetype.kubevirt.io/class: general.purpose}}
spec: {cpu: {guest: 1}, memory: {guest: 1Gi}}
---
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterInstancetype
metadata: {name: large, labels: {instancetype.kubevirt.io/class: compute}}
spec: {cpu: {guest: 8}, memory: {guest: 16Gi}, nodeSelector: {kubernetes.io/arch: amd64}, gpus: [{name: one, deviceName: nvidia.com/A}]}
---
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterInstancetype
metadata: {name: old, labels: {kilnvm.io/lifecycle: deprecated}, annotations: {kilnvm.io/replaced-by: small}}
spec: {cpu: {guest: 2}, memory: {guest: 1Gi}}
---
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterPreference
metadata: {name: linux, labels: {instancetype.kubevirt.io/os-type: linux}}
spec: {}
---
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterPreference
metadata: {name: windows, labels: {instancetype.kubevirt.io/os-type: windows}}
spec: {requirements: {cpu: {guest: 2}, memory: {guest: 4Gi}}}
`)
	return filepath.Join(w.dir, "general")
}
