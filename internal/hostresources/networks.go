package hostresources

import (
	"errors"
	"fmt"
	"net"

	"github.com/kilnvm/kiln/pkg/baremachine"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// bindNICs returns the host sides of interfaces by name, as choose returns them. An error of choose is an error at the index of the interface.
func bindNICs(interfaces []v1.Interface, choose func(v1.Interface) (backend.NIC, error)) (map[string]backend.NIC, field.ErrorList) {
	nics, path, errs := map[string]backend.NIC{}, field.NewPath("spec", "domain", "devices", "interfaces"), field.ErrorList(nil)
	for i, nic := range interfaces {
		bound, err := choose(nic)
		if err != nil {
			errs = append(errs, field.Invalid(path.Index(i), nic.Name, err.Error()))
			continue
		}
		nics[nic.Name] = bound
	}
	return nics, errs
}

// hostInterface returns the host side of an interface: user-mode NAT for masquerade, and for the bridge binding the bridge that the administrator configured.
func (h *BareMachine) hostInterface(nic v1.Interface) (backend.NIC, error) {
	switch {
	case nic.Masquerade != nil:
		// QEMU's own NAT needs no rights on the host.
		return backend.NIC{Kind: "user"}, nil
	case nic.Bridge != nil:
		if bridge := h.Bridges[nic.Name]; bridge != "" {
			return backend.NIC{Kind: "bridge", Device: bridge, MTU: linkMTU(bridge), Guarded: h.Guard}, nil
		}
		return backend.NIC{}, fmt.Errorf("no bridge is configured for network '%s'; use masquerade, or start the launcher with --bridge %s=BRIDGE",
			nic.Name, nic.Name)
	}
	return backend.NIC{}, errors.New(baremachine.BindingReason)
}

// linkMTU returns the MTU of a link of this network namespace. It is 0 for a missing link, which libvirt reports.
func linkMTU(link string) uint {
	found, err := net.InterfaceByName(link)
	if err != nil {
		return 0
	}
	return uint(max(found.MTU, 0)) //nolint:gosec // not negative
}
