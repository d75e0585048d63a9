package e2e

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/libvirt"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// bootTimeout bounds one boot under emulation, which takes some ten seconds on an idle machine.
const bootTimeout = 5 * time.Minute

// machine is a host of this test: a private libvirt and a launcher of its own.
type machine struct {
	*libvirt.Daemon
	name, volumes, state string
}

func (s space) startMachine() machine {
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
	stop, err := shared.StartLauncher(s.Context(), cluster.Node{Name: m.name, Socket: m.Socket, Volumes: m.volumes, State: m.state})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		// While there is a launcher, so that finalizers go.
		s.must(s.kubectlAfter("delete", "vm", "--all", "--timeout=60s"))
		s.must(s.kubectlAfter("wait", "--for=delete", "vmi", "--all", "--timeout=60s"))
		if err := stop(); err != nil {
			s.Error(err)
		}
	})
	return m
}

// bootable boots the test guest's kernel, has four disks on three buses, and no time to power off.
func bootable(m machine) string {
	return `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: demo}
spec:
  runStrategy: Always
  instancetype: {name: small}
  preference: {name: linux}
  template:
    spec:
      terminationGracePeriodSeconds: 0
      nodeSelector: {machine: ` + m.name + `}
      domain:
        firmware:
          kernelBoot:
            kernelArgs: "` + guest.Cmdline + `"
            container: {image: "demo.example/guest:1", kernelPath: /boot/vmlinuz, initrdPath: /boot/initrd}
        devices:
          disks:
          - {name: data, serial: DATA}
          - {name: host, serial: HOST, disk: {bus: scsi}}
          - {name: seed, serial: SEED, disk: {bus: sata}}
          interfaces: [{name: default, masquerade: {}}]
      networks: [{name: default, pod: {}}]
      volumes:
      - {name: data, emptyDisk: {capacity: 64Mi}}
      - {name: host, hostDisk: {path: ` + m.volumes + `/host.img, type: DiskOrCreate, capacity: 32Mi}}
      - {name: seed, cloudInitNoCloud: {userData: "#cloud-config"}}
      - {name: added, emptyDisk: {capacity: 16Mi}}
`
}

// boot waits until the VMI runs and its guest has reported its hardware.
func (s space) boot(m machine) (*unstructured.Unstructured, guest.Report) {
	s.Helper()
	s.eventually("the VMI runs", func() bool {
		a := s.kubectl("", "get", "vmi", "demo", "-o", "jsonpath={.status.phase}{.status.conditions}")
		return a.err == nil && strings.HasPrefix(a.stdout, "Running")
	})
	vmi := s.get("vmi", "demo")
	ctx, cancel := context.WithTimeout(s.Context(), bootTimeout)
	defer cancel()
	log := filepath.Join(m.state, string(vmi.GetUID()), "serial.log")
	report, err := guest.WaitReport(ctx, log, 1)
	if err != nil {
		s.Fatal(err)
	}
	return vmi, report
}

func frontendOf(t *testing.T, vmi *unstructured.Unstructured) abi.Record {
	t.Helper()
	var record abi.Record
	if err := json.Unmarshal([]byte(vmi.GetAnnotations()["kilnvm.io/frontend"]), &record); err != nil {
		t.Fatal(err)
	}
	return record
}

// place is the way from the root bus to a device of the record, as guest.Report.Place tells it.
func place(t *testing.T, record abi.Record, key string) string {
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

// hardware is what must be found again at every boot, by what the user calls it.
func hardware(t *testing.T, r guest.Report) map[string]string {
	t.Helper()
	found := map[string]string{"uuid": strings.ToLower(r.DMI["product_uuid"]), "serial": r.DMI["product_serial"]}
	for _, disk := range r.Disks {
		found["disk "+disk.Serial] = strings.Join([]string{disk.Bus, r.Place(disk.PCI), disk.SCSI[strings.Index(disk.SCSI, ":")+1:]}, " ")
	}
	for _, nic := range r.NICs {
		found["nic"] = nic.MAC + " " + r.Place(nic.PCI)
	}
	return found
}

// The whole way: kubectl, webhook, controller, launcher, libvirt, QEMU, and a guest that says what it sees.
func TestGuestSeesItsSpecAndFindsItAgain(t *testing.T) {
	s := newSpace(t)
	m := s.startMachine()
	manifest := strings.Replace(bootable(m), "      - {name: added, emptyDisk: {capacity: 16Mi}}\n", "", 1)
	s.must(s.kubectl(manifest, "apply", "-f", "-"))
	first, report := s.boot(m)
	record := frontendOf(t, first)

	if state, err := m.State(s.name + "_demo"); err != nil || state != "running" {
		t.Errorf("libvirt says '%s', %v; want running", state, err)
	}
	if len(report.CPUs) != 2 {
		t.Errorf("the guest sees %d CPUs, the size has 2", len(report.CPUs))
	}
	if const512 := int64(512 << 20); report.RAMBytes > const512 || report.RAMBytes < const512-(4<<20) {
		t.Errorf("the guest sees %d bytes of memory, the size has 512Mi", report.RAMBytes)
	}
	if want := field(first, "spec", "domain", "firmware", "uuid"); strings.ToLower(report.DMI["product_uuid"]) != want {
		t.Errorf("the guest's UUID is %s, the spec's %v", report.DMI["product_uuid"], want)
	}
	nic := field(first, "spec", "domain", "devices", "interfaces").([]any)[0].(map[string]any)
	if len(report.NICs) != 1 || report.NICs[0].MAC != nic["macAddress"] {
		t.Errorf("the guest's NICs are %+v, the spec has %v", report.NICs, nic["macAddress"])
	}
	if got, want := report.Place(report.NICs[0].PCI), place(t, record, "interface.default"); got != want {
		t.Errorf("the NIC is at %s, the recorded frontend says %s", got, want)
	}
	sizes := map[string]int64{"DATA": 64 << 20, "HOST": 32 << 20}
	buses := map[string]string{"DATA": "virtio", "HOST": "scsi", "SEED": "sata"}
	for _, disk := range report.Disks {
		if disk.Bus != buses[disk.Serial] || sizes[disk.Serial] != 0 && disk.Bytes != sizes[disk.Serial] {
			t.Errorf("the guest sees disk %+v, want bus %s and %d bytes", disk, buses[disk.Serial], sizes[disk.Serial])
		}
		if disk.Serial == "DATA" && report.Place(disk.PCI) != place(t, record, "disk.data") {
			t.Errorf("disk 'data' is at %s, the recorded frontend says %s", report.Place(disk.PCI), place(t, record, "disk.data"))
		}
		delete(buses, disk.Serial)
	}
	if len(buses) > 0 {
		t.Errorf("the guest misses disks %v", buses)
	}

	// One disk more, before the others in the list, and on a bus that another one is on.
	changed := strings.Replace(bootable(m), "          - {name: data, serial: DATA}\n", "          - {name: added, serial: ADDED}\n          - {name: data, serial: DATA}\n", 1)
	s.must(s.kubectl(changed, "apply", "-f", "-"))
	if now := s.get("vmi", "demo"); now.GetUID() != first.GetUID() || strings.Contains(mustJSON(t, now), "ADDED") {
		t.Error("an edit of the VM reached the running VMI")
	}
	s.must(s.kubectl("", "delete", "vmi", "demo", "--timeout=60s"))
	s.eventually("a new VMI", func() bool {
		a := s.kubectl("", "get", "vmi", "demo", "-o", "jsonpath={.metadata.uid}")
		return a.err == nil && a.stdout != "" && a.stdout != string(first.GetUID())
	})
	_, again := s.boot(m)
	before, after := hardware(t, report), hardware(t, again)
	if after["disk ADDED"] == "" {
		t.Errorf("the added disk is missing: %v", after)
	}
	delete(after, "disk ADDED")
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("one more disk moved the others (-first boot +second):\n%s", diff)
	}
}

// A volume that the machine cannot serve is a condition that says so, and not a crash.
func TestUnservedVolumesAreAClearCondition(t *testing.T) {
	s := newSpace(t)
	m := s.startMachine()
	for name, volume := range map[string]string{
		"passwd": "hostDisk: {path: /etc/passwd, type: Disk}",
		"dots":   "hostDisk: {path: " + m.volumes + "/../../etc/passwd, type: Disk}",
		"claim":  "persistentVolumeClaim: {claimName: none}",
	} {
		manifest := strings.Replace(vm(name, running...), "emptyDisk: {capacity: 1Gi}", volume, 1)
		manifest = strings.Replace(manifest, "nodeSelector: {machine: none}", "terminationGracePeriodSeconds: 0\n      nodeSelector: {machine: "+m.name+"}", 1)
		s.must(s.kubectl(manifest, "create", "-f", "-"))
		condition := `jsonpath={.status.conditions[?(@.type=="Synchronized")].message}`
		s.eventually("the condition says why '"+name+"' does not run", func() bool {
			a := s.kubectl("", "get", "vmi", name, "-o", condition)
			return a.err == nil && strings.Contains(a.stdout, "spec.volumes[0]")
		})
	}
}
