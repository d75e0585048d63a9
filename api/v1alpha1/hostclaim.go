package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// KindHostClaim is the kind of a HostClaim.
const KindHostClaim = "HostClaim"

// HostClaim describes the storage of a PersistentVolumeClaim on a bare machine, which lacks storage classes. A HostClaim exists only as a file of the machine's
// administrator, below the launcher's --claims. API servers do not know this kind. Folder and file name are the namespace and the name of the claim.
// +kubebuilder:skip
// +kubebuilder:object:generate=false
type HostClaim struct {
	metav1.TypeMeta `json:",inline"`
	Spec            HostClaimSpec `json:"spec"`
}

// HostClaimSpec sets exactly one of Network and LUN.
// +kubebuilder:object:generate=false
type HostClaimSpec struct {
	Network *NetworkDisk `json:"network,omitempty"`
	LUN     *HostLUN     `json:"lun,omitempty"`
	// Encrypted is true for a LUKS volume. Its passphrase is in CLAIM.luks beside the file.
	Encrypted bool `json:"encrypted,omitempty"`
}

// HostLUN is a block device that exists once its adapter does.
// +kubebuilder:object:generate=false
type HostLUN struct {
	// Path is below /dev/disk, whose names are stable.
	Path    string      `json:"path"`
	Adapter HostAdapter `json:"adapter"`
}

// HostAdapter is a virtual Fibre Channel adapter (NPIV).
// +kubebuilder:object:generate=false
type HostAdapter struct {
	// Parent is the node device of the card, such as scsi_host5.
	Parent string `json:"parent"`
	// WWNN and WWPN are its world wide names in the fabric, each of 16 hexadecimal digits.
	WWNN string `json:"wwnn"`
	WWPN string `json:"wwpn"`
}

// NetworkDisk is a disk that QEMU reaches itself.
// +kubebuilder:object:generate=false
type NetworkDisk struct {
	// Protocol is rbd, iscsi or nbd.
	Protocol string `json:"protocol"`
	// Name is the pool and image (rbd), the target and LUN such as iqn.2024-01.example:disks/1 (iscsi), or the export (nbd).
	Name string `json:"name,omitempty"`
	// Hosts are the monitors or servers.
	Hosts []NetworkHost `json:"hosts,omitempty"`
	// User authenticates with the key of the volume, on a bare machine CLAIM.key beside the file. Empty means no authentication.
	User string `json:"user,omitempty"`
}

// NetworkHost is a server: a name or address with a port, or a socket of this machine.
// +kubebuilder:object:generate=false
type NetworkHost struct {
	Name   string `json:"name,omitempty"`
	Port   string `json:"port,omitempty"`
	Socket string `json:"socket,omitempty"`
}
