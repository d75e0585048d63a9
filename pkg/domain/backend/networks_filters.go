package backend

import (
	"net/netip"
	"slices"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"libvirt.org/go/libvirtxml"
)

// Documents: network filters, one for each guarded interface. Element: interface/filterref.
//
// A guest may send only from its own MAC address, in Ethernet and in ARP, and, if its IP addresses are known, only from these. The rules are
// written out, because libvirt's own filters such as clean-traffic are not installed on every host. hostProfile.security.nwFilter decides which
// VMIs have a filter; net.filterRef adds one of the host's. KubeVirt renders none. libvirt: "Network Filters" (formatnwfilter).

func (h *host) filterName(name string) string { return "kiln-" + h.ownerName() + "-" + name }

// isFiltered reports whether an interface gets a filter: by hostProfile.security.nwFilter, else by the binding, which the host's administrator
// chose. QEMU's user-mode network needs none, because no frame of the guest leaves it. The couplings refuse other interfaces without a tap.
func (h *host) isFiltered(nic NIC) bool {
	switch h.policy.Security.NWFilter {
	case "none":
		return false
	case "spoofing":
		return hasKernelDevice(nic.Kind) && nic.Kind != "direct"
	}
	return nic.Guarded
}

// applyFilter makes an interface use its filter.
func (h *host) applyFilter(out *libvirtxml.DomainInterface, nic NIC) {
	if !h.isFiltered(nic) {
		return
	}
	name := abi.Name("interface", out.Alias)
	at := h.nicPath(name)
	if !hasTap(out) || out.Source.Direct != nil {
		h.addError(field.Invalid(at, nic.Kind, "packet filters need a tap or bridge, which this host does not bind the interface to"))
		return
	}
	for _, text := range nic.Addresses {
		if address, err := netip.ParseAddr(text); err != nil || !address.Is4() {
			h.addError(field.Invalid(at, text, "must be an IPv4 address"))
		}
	}
	out.FilterRef = &libvirtxml.DomainInterfaceFilterRef{Filter: h.filterName(name)}
}

// networkFilters returns a filter for each filtered interface. Its name and UUID follow from the VMI's UID, so that a second start replaces it.
func (h *host) networkFilters() (out []libvirtxml.NWFilter) {
	for _, nic := range h.Frontend.Devices.Interfaces {
		name := abi.Name("interface", nic.Alias)
		bound := h.Bindings.NICs[name]
		if !h.isFiltered(bound) {
			continue
		}
		entries := filterRules(nic.MAC.Address, bound.Addresses)
		if also := h.policy.Net.FilterRef; also != "" { // an interface has one filter
			entries = append(entries, libvirtxml.NWFilterEntry{Ref: &libvirtxml.NWFilterRef{Filter: also}})
		}
		out = append(out, libvirtxml.NWFilter{Name: h.filterName(name), UUID: h.secretUUID("filter/" + name), Chain: "root", Entries: entries})
	}
	return out
}

// Priorities of rules: libvirt evaluates lower ones first.
const (
	allowPriority = 100
	dropPriority  = 200
)

// filterRules returns the rules for packets that leave the guest. Packets that match none are accepted.
func filterRules(mac string, addresses []string) []libvirtxml.NWFilterEntry {
	own := libvirtxml.NWFilterField{Str: mac}
	var list []libvirtxml.NWFilterRule
	rule := func(action string, priority int) *libvirtxml.NWFilterRule {
		list = append(list, libvirtxml.NWFilterRule{Action: action, Direction: "out", Priority: priority})
		return &list[len(list)-1]
	}
	rule("drop", allowPriority-2).MAC = &libvirtxml.NWFilterRuleMAC{Match: "no", NWFilterRuleCommonMAC: libvirtxml.NWFilterRuleCommonMAC{SrcMACAddr: own}}
	rule("drop", allowPriority-1).ARP = &libvirtxml.NWFilterRuleARP{Match: "no", ARPSrcMACAddr: own}
	if len(addresses) > 0 {
		// Before it has an address, a guest asks for one from 0.0.0.0, and probes with ARP from there.
		for _, text := range append(slices.Clone(addresses), "0.0.0.0") {
			address := libvirtxml.NWFilterField{Str: text}
			rule("accept", allowPriority).ARP = &libvirtxml.NWFilterRuleARP{ARPSrcIPAddr: address}
			rule("accept", allowPriority).IP = &libvirtxml.NWFilterRuleIP{SrcIPAddr: address}
		}
		rule("drop", dropPriority).ARP = &libvirtxml.NWFilterRuleARP{}
		rule("drop", dropPriority).IP = &libvirtxml.NWFilterRuleIP{}
	}
	entries := make([]libvirtxml.NWFilterEntry, len(list))
	for i := range list {
		entries[i].Rule = &list[i]
	}
	return entries
}
