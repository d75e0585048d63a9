// Package abi holds what a guest must find again at every boot: the frozen record of its frontend, the projection of a
// domain on what the guest sees, its digest, and the verdict on a change.
package abi

import "libvirt.org/go/libvirtxml"

// Record is the frozen frontend of a guest: what later boots reproduce. It is stored as compact JSON.
type Record struct {
	// Defaults is the version of the FrontendDefaults that made it.
	Defaults string `json:"defaults"`
	// Digest is that of the projection, see Digest.
	Digest  string            `json:"digest"`
	UUID    string            `json:"uuid,omitempty"`
	Serial  string            `json:"serial,omitempty"`
	Machine string            `json:"machine,omitempty"`
	MACs    map[string]string `json:"macs,omitempty"`
	// Devices maps each device's alias to its address.
	Devices map[string]Address `json:"devices,omitempty"`
}

// Address is one guest address as libvirt's own struct would print it, by kind: pci, drive, usb, serial, ccw, and for disks the target name.
type Address struct {
	PCI    string `json:"pci,omitempty"`    // domain:bus:slot.function
	Drive  string `json:"drive,omitempty"`  // controller:bus:target:unit
	USB    string `json:"usb,omitempty"`    // bus:port
	Serial string `json:"serial,omitempty"` // controller:bus:port
	CCW    string `json:"ccw,omitempty"`    // cssid.ssid.devno
	Target string `json:"target,omitempty"` // disk target name, e.g. vda
	Index  *uint  `json:"index,omitempty"`  // controller index
}

// Freeze records a finished frontend.
func Freeze(dom *libvirtxml.Domain, defaults string) Record { return Record{} }

// Digest is 'sha256:' and the hex digest of the canonical frontend projection of a domain, frontend or complete.
func Digest(dom *libvirtxml.Domain) (string, error) { return "", nil }

// Changes compares the frontend projections of two domains and names, in plain words, each guest-visible difference.
func Changes(before, after *libvirtxml.Domain) ([]string, error) { return nil, nil }
