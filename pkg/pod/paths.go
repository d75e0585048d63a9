package pod

import "path"

// Paths in the launcher's container. Names of volumes are DNS labels (validation of stage 1), so that none leads elsewhere.
const (
	// Private is an empty folder of the launcher's own that lives as long as the pod: libvirt's files, overlays, sockets.
	Private = "/var/run/kiln"
	// Temporary is an empty folder for QEMU's and libvirt's temporary files.
	Temporary = "/tmp"
	// State is the folder of what outlives the pod: EFI variables, TPM state. It is mounted only if the VMI needs it.
	State = "/var/lib/kiln/state"
	// Key is the folder of the Secret with the key of the TPM's state. It is mounted only if the state is encrypted.
	Key = "/var/lib/kiln/key"
	// volumes has a folder for each volume that is mounted, devices a block device for each claim with volumeMode Block.
	volumes, devices = "/volumes", "/dev/volumes"
	// Kernel is the image of firmware.kernelBoot.
	Kernel = "/kernel"
	// secrets has a folder for each Secret that a volume refers to, credentials one for each Secret of accessCredentials.
	secrets, credentials = "/secrets", "/credentials"
)

// DiskFile is the file that a claim with a file system has the disk in, as in KubeVirt.
const DiskFile = "disk.img"

// KeyFile is the file in Key, and so the key of the Secret's data.
const KeyFile = "key"

// VolumePath returns the folder in which a volume of the VMI is mounted: the file system of a claim, the tree of an image, the files of a ConfigMap,
// Secret, serviceAccount or downwardAPI volume.
func VolumePath(volume string) string { return path.Join(volumes, volume) }

// DevicePath returns the block device of a volume whose claim has volumeMode Block.
func DevicePath(volume string) string { return path.Join(devices, volume) }

// UserDataPath and NetworkDataPath return the folders of the Secrets of a cloud-init volume: secretRef (keys userdata, userData and networkdata,
// networkData) and networkDataSecretRef.
func UserDataPath(volume string) string { return path.Join(secrets, volume, "userdata") }

// NetworkDataPath is described at UserDataPath.
func NetworkDataPath(volume string) string { return path.Join(secrets, volume, "networkdata") }

// HugePages is a file system of huge pages. It is mounted if the VMI has memory.hugepages.
const HugePages = "/dev/hugepages"
