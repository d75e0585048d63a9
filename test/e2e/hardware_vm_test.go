package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/test/guest"
)

// What the machine of this file is made from: each of these has an effect on the guest's hardware, and each is edited while
// the VM is there.
const (
	hardwareConfiguration = `developerConfiguration: {featureGates: [HostDisk, PanicDevices]}
cpuModel: host-model
smbios: {manufacturer: Kiln, product: Before}
`
	hardwareSize = `apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineInstancetype
metadata: {name: own}
spec: {cpu: {guest: 2}, memory: {guest: 1Gi, maxGuest: 4Gi}}
`
	hardwarePreset = `apiVersion: kubevirt.io/v1
kind: VirtualMachineInstancePreset
metadata: {name: dog}
spec:
  selector: {matchLabels: {tier: database}}
  domain:
    clock: {timer: {hpet: {present: false}}}
    devices: {watchdog: {name: dog, i6300esb: {action: poweroff}}}
`
	hardwareProfile = `apiVersion: kilnvm.io/v1alpha1
kind: HostProfile
metadata: {name: databases}
spec:
  vmiSelector: {matchLabels: {tier: database}}
  disk: {cachePolicy: WriteThrough, ioPolicy: Threads, discard: Ignore, errorPolicy: Report}
  ioThreads: {policy: Shared}
  memory: {backing: Memfd, disablePageMerging: true}
  rng: {source: /dev/random, bytesPerPeriod: 4096}
  balloon: {statsPeriodSeconds: 7}
  serialLog: {append: true}
`
)

// furnished is a VM with devices on every bus.
func furnished(m machine) string {
	return `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: demo}
spec:
  runStrategy: Always
  instancetype: {name: own, kind: VirtualMachineInstancetype}
  preference: {name: linux.sample}
  template:
    metadata: {labels: {tier: database}}
    spec:
      terminationGracePeriodSeconds: 0
      nodeSelector: {machine: ` + m.name + `}
      domain:
        firmware:
          kernelBoot:
            kernelArgs: "` + guest.Cmdline + `"
            container: {image: "demo.example/guest:1", kernelPath: /boot/vmlinuz, initrdPath: /boot/initrd}
        devices:
          tpm: {}
          blockMultiQueue: true
          inputs: [{name: pen, type: tablet, bus: usb}]
          panicDevices: [{model: isa}]
          disks:
          - {name: data, serial: DATA}
          - {name: wide, serial: WIDE, blockSize: {custom: {logical: 4096, physical: 4096}}}
          - {name: host, serial: HOST, disk: {bus: scsi}}
          - {name: seed, serial: SEED, disk: {bus: sata}}
          - {name: stick, serial: STICK, disk: {bus: usb}}
          - {name: tools, serial: TOOLS, cdrom: {bus: sata}}
          interfaces:
          - {name: default, masquerade: {}}
      networks:
      - {name: default, pod: {}}
      volumes:
      - {name: data, emptyDisk: {capacity: 64Mi}}
      - {name: wide, emptyDisk: {capacity: 64Mi}}
      - {name: host, hostDisk: {path: ` + m.volumes + `/host.img, type: DiskOrCreate, capacity: 32Mi}}
      - {name: seed, cloudInitNoCloud: {userData: "#cloud-config"}}
      - {name: stick, emptyDisk: {capacity: 16Mi}}
      - {name: tools, emptyDisk: {capacity: 16Mi}}
`
}

// more adds to the VM, before what it has, a disk, and a network card if this machine has a bridge for one.
func more(m machine, manifest string) string {
	out := strings.NewReplacer("          disks:\n", "          disks:\n          - {name: added, serial: ADDED}\n",
		"      volumes:\n", "      volumes:\n      - {name: added, emptyDisk: {capacity: 16Mi}}\n").Replace(manifest)
	if m.bridge == "" {
		return out
	}
	return strings.NewReplacer("          interfaces:\n", "          interfaces:\n          - {name: lan, bridge: {}}\n",
		"      networks:\n", "      networks:\n      - {name: lan, multus: {networkName: lan}}\n").Replace(out)
}

// addBridge makes a bridge for the length of a test; empty where that is not permitted.
func addBridge(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("kiln%07x", time.Now().UnixNano()&0xfffffff) // at most 15 letters
	if out, err := exec.Command("ip", "link", "add", name, "type", "bridge").CombinedOutput(); err != nil {
		t.Logf("no network card is added, since this machine makes no bridge: %v: %s", err, out)
		return ""
	}
	t.Cleanup(func() {
		if out, err := exec.Command("ip", "link", "delete", name).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	return name
}
