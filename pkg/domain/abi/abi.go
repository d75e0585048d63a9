// Package abi is the hardware that a guest must find at every boot: the record of its frontend, the projection of a domain on what the
// guest sees, the digest of a projection, and the difference of two.
package abi

import (
	"crypto/sha256"
	"encoding/hex"

	"libvirt.org/go/libvirtxml"
)

// Ignition is the name under which a guest finds the configuration of its first boot, in /sys/firmware/qemu_fw_cfg/by_name.
const Ignition = "opt/com.coreos/config"

// Digest is 'sha256:' and the hex digest of the projection of a domain, frontend or complete.
func Digest(dom *libvirtxml.Domain) string {
	sum := sha256.Sum256(canonical(make([]byte, 0, usualSize), Project(dom)))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Same reports whether a guest sees the same hardware in two domains: whether their digests are equal.
func Same(a, b *libvirtxml.Domain) bool {
	// Domains of one origin keep the order of devices, so that mostly there is nothing to sort and no text to write.
	return same(platformSeen(a), platformSeen(b)) && sameDevices(a.Devices, b.Devices) || Digest(a) == Digest(b)
}
