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
	"sync"

	"libvirt.org/go/libvirtxml"
)

// Ignition is the name under which a guest finds the configuration of its first boot, in /sys/firmware/qemu_fw_cfg/by_name.
const Ignition = "opt/com.coreos/config"

// GuestAgent is the name of the channel of the guest agent.
const GuestAgent = "guest-agent"

// Digest returns 'sha256:' and the hex digest of the projection of a domain. A frontend and the complete domain that stage 3 makes of it have the
// same digest, on every host.
func Digest(dom *libvirtxml.Domain) string {
	buffer := buffers.Get().(*[]byte)
	text := writeSeen((*buffer)[:0], oneBoot(dom))
	sum := sha256.Sum256(text)
	if cap(text) <= longestBuffer {
		*buffer = text
		buffers.Put(buffer)
	}
	var digest [len(algorithm) + 2*sha256.Size]byte
	hex.Encode(digest[copy(digest[:], algorithm):], sum[:])
	return string(digest[:])
}

const algorithm = "sha256:"

// buffers are reused for texts. The text of a VMI with thirty disks has 20 KiB, more than all other memory that a record takes.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// longestBuffer is what is kept for the next text, in bytes.
const longestBuffer = 64 << 10

// Same reports whether a guest sees the same hardware in two domains: whether their digests are equal. Each start checks it.
func Same(a, b *libvirtxml.Domain) bool {
	// A frontend and its complete domain have their devices in the same order, so that mostly nothing is sorted or written.
	one, other := oneBoot(a), oneBoot(b)
	return samePlatform(one, other) && sameDevices(one.Devices, other.Devices) || Digest(a) == Digest(b)
}
