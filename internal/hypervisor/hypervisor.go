// Package hypervisor is the client of one machine's libvirt daemon. It reads the machine's capabilities, defines, starts, stops and
// removes the domains of VMIs with their side documents, and reports their states.
package hypervisor

import (
	"errors"

	"github.com/digitalocean/go-libvirt"
)

// DefaultSocket is where Debian's and Fedora's monolithic libvirt daemon listens.
const DefaultSocket = "/var/run/libvirt/libvirt-sock"

// Libvirt is a client of the libvirt daemon of this machine.
type Libvirt struct {
	connections
	signals
}

// New returns a client of qemu:///system behind a libvirt daemon's unix socket. The daemon need not run yet, and may be restarted at any
// time.
func New(socket string) *Libvirt { return newLibvirt(socket, libvirt.QEMUSystem) }

// NewSession is New for qemu:///session: the daemon of one unprivileged user, whose guests run as this user. Such a daemon has neither network filters, nor
// node devices, nor cgroups. backend.InSession leaves out the fields of a HostPolicy that it refuses.
func NewSession(socket string) *Libvirt { return newLibvirt(socket, libvirt.QEMUSession) }

func newLibvirt(socket string, uri libvirt.ConnectURI) *Libvirt {
	return &Libvirt{connections: connections{socket: socket, uri: uri, queryTimeout: QueryDeadline, changeTimeout: changeDeadline}}
}

// ignoreErrors returns nil for an error with one of the given numbers, which mean that the work is already done.
func ignoreErrors(err error, done ...libvirt.ErrorNumber) error {
	var answer libvirt.Error
	if errors.As(err, &answer) {
		for _, number := range done {
			if answer.Code == uint32(number) {
				return nil
			}
		}
	}
	return err
}
