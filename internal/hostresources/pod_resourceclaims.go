package hostresources

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/api/metadata"
	"k8s.io/dynamic-resource-allocation/deviceattribute"
	"k8s.io/dynamic-resource-allocation/devicemetadata"
	v1 "kubevirt.io/api/core/v1"
)

// A driver of dynamic resource allocation describes the allocated devices in files of the container (KEP-5304), in one folder for each claim and request.

// mdevUUID is the attribute in which drivers for KubeVirt write the UUID of a mediated device. There is no standard attribute.
const mdevUUID resourcev1.QualifiedName = "mdevUUID"

var errNoMetadata = errors.New("its driver wrote no metadata of devices into this pod; use a driver that does (KEP-5304)")

// claimedDevice returns the only device of a request of a claim. A device with the UUID of a mediated device is that device, even if it also has the address
// of its card.
func (p *Pod) claimedDevice(vmi *v1.VirtualMachineInstance, request *v1.ClaimRequest) (backend.HostDev, error) {
	if request == nil || request.ClaimName == "" || request.RequestName == "" {
		return backend.HostDev{}, errors.New("names neither a resource nor a request of a claim")
	}
	device, err := p.deviceMetadata(vmi, request)
	if err != nil {
		return backend.HostDev{}, fmt.Errorf("request '%s' of claim '%s': %w", request.RequestName, request.ClaimName, err)
	}
	for _, attribute := range []struct {
		name resourcev1.QualifiedName
		kind string
	}{{mdevUUID, "mdev"}, {deviceattribute.StandardDeviceAttributePCIBusID, "pci"}} {
		if value := device.Attributes[attribute.name].StringValue; value != nil && *value != "" {
			found, err := p.hostDevice(attribute.kind, *value)
			if err != nil {
				err = fmt.Errorf("request '%s' of claim '%s': driver '%.63s' gave this pod %w", request.RequestName, request.ClaimName, device.Driver, err)
			}
			return found, err
		}
	}
	return backend.HostDev{}, fmt.Errorf("request '%s' of claim '%s': driver '%.63s' reports neither %s nor %s of device '%.63s'",
		request.RequestName, request.ClaimName, device.Driver, deviceattribute.StandardDeviceAttributePCIBusID, mdevUUID, device.Name)
}

// deviceMetadata reads the description of the only device of a request.
func (p *Pod) deviceMetadata(vmi *v1.VirtualMachineInstance, request *v1.ClaimRequest) (device metadata.Device, err error) {
	i := slices.IndexFunc(vmi.Spec.ResourceClaims, func(c v1.VirtualMachineInstanceResourceClaim) bool { return c.Name == request.ClaimName })
	if i < 0 {
		return device, errors.New("the virtual machine instance has no such claim in resourceClaims")
	}
	folder := path.Join(metadata.ResourceClaimTemplatesSubDir, request.ClaimName)
	if name := vmi.Spec.ResourceClaims[i].ResourceClaimName; name != nil && *name != "" {
		folder = path.Join(metadata.ResourceClaimsSubDir, *name)
	}
	// Tenants write the names, which must not lead out of the folder of the drivers.
	written, err := os.OpenRoot(p.path(metadata.ContainerDir))
	if err != nil {
		return device, errNoMetadata
	}
	defer written.Close()
	folder = path.Join(folder, request.RequestName)
	files, err := fs.ReadDir(written.FS(), folder)
	if err != nil {
		return device, errNoMetadata
	}
	var devices []metadata.Device
	for _, file := range files {
		var found metadata.DeviceMetadata
		if !strings.HasSuffix(file.Name(), metadata.MetadataFileSuffix) {
			continue
		}
		if err := decodeMetadata(written, path.Join(folder, file.Name()), &found); err != nil {
			return device, fmt.Errorf("its metadata cannot be read: %w", err)
		}
		for _, r := range found.Requests {
			if r.Name == request.RequestName {
				devices = append(devices, r.Devices...)
			}
		}
	}
	if len(devices) != 1 {
		return device, fmt.Errorf("has %d devices, and must have one", len(devices))
	}
	return devices[0], nil
}

func decodeMetadata(written *os.Root, file string, into *metadata.DeviceMetadata) error {
	stream, err := written.Open(file)
	if err != nil {
		return err
	}
	defer stream.Close()
	return devicemetadata.DecodeMetadataFromStream(json.NewDecoder(stream), into)
}
