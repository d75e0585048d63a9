// Package imports imports the domains of other programs, and asks libvirt whether the guests that are rendered for them have the same hardware.
package imports
