package hostresources

import (
	"encoding/json"
	"fmt"

	"github.com/kilnvm/kiln/pkg/pod"
	v1 "kubevirt.io/api/core/v1"
)

// cloudInit describes the ISO of a cloud-init volume. Secrets are mounted into the pod.
func (p *Pod) cloudInit(vmi *v1.VirtualMachineInstance, volume v1.Volume, path string) (volumeSource, error) {
	given, write := volume.CloudInitNoCloud, noCloudISO
	if drive := volume.CloudInitConfigDrive; drive != nil {
		same := v1.CloudInitNoCloudSource(*drive) // the types have the same fields
		given, write = &same, configDriveISO
	}
	data, err := inlineData(given)
	if err != nil {
		return volumeSource{}, err
	}
	if given.UserDataSecretRef != nil {
		secret, err := p.secretData(pod.UserDataPath(volume.Name))
		if err != nil {
			return volumeSource{}, fmt.Errorf("secretRef: %w", err)
		}
		if data.user = secret.user; secret.network != "" {
			data.network = secret.network
		}
	}
	if given.NetworkDataSecretRef != nil {
		secret, err := p.secretData(pod.NetworkDataPath(volume.Name))
		if err != nil {
			return volumeSource{}, fmt.Errorf("networkDataSecretRef: %w", err)
		}
		data.network = secret.network
	}
	if data.keys, err = p.cloudInitKeys(vmi, volume.CloudInitConfigDrive != nil); err != nil {
		return volumeSource{}, err
	}
	return write(path, vmi, data)
}

// secretData reads the same keys of a Secret as KubeVirt.
func (p *Pod) secretData(folder string) (data cloudData, err error) {
	tree, err := openMount(p.path(folder), "the Secret")
	if err != nil {
		return data, err
	}
	defer tree.Close()
	if data.user, err = tree.readFirst("userdata", "userData"); err != nil {
		return data, err
	}
	data.network, err = tree.readFirst("networkdata", "networkData")
	return data, err
}

// configDriveISO describes the ISO that cloud-init's ConfigDrive data source looks for: volume label 'config-2' and the files of OpenStack.
func configDriveISO(path string, vmi *v1.VirtualMachineInstance, data cloudData) (volumeSource, error) {
	about := map[string]any{"instance_id": instanceID(vmi), "hostname": hostname(vmi), "local_hostname": hostname(vmi)}
	if firmware := vmi.Spec.Domain.Firmware; firmware != nil && firmware.UUID != "" {
		about["uuid"] = string(firmware.UUID)
	}
	if len(data.keys) > 0 {
		about["public_keys"] = data.keys
	}
	metaData, err := json.Marshal(about)
	if err != nil {
		return volumeSource{}, err
	}
	files := map[string]string{"openstack/latest/meta_data.json": string(metaData), "openstack/latest/user_data": data.user}
	if data.network != "" {
		files["openstack/latest/network_data.json"] = data.network
	}
	content, err := buildISO("config-2", files)
	return isoVolume(path, content), err
}
