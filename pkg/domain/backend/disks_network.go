package backend

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	"libvirt.org/go/libvirtxml"
)

// Elements: disk/source of type network, with its auth. QEMU connects to these disks itself: nothing is mounted or mapped on the host.
// KubeVirt has no such disks; there the storage driver maps them to block devices.

var networkProtocols = []string{"iscsi", "nbd", "rbd"}

// networkSource adds the servers, and the secret for a user. nbd has no users in QEMU.
func (h *host) networkSource(name string, given *NetworkDisk) *libvirtxml.DomainDiskSource {
	at, _ := h.volumePath(name)
	out := &libvirtxml.DomainDiskSourceNetwork{Protocol: given.Protocol, Name: given.Name}
	for _, server := range given.Hosts {
		host := libvirtxml.DomainDiskSourceHost{Name: server.Name, Port: server.Port}
		if server.Socket != "" {
			host = libvirtxml.DomainDiskSourceHost{Transport: "unix", Socket: server.Socket}
		}
		out.Hosts = append(out.Hosts, host)
	}
	switch {
	case usages[given.Protocol] == "" && given.Protocol != "nbd":
		h.addError(field.NotSupported(at, given.Protocol, networkProtocols))
	case given.User != "" && given.Protocol == "nbd":
		h.addError(field.Invalid(at, given.User, "nbd does not support users; isolate its network instead"))
	case given.User != "":
		out.Auth = &libvirtxml.DomainDiskAuth{Username: given.User,
			Secret: &libvirtxml.DomainDiskSecret{Type: usages[given.Protocol], UUID: h.secretUUID("auth/" + name)}}
	case given.Protocol != "rbd" && len(given.Hosts) == 0: // the host's ceph.conf may name the monitors
		h.addError(field.Invalid(at, given.Protocol, h.nodeName()+" has no server for this disk"))
	}
	return &libvirtxml.DomainDiskSource{Network: out}
}
