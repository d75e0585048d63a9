package vm

import "regexp"

var deviceName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// IsDeviceName reports whether libvirt takes a name as an alias: it is what follows 'ua-'. The record finds a device again by it.
func IsDeviceName(name string) bool { return deviceName.MatchString(name) }
