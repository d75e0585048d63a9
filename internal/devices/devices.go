// Package devices is 'launcher devices', which runs on each node as root without privileges. It serves the devices of the machine to kubelet, installs the
// seccomp profile that passt needs, and writes into the Node what guests will lack there.
package devices

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// domain is the domain of KubeVirt's resources, so that quotas, pods and scheduler settings written for KubeVirt apply.
const domain = "devices.kubevirt.io/"

// Device is a device of the node that guests need.
type Device struct {
	// Name is the name of the resource, below domain.
	Name string
	// Path is the path on the machine, and in containers with the resource.
	Path string
	// Misc is the name in /proc/misc while the kernel serves the device. It is empty for a device whose module the kernel loads when the device is opened.
	Misc string
}

// deviceKVM is virtualization. udev may create /dev/kvm on a machine without virtualization, where it cannot be opened.
var deviceKVM = Device{Name: "kvm", Path: "/dev/kvm", Misc: "kvm"}

// Served are the devices, in the order of the documentation.
var Served = []Device{
	deviceKVM,
	{Name: "tun", Path: "/dev/net/tun"},
	{Name: "vhost-net", Path: "/dev/vhost-net"},
	{Name: "vhost-vsock", Path: "/dev/vhost-vsock"},
}

// Resource returns the name of the resource in a pod.
func (d Device) Resource() string { return domain + d.Name }

// Folders are the paths at which the container sees folders of the machine.
type Folders struct {
	// Plugins has the sockets of kubelet and of device plugins.
	Plugins string
	// Seccomp is kubelet's folder of profiles.
	Seccomp string
	// CDI has the descriptions of devices that the container runtime reads.
	CDI string
	// Dev is /dev of the machine.
	Dev string
	// Proc is /proc, whose files about the kernel are the same in each container.
	Proc string
	// Containerd has containerd's config.toml.
	Containerd string
}

// deviceFault returns the reason why a device cannot be used; empty if it can. It does not open the device, because this container may not open any of them.
func (f Folders) deviceFault(d Device) string {
	info, err := os.Stat(filepath.Join(f.Dev, strings.TrimPrefix(d.Path, "/dev/")))
	switch {
	case os.IsNotExist(err):
		return fmt.Sprintf("the machine has no %s", d.Path)
	case err != nil:
		return fmt.Sprintf("%s: %v", d.Path, err)
	case info.Mode()&fs.ModeCharDevice == 0:
		return fmt.Sprintf("%s is not a character device", d.Path)
	case d.Misc == "":
		return ""
	}
	registered, err := os.ReadFile(filepath.Join(f.Proc, "misc"))
	if err != nil {
		return fmt.Sprintf("%s: whether the kernel serves it is unknown: %v", d.Path, err)
	}
	for line := range strings.Lines(string(registered)) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[1] == d.Misc {
			return ""
		}
	}
	return fmt.Sprintf("%s is there, but the kernel does not serve it: no module for this machine's virtualization is loaded", d.Path)
}
