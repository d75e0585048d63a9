package workbench

import (
	"errors"
	"fmt"
	"io"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/domain/kubevirt"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	"libvirt.org/go/libvirtxml"
)

// Running is a libvirt domain that is running.
type Running struct {
	domain *libvirtxml.Domain
	raw    []byte
}

// ReadRunning reads the XML of a domain from a file, or from stdin if the file is '-'.
func ReadRunning(file string, stdin io.Reader) (Running, error) {
	var raw []byte
	var err error
	switch file {
	case "":
		return Running{}, errors.New("name the file with the XML of the domain: --domain FILE")
	case "-":
		raw, err = manifest.ReadBounded("the standard input", stdin)
	default:
		raw, err = manifest.ReadFile(file)
	}
	if err != nil {
		return Running{}, err
	}
	running := Running{&libvirtxml.Domain{}, raw}
	if err := running.domain.Unmarshal(string(raw)); err != nil {
		return Running{}, fmt.Errorf("%s is not the XML of a libvirt domain: %w", file, err)
	}
	return running, nil
}

// Places returns what CapturePlaces needs.
func (r Running) Places() ([]byte, *libvirtxml.Domain) { return r.raw, r.domain }

// Capture returns the hardware of a running domain as the GuestHardware of the VM or VMI that takes it over. host is a YAML file with the
// capabilities of the domain's host; empty means assumed ones. If the spec does not match the domain, the error is a Refusal with the
// fields.
func Capture(r Reviewed, running Running, host string) (*v1alpha1.GuestHardware, error) {
	capabilities, err := readHost(host, r.Guest.Explicit.Spec.Architecture)
	if err != nil {
		return nil, err
	}
	if host == "" {
		capabilities.Machines = nil // the machine types of the real host are unknown, and the domain's is one of them
	}
	taken, errs := render.Capture(render.Machine{VMI: r.Guest.Explicit, Defaults: r.Guest.Input.Cluster.Frontend,
		Host: capabilities, Bindings: backend.AssumedBindings(r.Guest.Explicit)}, running.domain)
	if err := RefusalOf(r, host, errs); err != nil {
		return nil, err
	}
	return render.GuestHardware(r.Guest.Explicit, taken), nil
}

// CapturePlaces returns the hardware of a domain that KubeVirt runs and will run: the machine type, the addresses of the devices, also of hotplugged ones, and
// the CPU that libvirt made of host-model. xml and domain are the same domain. KubeVirt decides what else the guest sees, so nothing is compared with the spec
// of the VM.
func CapturePlaces(r Reviewed, xml []byte, domain *libvirtxml.Domain) (*v1alpha1.GuestHardware, error) {
	taken, err := kubevirt.Capture(xml, nil)
	if err != nil {
		return nil, err
	}
	render.CaptureCPU(taken, r.Guest.Explicit, domain)
	if err := record.Check(taken); err != nil {
		return nil, err
	}
	return render.GuestHardware(r.Guest.Explicit, *taken), nil
}
