package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain lets the test binary be the launcher, so that exit status and streams are those that a shell sees.
func TestMain(m *testing.M) {
	if os.Getenv("BE_LAUNCHER") != "" {
		main()
	}
	os.Exit(m.Run())
}

const explicitVMI = `apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata: {name: web, namespace: shop, uid: 0d9c2f0e-0000-4000-8000-000000000001}
spec:
  architecture: amd64
  domain:
    machine: {type: q35}
    cpu: {sockets: 1, cores: 1, threads: 1, model: qemu64}
    memory: {guest: 128Mi}
    features: {acpi: {enabled: true}}
    devices:
      disks: [{name: data, disk: {bus: virtio}}]
      interfaces: [{name: lan, bridge: {}, model: virtio}]
  networks: [{name: lan, multus: {networkName: lan}}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
`

const given = `
volumes: {data: {path: /dev/vg/data, format: raw, block: true, encrypted: true}}
nics: {lan: {kind: bridge, device: br0, guarded: true}}
`

func TestExitStatusAndStreams(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	vmi, bindings := write("vmi.yaml", explicitVMI), write("bindings.yaml", given)
	sparse := write("sparse.yaml", strings.Replace(explicitVMI, "    machine: {type: q35}\n", "", 1))
	wrong := write("wrong.yaml", "volume: {}")
	none := filepath.Join(dir, "none")
	for _, test := range []struct {
		why         string
		args        []string
		status      int
		out, errOut string
	}{
		{"a domain", []string{"render", "-f", vmi}, 0, "<domain type=", ""},
		{"with what it needs", []string{"render", "-f", vmi, "--bindings", bindings}, 0, `kind="secret" name="luks/data"`, ""},
		{"and the filter", []string{"render", "-f", vmi, "--bindings", bindings}, 0, `<filter name="kiln-`, ""},
		{"refused", []string{"render", "-f", sparse}, 1, "", "error: the spec is not explicit"},
		{"no command", []string{"rendr"}, 2, "", `unknown command "rendr"`},
		{"no flag", []string{"render", "--fil", vmi}, 2, "", "unknown flag: --fil"},
		{"too many arguments", []string{"render", "a", "b"}, 2, "", "accepts at most 1 arg"},
		{"neither file nor name", []string{"render"}, 2, "", "give either -f FILE or the name of a VMI"},
		{"a file that is not there", []string{"render", "-f", none}, 2, "", "no such file"},
		{"bindings that are none", []string{"render", "-f", vmi, "--bindings", wrong}, 2, "", "unknown field \"volume\""},
		{"a wrong value", []string{"node", "--kvm", "maybe"}, 2, "", "--kvm 'maybe' is not supported"},
		{"no namespace", []string{"node"}, 2, "", "--lease-namespace must name the namespace"},
		{"help", []string{"--help"}, 0, "Available Commands:", ""},
	} {
		args := append(test.args, "--libvirt="+none)
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), "BE_LAUNCHER=1", "POD_NAMESPACE=", "KUBECONFIG="+none)
		var out, errOut strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errOut
		err := cmd.Run()
		var exit *exec.ExitError
		status := 0
		if errors.As(err, &exit) {
			status = exit.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		if status != test.status || !strings.Contains(out.String(), test.out) || !strings.Contains(errOut.String(), test.errOut) || test.out == "" && out.Len() > 0 {
			t.Errorf("%s: exit status %d, want %d\nstdout: %s\nstderr: %s", test.why, status, test.status, out.String(), errOut.String())
		}
	}
}
