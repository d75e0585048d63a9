// Package guestcmd is the commands of 'kubectl kiln' about the guests that VMs boot: validate, explain, expand, render and diff. A web page runs them, too
// (internal/browser), so that this package links neither registries nor clients of a cluster.
package guestcmd
