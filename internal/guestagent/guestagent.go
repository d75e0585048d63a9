// Package guestagent sanitizes the reports of guest agents. A launcher sanitizes them before it reports, and Kiln's controller again, because a tenant may
// control the launcher.
package guestagent

import (
	"net"
	"net/netip"
	"strings"
	"unicode"
)

// Text returns the first printable characters of a text, at most most. It drops control characters, characters that change the direction of a text, and bytes
// that are not UTF-8.
func Text(text string, most int) string {
	var kept strings.Builder
	for _, r := range text {
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

// MAC returns a MAC address of 48 bits in lower case and with colons; empty if the text is not such an address.
func MAC(text string) string {
	if len(text) != len("00:00:00:00:00:00") {
		return ""
	}
	address, err := net.ParseMAC(text)
	if err != nil {
		return ""
	}
	return address.String()
}

// longestIP is enough for an IPv6 address that ends in an IPv4 address, and a zone.
const longestIP = 64

// IP returns an IP address in its shortest form, without the zone that Windows reports. It is empty if the text is not an IP address, or not the address of
// one machine in a network: a loopback, multicast or unspecified one.
func IP(text string) string {
	if len(text) > longestIP {
		return ""
	}
	address, err := netip.ParseAddr(text)
	if err != nil {
		return ""
	}
	address = address.WithZone("").Unmap()
	if !address.IsGlobalUnicast() && !address.IsLinkLocalUnicast() {
		return ""
	}
	return address.String()
}

// LinkLocal reports whether an IP address is link-local.
func LinkLocal(ip string) bool {
	address, err := netip.ParseAddr(ip)
	return err == nil && address.IsLinkLocalUnicast()
}

// IPs returns the addresses in a list of texts in the form of IP, each once, at most most.
func IPs(texts []string, most int) (ips []string) {
	seen := map[string]bool{}
	for _, one := range texts {
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
