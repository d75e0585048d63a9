// Package guestagent reads what a guest agent says. A launcher reads it before it reports, and Kiln's controller again: a tenant may be the launcher.
package guestagent

import (
	"net"
	"net/netip"
	"strings"
	"unicode"
)

// Text returns the printable characters of a text, at most so many. Left out are control characters, those that change the direction of a text, and what
// replaces bytes that are no UTF-8.
func Text(said string, most int) string {
	var kept strings.Builder
	for _, r := range said {
		if most == 0 {
			break
		}
		if unicode.IsPrint(r) && r != unicode.ReplacementChar {
			kept.WriteRune(r)
			most--
		}
	}
	return strings.TrimSpace(kept.String())
}

// MAC returns a MAC address of 48 bits in lower case and with colons; empty if the text is none.
func MAC(said string) string {
	if len(said) != len("00:00:00:00:00:00") {
		return ""
	}
	address, err := net.ParseMAC(said)
	if err != nil {
		return ""
	}
	return address.String()
}

// longestIP is the length of an IPv6 address that ends in an IPv4 one, and of a zone.
const longestIP = 64

// IP returns an address that an interface may have, in its shortest form and without a zone, which Windows says; empty if the text is none, or one that
// leads to no machine: loopback, multicast, unspecified.
func IP(said string) string {
	if len(said) > longestIP {
		return ""
	}
	address, err := netip.ParseAddr(said)
	if err != nil {
		return ""
	}
	address = address.WithZone("").Unmap()
	if !address.IsGlobalUnicast() && !address.IsLinkLocalUnicast() {
		return ""
	}
	return address.String()
}

// LinkLocal reports whether an address of IP leads to machines on the same link alone.
func LinkLocal(ip string) bool {
	address, err := netip.ParseAddr(ip)
	return err == nil && address.IsLinkLocalUnicast()
}

// IPs returns the addresses of a list, each once, at most so many.
func IPs(said []string, most int) (ips []string) {
	seen := map[string]bool{}
	for _, one := range said {
		if len(ips) == most {
			break
		}
		if ip := IP(one); ip != "" && !seen[ip] {
			seen[ip] = true
			ips = append(ips, ip)
		}
	}
	return ips
}
