package backend

import "libvirt.org/go/libvirtxml"

// Elements: blkiotune. Host profile: blockIO. KubeVirt renders none. libvirt: "Block I/O Tuning".

// blockIOTune has weight and limits of QEMU's cgroup on the host's disks. disks_policy.go has the limits of the guest's disks.
func (h *host) blockIOTune() *libvirtxml.DomainBlockIOTune {
	p := h.policy.BlockIO
	if p.Weight == nil && len(p.PerDevice) == 0 {
		return nil
	}
	out := &libvirtxml.DomainBlockIOTune{Weight: valueOr0(p.Weight)}
	for _, d := range p.PerDevice {
		out.Device = append(out.Device, libvirtxml.DomainBlockIOTuneDevice{
			Path: d.Path, Weight: valueOr0(d.Weight), ReadIopsSec: valueOr0(d.ReadIOPS), WriteIopsSec: valueOr0(d.WriteIOPS),
			ReadBytesSec: uint(bytesOf(d.ReadBytesPerSecond)), WriteBytesSec: uint(bytesOf(d.WriteBytesPerSecond)),
		})
	}
	return out
}

// valueOr0 returns 0, which libvirtxml leaves out, for a number that is not set.
func valueOr0[T int32 | int64](n *T) uint {
	if n == nil {
		return 0
	}
	return uint(*n)
}
