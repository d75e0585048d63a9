package frontends_test

import (
	"fmt"
	"strings"
	"testing"

	rpc "github.com/digitalocean/go-libvirt"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/frontend"
	"github.com/kilnvm/kiln/pkg/identity"
	"github.com/kilnvm/kiln/test/frontends"
	"github.com/kilnvm/kiln/test/libvirt"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
	"sigs.k8s.io/yaml"
)

// choices are the models, buses and kinds that the API names, each as devices of a VMI.
func choices() (all []string) {
	for _, bus := range []string{"virtio", "sata", "scsi", "usb"} {
		for _, drive := range []string{"disk: {bus: %s}", "cdrom: {bus: %s}", "disk: {bus: %s, readonly: true}"} {
			all = append(all, "disks: [{name: a, "+fmt.Sprintf(drive, bus)+"}]")
		}
		all = append(all, "disks: [{name: a, serial: S-1, shareable: true, cache: none, disk: {bus: "+bus+"}}]",
			"disks: [{name: a, disk: {bus: "+bus+"}, blockSize: {custom: {logical: 4096, physical: 4096}}}]")
	}
	all = append(all, "blockMultiQueue: true, disks: [{name: a, disk: {bus: virtio}}]",
		"useVirtioTransitional: true, disks: [{name: a, disk: {bus: virtio}}], rng: {}")
	for _, model := range []string{"", "virtio", "e1000", "e1000e", "igb", "ne2k_pci", "pcnet", "rtl8139"} {
		all = append(all, "interfaces: [{name: default, masquerade: {}, model: '"+model+"'}]",
			"interfaces: [{name: default, masquerade: {}, model: '"+model+"', bootOrder: 1}]")
	}
	for _, kind := range []string{"tablet", "keyboard"} {
		for _, bus := range []string{"", "usb", "virtio"} {
			all = append(all, "inputs: [{name: i, type: "+kind+", bus: '"+bus+"'}]")
		}
	}
	for _, model := range []string{"vga", "bochs", "cirrus", "virtio", "ramfb"} {
		all = append(all, "video: {type: "+model+"}")
	}
	for _, model := range []string{"", "ich9", "ac97"} {
		all = append(all, "sound: {name: s, model: '"+model+"'}")
	}
	for _, model := range []string{"isa", "hyperv", "pvpanic"} {
		all = append(all, "panicDevices: [{model: "+model+"}]")
	}
	for _, action := range []string{"poweroff", "reset", "shutdown"} {
		all = append(all, "watchdog: {name: w, i6300esb: {action: "+action+"}}", "watchdog: {name: w, diag288: {action: "+action+"}}")
	}
	return append(all, "autoattachGraphicsDevice: false", "autoattachSerialConsole: false", "autoattachMemBalloon: false", "autoattachInputDevice: true",
		"clientPassthrough: {}", "rng: {}", "networkInterfaceMultiqueue: true, interfaces: [{name: default, bridge: {}}]", "tpm: {}", "downwardMetrics: {}")
}

// notHere are the errors of this machine's libvirt and QEMU about features of newer versions. Each must occur.
var notHere = map[string]string{
	"unknown panic model 'pvpanic'": "needs libvirt >= 9.1.0",
	"'igb' is not":                  "needs QEMU >= 8.0",
}

// emulatedCPU is a model that QEMU emulates, by architecture.
var emulatedCPU = map[string]string{"amd64": "qemu64", "arm64": "cortex-a57", "s390x": "qemu"}

// connectedDaemon starts libvirt, and returns it with a client that disconnects at the end of the test.
func connectedDaemon(t *testing.T) (*libvirt.Daemon, *rpc.Libvirt) {
	t.Helper()
	daemon := libvirt.Start(t)
	client, err := daemon.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect() })
	return daemon, client
}

// TestEachChoiceStarts: what admission accepts of the API's models, buses and kinds, on each architecture, libvirt defines and QEMU starts, paused.
func TestEachChoiceStarts(t *testing.T) {
	t.Parallel()
	daemon, client := connectedDaemon(t)
	met := map[string]bool{}
	for _, arch := range []string{"amd64", "arm64", "s390x"} {
		started, refused := 0, 0
		for i, choice := range choices() {
			explicit := chosen(t, arch, fmt.Sprintf("%s-%d", arch, i), choice)
			if explicit == nil {
				refused++
				continue
			}
			err := starts(t, daemon, client, explicit)
			known := ""
			for words := range notHere {
				if err != nil && strings.Contains(err.Error(), words) {
					known = words
				}
			}
			switch {
			case err == nil:
				started++
			case known != "":
				met[known] = true
			default:
				t.Errorf("%s, which admission accepts: %s: %v", arch, choice, err)
			}
		}
		t.Logf("%s: %d start, %d are refused by admission", arch, started, refused)
		if started < 25 {
			t.Errorf("%s: %d start: too few to tell anything", arch, started)
		}
	}
	for words, why := range notHere {
		if !met[words] {
			t.Errorf("nothing says '%s' (%s): take the line away", words, why)
		}
	}
}

// chosen returns the explicit VMI with devices as given; nil if admission refuses it.
func chosen(t *testing.T, arch, name, devices string) *v1.VirtualMachineInstance {
	t.Helper()
	vmi := &v1.VirtualMachineInstance{}
	volumes := "[]"
	if strings.Contains(devices, "disks:") {
		volumes = "[{name: a, persistentVolumeClaim: {claimName: a}}]"
	}
	networks := "[]"
	if strings.Contains(devices, "interfaces:") {
		networks = "[{name: default, pod: {}}]"
	}
	manifest := fmt.Sprintf("{metadata: {name: %s, namespace: default, uid: u-%[1]s}, spec: {architecture: %s, networks: %s, volumes: %s, domain: {cpu: "+
		"{model: host-passthrough}, memory: {guest: 128Mi}, devices: {%s}}}}", name, arch, networks, volumes, devices)
	if err := yaml.UnmarshalStrict([]byte(manifest), vmi); err != nil {
		t.Fatalf("%s: %v", manifest, err)
	}
	in := admit.Input{Cluster: config.Default()}
	explicit, verdict := admit.VMI(vmi, in)
	if verdict.Errors = append(verdict.Errors, admit.Judge(explicit, in).Errors...); !verdict.Allowed() {
		t.Logf("%s: %s is refused: %v", arch, devices, verdict.Errors.ToAggregate())
		return nil
	}
	identity.Fill(explicit, name)
	explicit.Spec.Domain.CPU.Model = emulatedCPU[arch]
	return explicit
}

// starts renders a VMI, and has libvirt define it and QEMU start it.
func starts(t *testing.T, daemon *libvirt.Daemon, client *rpc.Libvirt, explicit *v1.VirtualMachineInstance) error {
	t.Helper()
	dom, errs := frontend.Render(frontends.Input(explicit))
	if len(errs) > 0 {
		return errs.ToAggregate()
	}
	frontends.AddSources(dom)
	frontends.AddFiles(t, dom)
	if dom.OS.Firmware == "efi" { // the builds of this machine have no enrolled keys for each architecture
		dom.OS.FirmwareInfo = &libvirtxml.DomainOSFirmwareInfo{Features: []libvirtxml.DomainOSFirmwareFeature{{Enabled: "no", Name: "secure-boot"}}}
	}
	if _, err := daemon.Define(frontends.Printed(t, dom)); err != nil {
		return err
	}
	defer func() { _ = daemon.Undefine(dom.Name) }()
	domain, err := client.DomainLookupByName(dom.Name)
	if err != nil {
		return err
	}
	if _, err := client.DomainCreateWithFlags(domain, uint32(rpc.DomainStartPaused)); err != nil {
		return err
	}
	return daemon.Destroy(dom.Name)
}
