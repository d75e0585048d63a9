package e2e

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/libvirt"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// machine is a host of this test: a private libvirt and a launcher of its own.
type machine struct {
	*libvirt.Daemon
	name, volumes, state string
	bridge               string // of network 'lan', empty if this machine makes none
	launcher             *launcherProcess
}

type launcherProcess struct {
	node cluster.Node
	stop func() error
}

func (s space) startMachine() machine {
	s.Helper()
	return s.startMachineWith(func(*cluster.Node) {})
}

// startMachineWith starts a machine whose launcher is started otherwise than usual.
func (s space) startMachineWith(adjust func(*cluster.Node)) machine {
	s.Helper()
	m := machine{Daemon: libvirt.Start(s.T), name: s.name}
	// Not TempDir: the paths of sockets are limited to 107 bytes.
	dir, err := os.MkdirTemp("", "kiln-")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { os.RemoveAll(dir) })
	m.volumes, m.state = filepath.Join(dir, "volumes"), filepath.Join(dir, "state")
	if _, _, err := guest.Build(filepath.Join(m.volumes, "containers/demo.example/guest:1")); err != nil {
		s.Fatal(err)
	}
	m.launcher = &launcherProcess{node: cluster.Node{Name: m.name, Socket: m.Socket, Volumes: m.volumes, TPMStates: m.TPMStates(), State: m.state}}
	adjust(&m.launcher.node)
	m.bridge = m.launcher.node.Bridge
	s.startLauncher(m)
	s.Cleanup(func() {
		// While there is a launcher, so that finalizers go.
		s.must(s.kubectlAfter("delete", "vm", "--all", "--timeout=60s"))
		s.must(s.kubectlAfter("wait", "--for=delete", "vmi", "--all", "--timeout=60s"))
		if err := m.launcher.stop(); err != nil {
			s.Error(err)
		}
	})
	return m
}

// startLauncher starts the launcher of a machine, which may have been stopped before.
func (s space) startLauncher(m machine) {
	s.Helper()
	stop, err := s.on.StartLauncher(s.Context(), m.launcher.node)
	if err != nil {
		s.Fatal(err)
	}
	m.launcher.stop = stop
}

// boot waits until the VMI runs and its guest has reported its hardware.
func (s space) boot(m machine) (*unstructured.Unstructured, guest.Report) {
	s.Helper()
	if !s.soon(func() bool {
		a := s.read("vmi", "demo", "{.status.phase}")
		return a.err == nil && a.stdout == "Running"
	}) {
		s.Fatalf("the VMI does not run: %s", s.kubectl("", "get", "vm,vmi", "-o", "jsonpath={.items[*].status}").stdout)
	}
	vmi := s.get("vmi", "demo")
	ctx, cancel := context.WithTimeout(s.Context(), guest.BootTimeout)
	defer cancel()
	log := filepath.Join(m.state, string(vmi.GetUID()), "serial.log")
	report, err := guest.WaitReport(ctx, log, 1)
	if err != nil {
		s.Fatal(err)
	}
	return vmi, report
}

// recorded is the hardware record of a VM that runs.
func (s space) recorded(name string) record.Record {
	s.Helper()
	var hardware v1alpha1.GuestHardware
	if err := json.Unmarshal([]byte(mustJSON(s.T, s.get("guesthardware", name))), &hardware); err != nil || hardware.Spec.Hardware == nil {
		s.Fatalf("no hardware of '%s': %v", name, err)
	}
	return *hardware.Spec.Hardware
}

// place is the way from the root bus to a device of the record, as guest.Report.Place returns it.
func place(t *testing.T, record record.Record, key string) string {
	t.Helper()
	var bus, slot string
	address := record.Devices[key].PCI // 0000:01:00.0
	if parts := strings.SplitN(address, ":", 3); len(parts) == 3 {
		bus, slot = parts[1], parts[2]
	} else {
		t.Fatalf("the record has no PCI address of '%s': %+v", key, record.Devices[key])
	}
	if bus == "00" {
		return slot
	}
	return place(t, record, "controller.pci."+index(t, bus)) + "/" + slot
}

// index is a bus number, hexadecimal in addresses, as the decimal index of its controller.
func index(t *testing.T, bus string) string {
	t.Helper()
	n := 0
	for _, digit := range bus {
		n = n*16 + strings.IndexRune("0123456789abcdef", digit)
	}
	raw, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// A volume that the machine cannot serve is a condition that says so, and not a crash.
func TestUnservedVolumesAreAClearCondition(t *testing.T) {
	s := newSpace(t)
	// No launcher serves these, so that the create is refused.
	refused := s.kubectl(strings.Replace(vm("map", running...), "emptyDisk: {capacity: 1Gi}", "configMap: {name: map}", 1), "create", "-f", "-")
	if refused.err == nil || !strings.Contains(refused.stderr, "spec.template.spec.volumes[0]: Forbidden") {
		t.Errorf("a volume that no bare machine has: %v\n%s", refused.err, refused.stderr)
	}
	m := s.startMachine()
	for name, volume := range map[string]string{
		"passwd": "hostDisk: {path: /etc/passwd, type: Disk}",
		"dots":   "hostDisk: {path: " + m.volumes + "/../../etc/passwd, type: Disk}",
		"claim":  "persistentVolumeClaim: {claimName: none}",
	} {
		manifest := strings.Replace(vm(name, running...), "emptyDisk: {capacity: 1Gi}", volume, 1)
		manifest = strings.Replace(manifest, "nodeSelector: {machine: none}", "terminationGracePeriodSeconds: 0\n      nodeSelector: {machine: "+m.name+"}", 1)
		s.create(manifest)
		condition := `{.status.conditions[?(@.type=="Synchronized")].message}`
		s.eventually("the condition says why '"+name+"' does not run", func() bool {
			a := s.read("vmi", name, condition)
			return a.err == nil && strings.Contains(a.stdout, "spec.volumes[0]")
		})
	}
}
