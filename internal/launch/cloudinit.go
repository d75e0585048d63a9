package launch

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kdomanski/iso9660"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// noCloud writes the ISO that cloud-init's NoCloud data source looks for: volume label 'cidata' and the files meta-data,
// user-data and network-config. The instance id is the VMI's name and namespace, so that a restart is not a first boot.
func noCloud(file string, vmi *v1.VirtualMachineInstance, source *v1.CloudInitNoCloudSource) error {
	if source.UserDataSecretRef != nil || source.NetworkDataSecretRef != nil {
		return fmt.Errorf("cloud-init data in a Secret is not served on a bare machine; put it into the manifest")
	}
	userData, err := text(source.UserData, source.UserDataBase64)
	if err != nil {
		return fmt.Errorf("userDataBase64: %w", err)
	}
	networkData, err := text(source.NetworkData, source.NetworkDataBase64)
	if err != nil {
		return fmt.Errorf("networkDataBase64: %w", err)
	}
	hostname := vmi.Spec.Hostname
	if hostname == "" {
		hostname, _, _ = strings.Cut(vmi.Name, ".")
	}
	metaData, err := yaml.Marshal(map[string]string{"instance-id": vmi.Name + "." + vmi.Namespace, "local-hostname": hostname})
	if err != nil {
		return err
	}
	files := map[string]string{"meta-data": string(metaData), "user-data": userData}
	if networkData != "" {
		files["network-config"] = networkData
	}
	return writeISO(file, "cidata", files)
}

func text(plain, encoded string) (string, error) {
	if plain != "" {
		return plain, nil
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	return string(raw), err
}

func writeISO(file, label string, files map[string]string) error {
	writer, err := iso9660.NewWriter()
	if err != nil {
		return err
	}
	defer writer.Cleanup() //nolint:errcheck // its temporary folder; nothing to do about it
	for name, content := range files {
		if err := writer.AddFile(strings.NewReader(content), name); err != nil {
			return err
		}
	}
	out, err := os.OpenFile(file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600) // user data often holds a password
	if err != nil {
		return err
	}
	if err := writer.WriteTo(out, label); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

// bindIgnition puts the configuration of Ignition, which often holds a password, where only root and libvirt's guests may read.
func bindIgnition(vmi *v1.VirtualMachineInstance, dir string, bindings *backend.Bindings) error {
	data := vmi.Annotations[v1.IgnitionAnnotation]
	if data == "" {
		return nil
	}
	file := filepath.Join(dir, "ignition.json")
	bindings.FirmwareFiles = map[string]string{abi.Ignition: file}
	return os.WriteFile(file, []byte(data), 0o600)
}
