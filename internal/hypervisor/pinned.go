package hypervisor

import (
	"context"

	"github.com/digitalocean/go-libvirt"
	"k8s.io/utils/cpuset"
	"libvirt.org/go/libvirtxml"
)

// Pinned returns the CPUs that all active domains except one are pinned to, including domains that Kiln did not make. It asks libvirt each time, because only
// libvirt knows what runs after the launcher was restarted.
func (l *Libvirt) Pinned(ctx context.Context, except string) (all cpuset.CPUSet, err error) {
	err = l.runQuery(ctx, func(rpc *libvirt.Libvirt) error {
		domains, _, err := rpc.ConnectListAllDomains(1, libvirt.ConnectListDomainsActive)
		if err != nil {
			return err
		}
		for _, domain := range domains {
			if domain.Name == except {
				continue
			}
			xml, err := rpc.DomainGetXMLDesc(domain, 0)
			if libvirt.IsNotFound(err) {
				continue // it has just ended
			}
			if err != nil {
				return err
			}
			var document libvirtxml.Domain
			if err := document.Unmarshal(xml); err != nil {
				return err
			}
			all = all.Union(Pins(document.CPUTune))
		}
		return nil
	})
	return all, err
}

// Pins returns the CPUs that a domain's vCPUs, emulator and IO threads are pinned to (libvirt's element cputune). It returns an empty set for a domain
// without this element.
func Pins(tune *libvirtxml.DomainCPUTune) cpuset.CPUSet {
	all := cpuset.New()
	if tune == nil {
		return all
	}
	var lists []string
	for _, pin := range tune.VCPUPin {
		lists = append(lists, pin.CPUSet)
	}
	for _, pin := range tune.IOThreadPin {
		lists = append(lists, pin.CPUSet)
	}
	if tune.EmulatorPin != nil {
		lists = append(lists, tune.EmulatorPin.CPUSet)
	}
	for _, list := range lists {
		// libvirt accepts exclusions ('0-3,^2'), which this parser refuses, but never prints them.
		if cpus, err := cpuset.Parse(list); err == nil {
			all = all.Union(cpus)
		}
	}
	return all
}
