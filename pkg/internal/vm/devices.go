package vm

import "strings"

// IsDeviceName reports whether libvirt takes a name as an alias: it is what follows 'ua-'. The record finds a device again by it.
func IsDeviceName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	})
}
