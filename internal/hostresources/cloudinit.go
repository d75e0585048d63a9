package hostresources

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/kdomanski/iso9660"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// cloudData is what a cloud-init volume gives to the guest, wherever it comes from.
type cloudData struct{ user, network string }

// inlineNoCloud describes the ISO of a volume whose data is in the VMI.
func inlineNoCloud(path string, vmi *v1.VirtualMachineInstance, data *v1.CloudInitNoCloudSource) (source, error) {
	if data.UserDataSecretRef != nil || data.NetworkDataSecretRef != nil {
		return source{}, fmt.Errorf("cloud-init data from a Secret is not supported on a bare machine; use userData and networkData")
	}
	given, err := inline(data)
	if err != nil {
		return source{}, err
	}
	return noCloud(path, vmi, given)
}

// inline returns the data that a volume has in the VMI itself.
func inline(data *v1.CloudInitNoCloudSource) (given cloudData, err error) {
	if given.user, err = text(data.UserData, data.UserDataBase64); err != nil {
		return given, fmt.Errorf("userDataBase64: %w", err)
	}
	if given.network, err = text(data.NetworkData, data.NetworkDataBase64); err != nil {
		return given, fmt.Errorf("networkDataBase64: %w", err)
	}
	return given, nil
}

// noCloud describes the ISO that cloud-init's NoCloud data source looks for: volume label 'cidata' and the files meta-data,
// user-data and network-config. The instance id is the VMI's name and namespace, because a new id makes
// cloud-init run as at a first boot.
func noCloud(path string, vmi *v1.VirtualMachineInstance, data cloudData) (source, error) {
	metaData, err := yaml.Marshal(map[string]string{"instance-id": instanceID(vmi), "local-hostname": hostname(vmi)})
	if err != nil {
		return source{}, err
	}
	files := map[string]string{"meta-data": string(metaData), "user-data": data.user}
	if data.network != "" {
		files["network-config"] = data.network
	}
	content, err := iso("cidata", files)
	return image(path, content), err
}

func instanceID(vmi *v1.VirtualMachineInstance) string { return vmi.Name + "." + vmi.Namespace }

// hostname has the precedence of KubeVirt's SanitizeHostname.
func hostname(vmi *v1.VirtualMachineInstance) string {
	if vmi.Spec.Hostname != "" {
		return vmi.Spec.Hostname
	}
	name, _, _ := strings.Cut(vmi.Name, ".")
	return name
}

// image describes an ISO at path, padded to whole blocks. Its files often hold passwords.
func image(path string, content []byte) source {
	padded := make([]byte, aligned(int64(len(content))))
	copy(padded, content)
	return source{Volume: backend.Volume{Path: path, Format: "raw"}, file: file{path: path, content: padded}}
}

// text returns a field of NoCloud, which is either plain or in base64. Admission has refused a VMI with both.
func text(plain, encoded string) (string, error) {
	if plain != "" {
		return plain, nil
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	return string(raw), err
}

// iso returns equal bytes for equal files: a repeated start must not change a file that QEMU has open.
func iso(label string, files map[string]string) ([]byte, error) {
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
	for _, at := range stamps {
		copy(image.Bytes()[at:], stamp)
	}
	return image.Bytes(), nil
}

// stamps are the offsets of the times in the volume descriptor: created, modified, effective (ECMA-119, 8.4.26 to 8.4.29). The descriptor is in
// sector 16, of 2048 bytes. The times of files are empty.
var stamps = []int{16*2048 + 813, 16*2048 + 830, 16*2048 + 864}

// stamp replaces the time of the writer's clock: 1 January 2000, 0:00 UTC. It is not empty because blkid makes a UUID of it.
const stamp = "2000010100000000\x00"
