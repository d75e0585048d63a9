package domainimport

import (
	"context"
	"fmt"
	"net/url"

	"github.com/digitalocean/go-libvirt"
)

// SystemURI is libvirt's address of the machines of this host, which the daemon runs as root.
const SystemURI = string(libvirt.QEMUSystem)

// ReadLibvirt returns the XML of a domain as 'virsh dumpxml' prints it, and whether the domain runs. uri is an address of libvirt, such as
// qemu+ssh://root@host/system. An error names the address without its password.
func ReadLibvirt(ctx context.Context, uri, name string) (raw []byte, runs bool, err error) {
	address, err := url.Parse(uri)
	if err != nil {
		return nil, false, fmt.Errorf("the address of libvirt: %w", err)
	}
	type answer struct {
		raw  []byte
		runs bool
		err  error
	}
	answers := make(chan answer, 1) // the client has no context: a run that is interrupted does not wait for its answer
	go func() {
		raw, runs, err := readDomain(address, name)
		answers <- answer{raw, runs, err}
	}()
	select {
	case <-ctx.Done():
		return nil, false, ctx.Err()
	case got := <-answers:
		if got.err != nil {
			return nil, false, fmt.Errorf("domain '%s' of %s: %w", name, address.Redacted(), got.err)
		}
		return got.raw, got.runs, nil
	}
}

// readDomain connects to libvirt, and reads one domain.
func readDomain(address *url.URL, name string) (raw []byte, runs bool, err error) {
	client, err := libvirt.ConnectToURI(address)
	if err != nil {
		return nil, false, err
	}
	defer client.Disconnect() //nolint:errcheck // the domain has been read
	domain, err := client.DomainLookupByName(name)
	if err != nil {
		return nil, false, err
	}
	text, err := client.DomainGetXMLDesc(domain, 0)
	if err != nil {
		return nil, false, err
	}
	active, err := client.DomainIsActive(domain)
	return []byte(text), active != 0, err
}
