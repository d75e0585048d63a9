package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain lets the test binary be the plugin, so that exit status and streams are those that a shell sees.
func TestMain(m *testing.M) {
	if os.Getenv("BE_KUBECTL_KILN") != "" {
		main()
	}
	os.Exit(m.Run())
}

func TestExitStatusAndStreams(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good := filepath.Join(dir, "good.yaml")
	bad := filepath.Join(dir, "bad.yaml")
	for file, text := range map[string]string{good: "[{name: root, containerDisk: {image: 'os:1'}}]", bad: "[{name: root}]"} {
		text = "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {name: web}\n" +
			"spec: {domain: {memory: {guest: 1Gi}, devices: {}}, volumes: " + text + "}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		why    string
		args   []string
		status int
		out    string
		errOut string
	}{
		{"accepted", []string{"validate", "-f", good}, 0, "is accepted", ""},
		{"rejected: causes on stderr", []string{"validate", "-f", bad}, 1, "", "spec.volumes[0]"},
		{"no answer", []string{"validate", "-f", filepath.Join(dir, "none")}, 2, "", "error: "},
		{"help is no error", []string{"--help"}, 0, "Check what boots:", ""},
	} {
		got := run(t, dir, test.args...)
		if got.status != test.status || !strings.Contains(got.out, test.out) || !strings.Contains(got.errOut, test.errOut) ||
			test.out == "" && got.out != "" || test.errOut == "" && got.errOut != "" {
			t.Errorf("%s: exit status %d, want %d\nstdout: %s\nstderr: %s", test.why, got.status, test.status, got.out, got.errOut)
		}
	}
}

// callResult is what a shell sees of one call.
type callResult struct {
	status      int
	out, errOut string
}

// run calls the plugin, with a kubeconfig that is not there.
func run(t *testing.T, dir string, args ...string) callResult {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "BE_KUBECTL_KILN=1", "KUBECONFIG="+filepath.Join(dir, "none"))
	var out, errOut strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return callResult{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

// TestNoCluster: one line that says so, and nothing of the client's own.
func TestNoCluster(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	domain := filepath.Join(dir, "web.xml")
	if err := os.WriteFile(domain, []byte("<domain/>"), 0o600); err != nil {
		t.Fatal(err)
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	const unknown = "error: no cluster is known, since there is no kubeconfig: use --kubeconfig or --context"
	for _, args := range [][]string{
		{"validate", "vm/web"}, {"expand", "vm/web"}, {"explain", "vm/web"}, {"render", "vm/web"}, {"diff", "vm/web"}, {"diff", "vm/web", "vm/other"},
		{"capture", "vm/web", "--domain", domain}, {"repin", "vm/web"}, {"revisions"}, {"states", "vm/web"},
		{"start", "vm/web"}, {"stop", "vm/web"}, {"restart", "vm/web"}, {"pause", "vm/web"}, {"unpause", "vm/web"}, {"console", "vm/web"},
	} {
		if got := run(t, dir, args...); got.status != 2 || got.out != "" || !strings.HasPrefix(got.errOut, unknown) || strings.Count(got.errOut, "\n") != 1 {
			t.Errorf("%q: %+v", args, got)
		}
		got := run(t, dir, append(args, "--server", gone.URL)...)
		if got.status != 2 || got.out != "" || !strings.HasPrefix(got.errOut, "error: no cluster answers at "+gone.URL+" (") || strings.Count(got.errOut, "\n") != 1 {
			t.Errorf("%q of a server that is gone: %+v", args, got)
		}
	}
}

// TestNamesOfObjects: what is not vm/NAME is refused before a cluster is asked.
func TestNamesOfObjects(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "vm.yaml")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, message := range map[string]string{
		"foo":  "error: 'foo' does not name an object of a cluster: write vm/foo\n",
		"vm/":  "error: 'vm/' does not name an object of a cluster: write vm/NAME\n",
		"/foo": "error: '/foo' does not name an object of a cluster: write vm/foo\n",
		file:   "error: '" + file + "' is a file or directory: give it with -f\n",
	} {
		for _, command := range []string{"validate", "expand", "explain", "render"} {
			if got := run(t, dir, command, name); got != (callResult{2, "", message}) {
				t.Errorf("%s %s: %+v, want %s", command, name, got, message)
			}
		}
	}
}
