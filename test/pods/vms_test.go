package pods

import (
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/test/guest"
)

// virtualMachine is a VirtualMachine that runs always. Spec is YAML of the template's spec; label app is the VM's name. VMs can be joined to one text.
func virtualMachine(name, spec string) string { return virtualMachineWith("Always", name, spec) }

func virtualMachineWith(runStrategy, name, spec string) string {
	return fmt.Sprintf(`
---
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: %[1]s}
spec:
  runStrategy: %[2]s
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
%[3]s
`, name, runStrategy, indented(spec, 6))
}

// indented puts spaces before each line of YAML.
func indented(text string, by int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Repeat(" ", by) + strings.Join(lines, "\n"+strings.Repeat(" ", by))
}

// podNetwork and nic are a network of the pod, and the interface on it, which forwards one port.
const (
	podNetwork = "networks: [{name: default, pod: {}}]"
	nic        = "interfaces: [{name: default, masquerade: {}, ports: [{port: 8080}]}]"
)

// kernelBoot is firmware.kernelBoot with the kernel of the test guest, and further arguments for it.
func kernelBoot(arguments string) string { return kernelBootOf(kernelImage, arguments) }

func kernelBootOf(image, arguments string) string {
	return "kernelBoot: {kernelArgs: " + guest.Cmdline + " " + arguments +
		", container: {image: " + image + ", kernelPath: /boot/vmlinuz, initrdPath: /boot/initrd}}"
}

// vm is a VirtualMachine that boots the test guest from its containerDisk. It has a claim of each mode, and a seed of the Secret 'seed', which tells the guest
// what to do.
func vm(name string) string {
	return virtualMachine(name, `
terminationGracePeriodSeconds: 60
domain:
  memory: {guest: 256Mi}
  devices:
    rng: {}
    disks:
    - {name: image, bootOrder: 1, disk: {bus: virtio}}
    - {name: block, disk: {bus: virtio}}
    - {name: file, disk: {bus: virtio}}
    - {name: seed, disk: {bus: virtio}}
    `+nic+`
`+podNetwork+`
volumes:
- {name: image, containerDisk: {image: `+diskImage+`}}
- {name: block, persistentVolumeClaim: {claimName: block}}
- {name: file, persistentVolumeClaim: {claimName: file}}
- {name: seed, cloudInitNoCloud: {secretRef: {name: seed}}}
`)
}

// sealing is a VirtualMachine with Secure Boot, whose EFI variables and TPM outlive its pods. vdb is where its guest keeps what the TPM has sealed. It is on
// the shared node, where its volumes are.
func sealing(name string) string {
	return virtualMachine(name, only("node-1")+`
terminationGracePeriodSeconds: 60
domain:
  memory: {guest: 512Mi}
  features: {smm: {enabled: true}}
  firmware: {bootloader: {efi: {secureBoot: true, persistent: true}}}
  devices:
    autoattachPodInterface: false
    tpm: {persistent: true}
    disks:
    - {name: image, bootOrder: 1, disk: {bus: virtio}}
    - {name: data, disk: {bus: virtio}}
    - {name: seed, disk: {bus: virtio}}
volumes:
- {name: image, containerDisk: {image: `+diskImage+`}}
- {name: data, persistentVolumeClaim: {claimName: data}}
- {name: seed, cloudInitNoCloud: {secretRef: {name: seed}}}
`)
}

// machine is a VirtualMachine with a device of each kind that a pod on any node serves. Its CPU model is one that QEMU emulates in whole: a later QEMU
// lacks features that host-model has with an earlier one. Placement is YAML of the template's spec.
func machine(name, placement string) string {
	return virtualMachine(name, strings.TrimSpace(placement)+`
terminationGracePeriodSeconds: 0
domain:
  cpu: {model: qemu64}
  memory: {guest: 192Mi}
  firmware: {`+kernelBoot("")+`}
  devices:
    rng: {}
    watchdog: {name: dog, i6300esb: {action: poweroff}}
    inputs: [{name: tablet, type: tablet, bus: usb}]
    disks:
    - {name: image, disk: {bus: virtio}}
    - {name: empty, disk: {bus: scsi}}
    - {name: more, disk: {bus: sata}}
    - {name: seed, cdrom: {bus: sata}}
    `+nic+`
`+podNetwork+`
volumes:
- {name: image, containerDisk: {image: `+diskImage+`}}
- {name: empty, emptyDisk: {capacity: 8Mi}}
- {name: more, emptyDisk: {capacity: 8Mi}}
- {name: seed, cloudInitNoCloud: {userData: "said by the VMI"}}
`)
}

// small is a VirtualMachine without disks, which boots the test guest. It is on the shared node, whose processes tests look at.
func small(name string) string {
	return virtualMachine(name, only("node-1")+`
terminationGracePeriodSeconds: 0
domain:
  memory: {guest: 192Mi}
  firmware: {`+kernelBoot("")+`}
  devices: {`+nic+`}
`+podNetwork)
}

// firmware is a VirtualMachine that has neither disk nor network: its firmware finds nothing to boot, and waits. Placement is YAML of the template's spec,
// domain of its domain.
func firmware(name, placement, domain string) string {
	return virtualMachine(name, strings.TrimSpace(placement)+`
terminationGracePeriodSeconds: 0
domain:
  memory: {guest: 64Mi}
  devices: {autoattachPodInterface: false}
`+indented(domain, 2))
}

// loaded is a VirtualMachine with a disk and a TPM, which writes and reads and fetches without end. It is on the shared node, whose processes tests look at.
// Boot is YAML of its firmware.
func loaded(name, memory, boot string) string {
	return virtualMachine(name, only("node-1")+`
terminationGracePeriodSeconds: 0
domain:
  memory: {guest: `+memory+`}
  firmware: {`+boot+`}
  devices:
    tpm: {}
    rng: {}
    disks: [{name: empty, disk: {bus: virtio}}]
    `+nic+`
`+podNetwork+`
volumes: [{name: empty, emptyDisk: {capacity: 64Mi}}]
`)
}

// firmwareOnly is a VirtualMachine of 64 MiB that boots nothing. Its CPU request lets more of them run than a node of two CPUs would take by default.
func firmwareOnly(name string) string {
	return virtualMachine(name, `
terminationGracePeriodSeconds: 0
domain:
  memory: {guest: 64Mi}
  resources: {requests: {cpu: 10m}}
  devices: {`+nic+`}
`+podNetwork)
}

// persistent is a VirtualMachine with a disk that outlives its pods. The guest writes the mark on it at each boot, after it has said what was there.
func persistent(runStrategy string) string {
	return virtualMachineWith(runStrategy, "target", `
terminationGracePeriodSeconds: 5
domain:
  memory: {guest: 192Mi}
  firmware: {`+kernelBoot("kiln.mark=kept")+`}
  devices:
    disks: [{name: disk, disk: {bus: virtio}}]
    `+nic+`
`+podNetwork+`
volumes: [{name: disk, persistentVolumeClaim: {claimName: disk}}]
`)
}
