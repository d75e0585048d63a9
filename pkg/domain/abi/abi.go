// Package abi is the hardware that a guest must find at every boot: the record of its frontend, the projection of a domain on what the
// guest sees, the digest of a projection, and the difference of two.
//
// What the guest sees is what libvirt compares before it accepts a changed definition of a running domain (virDomainDefCheckABIStability in
// src/conf/domain_conf.c), and the addresses. libvirt's page "Domain XML format" (formatdomain) defines the elements. KubeVirt compares nothing:
// it renders a domain anew at each start.
package abi

import (
	"crypto/sha256"
	"encoding/hex"

	"libvirt.org/go/libvirtxml"
)

// Ignition is the name under which a guest finds the configuration of its first boot, in /sys/firmware/qemu_fw_cfg/by_name.
const Ignition = "opt/com.coreos/config"

// GuestAgent is the name of the channel of the guest agent.
const GuestAgent = "guest-agent"

// Digest returns 'sha256:' and the hex digest of the projection of a domain. A frontend and the complete domain that stage 3 makes of it have the
// same digest, on every host.
func Digest(dom *libvirtxml.Domain) string {
	sum := sha256.Sum256(canonical(make([]byte, 0, bufferSize), Project(dom)))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Same reports whether a guest sees the same hardware in two domains: whether their digests are equal. It is the check of every start.
func Same(a, b *libvirtxml.Domain) bool {
	// A frontend and its complete domain have their devices in the same order, so that mostly nothing is sorted or written.
	return same(platformSeen(a), platformSeen(b)) && sameDevices(a.Devices, b.Devices) || Digest(a) == Digest(b)
}
