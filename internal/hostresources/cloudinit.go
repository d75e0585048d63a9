package hostresources

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/kdomanski/iso9660"
	"github.com/kilnvm/kiln/pkg/baremachine"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// cloudData is the content of a cloud-init volume.
type cloudData struct {
	user, network string
	// keys are SSH keys for cloud-init's default user by names without a meaning, as in KubeVirt.
	keys map[string]string
}

// inlineNoCloud describes the ISO of a volume whose data is in the VMI's spec.
func inlineNoCloud(path string, vmi *v1.VirtualMachineInstance, data *v1.CloudInitNoCloudSource) (volumeSource, error) {
	if data.UserDataSecretRef != nil || data.NetworkDataSecretRef != nil {
		return volumeSource{}, errors.New(baremachine.SecretDataReason)
	}
	given, err := inlineData(data)
	if err != nil {
		return volumeSource{}, err
	}
	return noCloudISO(path, vmi, given)
}

// inlineData returns the data of a volume that is in the VMI's spec.
func inlineData(data *v1.CloudInitNoCloudSource) (given cloudData, err error) {
	if given.user, err = plainOrBase64(data.UserData, data.UserDataBase64); err != nil {
		return given, fmt.Errorf("userDataBase64: %w", err)
	}
	if given.network, err = plainOrBase64(data.NetworkData, data.NetworkDataBase64); err != nil {
		return given, fmt.Errorf("networkDataBase64: %w", err)
	}
	return given, nil
}

// noCloudISO describes the ISO that cloud-init's NoCloud data source looks for: volume label 'cidata' and the files meta-data, user-data and network-config.
// The instance id is the VMI's name and namespace, because a new id makes cloud-init run as at a first boot.
func noCloudISO(path string, vmi *v1.VirtualMachineInstance, data cloudData) (volumeSource, error) {
	about := map[string]any{"instance-id": instanceID(vmi), "local-hostname": hostname(vmi)}
	if len(data.keys) > 0 {
		about["public-keys"] = data.keys
	}
	metaData, err := yaml.Marshal(about)
	if err != nil {
		return volumeSource{}, err
	}
	files := map[string]string{"meta-data": string(metaData), "user-data": data.user}
	if data.network != "" {
		files["network-config"] = data.network
	}
	content, err := buildISO("cidata", files)
	return isoVolume(path, content), err
}

func instanceID(vmi *v1.VirtualMachineInstance) string { return vmi.Name + "." + vmi.Namespace }

// hostname follows KubeVirt's SanitizeHostname.
func hostname(vmi *v1.VirtualMachineInstance) string {
	if vmi.Spec.Hostname != "" {
		return vmi.Spec.Hostname
	}
	name, _, _ := strings.Cut(vmi.Name, ".")
	return name
}

// isoVolume describes an ISO at path, padded to whole blocks. Its files often hold passwords.
func isoVolume(path string, content []byte) volumeSource {
	padded := make([]byte, roundUpToBlock(int64(len(content))))
	copy(padded, content)
	return volumeSource{Volume: backend.Volume{Path: path, Format: "raw"}, file: file{path: path, content: padded}}
}

// plainOrBase64 returns a field of NoCloud, which is either plain or in base64. Admission has refused a VMI with both.
func plainOrBase64(plain, encoded string) (string, error) {
	if plain != "" {
		return plain, nil
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	return string(raw), err
}

// buildISO returns an ISO of files. Equal files give equal bytes, because a repeated start must not change a file that QEMU has open.
func buildISO(label string, files map[string]string) ([]byte, error) {
	writer, err := iso9660.NewWriter()
	if err != nil {
		return nil, err
	}
	defer writer.Cleanup() //nolint:errcheck // its temporary folder; nothing to do about it
	for name, content := range files {
		if err := writer.AddFile(strings.NewReader(content), name); err != nil {
			return nil, err
		}
	}
	var image bytes.Buffer
	if err := writer.WriteTo(&image, label); err != nil {
		return nil, err
	}
	for _, at := range timestampOffsets {
		copy(image.Bytes()[at:], fixedTimestamp)
	}
	return image.Bytes(), nil
}

// timestampOffsets are the offsets of the times in the volume descriptor: created, modified, effective (ECMA-119, 8.4.26 to 8.4.29). The descriptor is in
// sector 16, of 2048 bytes. The times of files are empty.
var timestampOffsets = []int{16*2048 + 813, 16*2048 + 830, 16*2048 + 864}

// fixedTimestamp replaces the current time: 1 January 2000, 0:00 UTC. It is not empty because blkid derives a UUID from it.
const fixedTimestamp = "2000010100000000\x00"
