// Package launch is the edge between rendered documents and a machine: the libvirt connection, the facts of the host, the
// volumes and networks that it can serve, and the controller that runs the VMIs of this node.
package launch

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket/dialers"
	"libvirt.org/go/libvirtxml"
)

// DefaultSocket is where Debian's and Fedora's monolithic libvirt daemon listens.
const DefaultSocket = "/var/run/libvirt/libvirt-sock"

// Libvirt is a connection to the libvirt daemon of this machine. It is made anew when the daemon was restarted.
type Libvirt struct {
	socket string
	mutex  sync.Mutex
	rpc    *libvirt.Libvirt
}

// Connect opens qemu:///system behind a libvirt daemon's unix socket.
func Connect(socket string) (*Libvirt, error) {
	l := &Libvirt{socket: socket}
	_, err := l.connection()
	return l, err
}

// connection is one that is open.
func (l *Libvirt) connection() (*libvirt.Libvirt, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.rpc != nil && l.rpc.IsConnected() {
		return l.rpc, nil
	}
	rpc := libvirt.NewWithDialer(dialers.NewLocal(dialers.WithSocket(l.socket), dialers.WithLocalTimeout(5*time.Second)))
	if err := rpc.ConnectToURI(libvirt.QEMUSystem); err != nil {
		return nil, fmt.Errorf("libvirt at '%s': %w", l.socket, err)
	}
	l.rpc = rpc
	return rpc, nil
}

// Close ends the connection; guests go on.
func (l *Libvirt) Close() error { return l.rpc.Disconnect() }

// State is what has become of a domain.
type State int

// States of a domain, as far as a VMI's phase can tell them apart.
const (
	Undefined State = iota
	Stopped
	Crashed
	Active
)

// State asks for a domain by name.
func (l *Libvirt) State(name string) (State, error) {
	rpc, err := l.connection()
	if err != nil {
		return Undefined, err
	}
	domain, err := rpc.DomainLookupByName(name)
	if libvirt.IsNotFound(err) {
		return Undefined, nil
	}
	if err != nil {
		return Undefined, err
	}
	state, _, err := rpc.DomainGetState(domain, 0)
	switch libvirt.DomainState(state) {
	case libvirt.DomainShutoff:
		return Stopped, err
	case libvirt.DomainCrashed:
		return Crashed, err
	}
	return Active, err
}

// define defines a domain, validated against libvirt's schema.
func define(rpc *libvirt.Libvirt, document *libvirtxml.Domain) (domain libvirt.Domain, err error) {
	xml, err := document.Marshal()
	if err != nil {
		return domain, err
	}
	if domain, err = rpc.DomainDefineXMLFlags(xml, libvirt.DomainDefineValidate); err != nil {
		return domain, fmt.Errorf("libvirt refuses the domain: %w", err)
	}
	return domain, nil
}

func create(rpc *libvirt.Libvirt, domain libvirt.Domain) error {
	if err := rpc.DomainCreate(domain); err != nil {
		return fmt.Errorf("libvirt cannot start the domain: %w", err)
	}
	return nil
}

func undefine(rpc *libvirt.Libvirt, domain libvirt.Domain) error {
	return tolerate(rpc.DomainUndefineFlags(domain, libvirt.DomainUndefineNvram|libvirt.DomainUndefineManagedSave), libvirt.ErrNoDomain)
}

// Shutdown asks the guest to power off by ACPI. A domain that is not active is no error.
func (l *Libvirt) Shutdown(name string) error {
	rpc, err := l.connection()
	if err != nil {
		return err
	}
	domain, err := rpc.DomainLookupByName(name)
	if err == nil {
		err = rpc.DomainShutdown(domain)
	}
	return tolerate(err, libvirt.ErrNoDomain, libvirt.ErrOperationInvalid)
}

// Remove destroys an active domain, removes what was made for it, and undefines it with its NVRAM. It is idempotent.
func (l *Libvirt) Remove(name string) error {
	rpc, err := l.connection()
	if err != nil {
		return err
	}
	domain, err := rpc.DomainLookupByName(name)
	if libvirt.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := tolerate(rpc.DomainDestroy(domain), libvirt.ErrNoDomain, libvirt.ErrOperationInvalid); err != nil {
		return err
	}
	if err := swept(rpc, domain); err != nil {
		return err
	}
	return undefine(rpc, domain)
}

// tolerate drops errors that say that the work is already done.
func tolerate(err error, done ...libvirt.ErrorNumber) error {
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
