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
// A guest sends under its own MAC address alone, in Ethernet and in ARP, and where its addresses are known under these alone. The rules are
// written out: the filters that distributions bring along are not on every host. Host profile: security.nwFilter says for which guests;
// net.filterRef adds what the host has.

func (h *host) filterName(name string) string { return "kiln-" + h.owner() + "-" + name }

// guarded reports whether an interface has a filter of ours: as the administrator of guests says, else that of the host. Of what QEMU
// binds in user space no frame of the guest leaves it; what else has no tap is refused by the couplings.
func (h *host) guarded(nic NIC) bool {
	switch h.policy.Security.NWFilter {
	case "none":
		return false
	case "spoofing":
		return kernel(nic.Kind) && nic.Kind != "direct"
	}
	return nic.Guarded
}

// guard makes an interface use its filter.
func (h *host) guard(out *libvirtxml.DomainInterface, nic NIC, at *field.Path) {
	if !h.guarded(nic) {
		return
	}
	if !tapped(out) || out.Source.Direct != nil {
		h.fail(field.Invalid(at, nic.Kind, "packet filters need a tap or bridge, which this host does not bind the interface to"))
		return
	}
	for _, text := range nic.Addresses {
		if address, err := netip.ParseAddr(text); err != nil || !address.Is4() {
			h.fail(field.Invalid(at, text, "must be an IPv4 address"))
		}
	}
	out.FilterRef = &libvirtxml.DomainInterfaceFilterRef{Filter: h.filterName(abi.Name("interface", out.Alias))}
}

func (h *host) filters() (out []libvirtxml.NWFilter) {
	for _, nic := range h.Frontend.Devices.Interfaces {
		name := abi.Name("interface", nic.Alias)
		bound := h.Bindings.NICs[name]
		if !h.guarded(bound) {
			continue
		}
		entries := rules(nic.MAC.Address, bound.Addresses)
		if also := h.policy.Net.FilterRef; also != "" { // an interface has one filter
			entries = append(entries, libvirtxml.NWFilterEntry{Ref: &libvirtxml.NWFilterRef{Filter: also}})
		}
		out = append(out, libvirtxml.NWFilter{Name: h.filterName(name), UUID: h.secretUUID("filter/" + name), Chain: "root", Entries: entries})
	}
	return out
}

// Priorities of rules; the lowest is asked first.
const (
	allowPriority = 100
	dropPriority  = 200
)

func rules(mac string, addresses []string) []libvirtxml.NWFilterEntry {
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
