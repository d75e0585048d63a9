// Package imported reads a libvirt domain that another program made, such as virt-install, as a VirtualMachine: stage 2 in reverse. It decides which field of
// the VM each element becomes. What no field can say, the hardware record of the domain may keep, and a comparison of two domains finds the rest: neither is
// here. The domain is hostile input.
//
// libvirt: "Domain XML format" (formatdomain) defines the elements.
package imported
