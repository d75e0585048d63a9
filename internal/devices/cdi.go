package devices

import (
	"encoding/json"
	"os"
	"path/filepath"

	"tags.cncf.io/container-device-interface/specs-go"
)

const (
	cdiKind = "kilnvm.io/guest"
	cdiFile = "kilnvm.io-guest.json"
	// launcher is the user and the group of guests' pods.
	launcher = 107
)

// cdiName returns the name of a device in a request to the container runtime.
func cdiName(d Device) string { return cdiKind + "=" + d.Name }

// writeCDI describes the devices to the container runtime. In a container each device belongs only to the user of launchers, whatever its owner and mode on
// the machine, and even if the runtime does not have device_ownership_from_security_context.
func (f Folders) writeCDI() error {
	user, mode := uint32(launcher), os.FileMode(0o660)
	spec := &specs.Spec{Kind: cdiKind}
	for _, d := range Served {
		spec.Devices = append(spec.Devices, specs.Device{Name: d.Name, ContainerEdits: specs.ContainerEdits{
			DeviceNodes: []*specs.DeviceNode{{Path: d.Path, Permissions: access, FileMode: &mode, UID: &user, GID: &user}},
		}})
	}
	var err error
	if spec.Version, err = specs.MinimumRequiredVersion(spec); err != nil { // so that older runtimes read it too
		return err
	}
	text, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		return err
	}
	return writeIfChanged(filepath.Join(f.CDI, cdiFile), append(text, '\n'))
}
