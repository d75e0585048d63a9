// Package attr has what the stages of package domain need to fill libvirt's elements.
package attr

// OnOff returns libvirt's words for a switch.
func OnOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// YesNo returns libvirt's other words for a switch. Which ones an attribute has is in libvirt's schema.
func YesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// UnlessEmpty returns nil for an empty element. It copies the element, because a variable whose address is returned costs an allocation in any case.
func UnlessEmpty[T comparable](element T) *T {
	if element == *new(T) {
		return nil
	}
	out := element
	return &out
}
