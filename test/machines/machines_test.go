// Package machines renders sixteen kinds of machines for each architecture, each on two hosts. What one architecture does not have
// is refused by path, and that is its golden.
//
//	inputs/MACHINE.yaml            what a user asks for; MACHINE-ARCHITECTURE.yaml where that differs
//	hosts/ARCHITECTURE-HOST.yaml   capabilities of a host, and bindings that are laid over the assumed ones
//	goldens/ARCHITECTURE/MACHINE/  frontend.xml, digest, and a.diff and b.diff, the differences of the complete domains to it; or refused.txt
package machines

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/golden"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

var (
	architectures = []string{"amd64", "arm64", "s390x"}
	machines      = []string{"minimal", "kitchen-sink", "windows-hyperv", "efi-secureboot", "numa-passthrough", "dedicated-realtime", "sev", "snp",
		"tdx", "s390-pv", "virtiofs", "passt", "sriov", "vgpu", "usb", "cloud-init"}
)

// gates of a cluster in which everything is allowed.
var gates = []string{"DownwardMetrics", "EnableVirtioFsStorageVolumes", "HostDevices", "HostDisk", "PasstBinding", "SecureExecution", "VSOCK",
	"WorkloadEncryptionSEV", "WorkloadEncryptionTDX"}

func cluster(t *testing.T) config.Cluster {
	t.Helper()
	c, errs := config.FromKubeVirt(v1.KubeVirtConfiguration{DeveloperConfiguration: &v1.DeveloperConfiguration{FeatureGates: gates}})
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return c
}

// cell is one machine of one architecture: either errs, or what was rendered for both hosts.
type cell struct {
	architecture, machine string
	vmi                   *v1.VirtualMachineInstance
	errs                  field.ErrorList
	first, second         render.Result
}

func (c cell) name() string { return c.architecture + "/" + c.machine }

// host is a file of hosts/.
type host struct {
	Capabilities backend.Capabilities
	Bindings     backend.Bindings
}

func read(t *testing.T, path string, into any) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err == nil {
		err = yaml.UnmarshalStrict(raw, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// guest makes an input explicit and judges it.
func guest(t *testing.T, architecture, machine string) (*v1.VirtualMachineInstance, field.ErrorList) {
	t.Helper()
	path := filepath.Join("inputs", machine+"-"+architecture+".yaml")
	if _, err := os.Stat(path); err != nil {
		path = filepath.Join("inputs", machine+".yaml")
	}
	vmi := &v1.VirtualMachineInstance{}
	read(t, path, vmi)
	vmi.Namespace, vmi.Spec.Architecture, vmi.UID = "default", architecture, "6a1f2f3e-0000-4000-8000-00000000002a"
	in := admit.Input{Cluster: cluster(t)}
	explicit, verdict := admit.VMI(vmi, in)
	if !verdict.Allowed() {
		return nil, verdict.Errors
	}
	return explicit, admit.Judge(explicit, in).Errors
}

// rendered is a cell: first on host a, and then, with the record of that boot, on host b.
func rendered(t *testing.T, architecture, machine string) cell {
	t.Helper()
	c := cell{architecture: architecture, machine: machine}
	if c.vmi, c.errs = guest(t, architecture, machine); len(c.errs) > 0 {
		return c
	}
	if c.first, c.errs = render.Domain(on(t, c, "a", nil)); len(c.errs) > 0 {
		return c
	}
	c.second, c.errs = render.Domain(on(t, c, "b", &c.first.Record))
	return c
}

func on(t *testing.T, c cell, name string, frozen *record.Record) render.Machine {
	t.Helper()
	var h host
	h.Bindings = backend.AssumedBindings(c.vmi)
	read(t, filepath.Join("hosts", c.architecture+"-"+name+".yaml"), &h)
	return render.Machine{VMI: c.vmi, Defaults: cluster(t).Frontend, Frozen: frozen, Host: h.Capabilities, Bindings: h.Bindings}
}

// cells are all, in the order of the table.
func cells(t *testing.T) (all []cell) {
	t.Helper()
	for _, architecture := range architectures {
		for _, machine := range machines {
			all = append(all, rendered(t, architecture, machine))
		}
	}
	return all
}

func TestGoldens(t *testing.T) {
	t.Parallel()
	for _, c := range cells(t) {
		t.Run(c.name(), func(t *testing.T) {
			dir := filepath.Join("goldens", c.name())
			files, domains := outputs(t, c)
			for name, text := range files {
				golden.Compare(t, filepath.Join(dir, name), text)
			}
			for name, domain := range domains {
				golden.CompareDomain(t, filepath.Join(dir, name), domain)
			}
			golden.Orphans(t, dir, files)
		})
	}
}

// outputs of a cell by file name, and the complete domains by the names of their differences. That both hosts show the guest
// the same is checked here: the digest is one.
func outputs(t *testing.T, c cell) (files, domains map[string]string) {
	t.Helper()
	if len(c.errs) > 0 {
		var lines []string
		for _, err := range c.errs {
			lines = append(lines, err.Error())
		}
		return map[string]string{"refused.txt": strings.Join(lines, "\n") + "\n"}, nil
	}
	digest := abi.Digest(c.first.Frontend)
	for name, r := range map[string]render.Result{"a": c.first, "b": c.second} {
		if got := abi.Digest(r.Documents.Domain); got != digest || r.Record.Digest != digest {
			t.Errorf("on host %s the guest sees another machine: %q", name, abi.Changes(c.first.Frontend, r.Documents.Domain))
		}
	}
	domains = map[string]string{"a.diff": printed(t, c.first.Documents.Domain), "b.diff": printed(t, c.second.Documents.Domain)}
	if domains["a.diff"] == domains["b.diff"] {
		t.Error("the two hosts are no different ones")
	}
	frontend := printed(t, c.first.Frontend)
	files = map[string]string{"digest": digest + "\n", golden.Frontend: frontend}
	for name, domain := range domains {
		files[name] = golden.Difference(frontend, domain)
	}
	return files, domains
}

func printed(t *testing.T, document interface{ Marshal() (string, error) }) string {
	t.Helper()
	text, err := document.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return text + "\n"
}
