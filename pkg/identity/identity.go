// Package identity derives the firmware UUID, serial, MAC addresses and generation ID of a VMI from the seed of its VM.
package identity

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/record"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
)

// DomainName returns the name of a VMI's libvirt domain, in KubeVirt's form. Namespaces and names of VMIs never have an underscore.
func DomainName(namespace, name string) string { return namespace + "_" + name }

// OfDomain returns the VMI whose domain has this name. It reports false for a name that no VMI's domain can have.
func OfDomain(domain string) (types.NamespacedName, bool) {
	namespace, name, found := strings.Cut(domain, "_")
	return types.NamespacedName{Namespace: namespace, Name: name}, found && namespace != "" && name != "" && !strings.Contains(name, "_")
}

// Seed returns the seed of a VMI: the seed of its VM, else its UID, else namespace and name of a VMI that no cluster has.
func Seed(vmi *v1.VirtualMachineInstance) string {
	return cmp.Or(vmi.Annotations[v1alpha1.AnnotationIdentity], string(vmi.UID), vmi.Namespace+"/"+vmi.Name)
}

// serialPurpose tells the serial number from other values of one seed.
const serialPurpose = "firmware.serial"

// Fill derives firmware UUID, serial and MAC addresses that are unset from the seed. The same seed gives the same values, so that a guest that is restored, or
// re-created from Git with its seed, is the same machine to its licences and its network. Values that the user set stay.
func Fill(vmi *v1.VirtualMachineInstance, seed string) {
	domain := &vmi.Spec.Domain
	if domain.Firmware == nil {
		domain.Firmware = &v1.Firmware{}
	}
	if domain.Firmware.UUID == "" {
		domain.Firmware.UUID = types.UID(derivedUUID(seed, "firmware.uuid"))
	}
	if domain.Firmware.Serial == "" {
		domain.Firmware.Serial = derivedUUID(seed, serialPurpose)
	}
	for i := range domain.Devices.Interfaces {
		if nic := &domain.Devices.Interfaces[i]; nic.MacAddress == "" {
			nic.MacAddress = derivedMAC(seed, nic.Name)
		}
	}
}

// HasDerivedSerial reports whether the serial of a VMI is the serial that Fill derives from its seed, or unset: nobody wrote it.
func HasDerivedSerial(vmi *v1.VirtualMachineInstance) bool {
	firmware := vmi.Spec.Domain.Firmware
	return firmware == nil || firmware.Serial == "" || firmware.Serial == derivedUUID(Seed(vmi), serialPurpose)
}

// Complete reports whether all values are set that Fill and Recall would fill.
func Complete(vmi *v1.VirtualMachineInstance) bool {
	firmware := vmi.Spec.Domain.Firmware
	return firmware != nil && firmware.UUID != "" && firmware.Serial != "" &&
		!slices.ContainsFunc(vmi.Spec.Domain.Devices.Interfaces, func(nic v1.Interface) bool { return nic.MacAddress == "" })
}

// Recall takes firmware UUID, serial and MAC addresses that are unset from the record of an earlier boot. If it is called before Fill, the record wins over a
// seed that was changed or lost since the boot. Values that the user set stay.
func Recall(vmi *v1.VirtualMachineInstance, record *record.Record) {
	domain := &vmi.Spec.Domain
	if domain.Firmware == nil && (record.UUID != "" || record.Serial != "") {
		domain.Firmware = &v1.Firmware{}
	}
	if firmware := domain.Firmware; firmware != nil {
		firmware.UUID = cmp.Or(firmware.UUID, types.UID(record.UUID))
		firmware.Serial = cmp.Or(firmware.Serial, record.Serial)
	}
	for i := range domain.Devices.Interfaces {
		nic := &domain.Devices.Interfaces[i]
		nic.MacAddress = cmp.Or(nic.MacAddress, record.MACs[nic.Name])
	}
}

// restoredAnnotation is the annotation that KubeVirt's restore controller writes on a VM whose disks it has replaced.
const restoredAnnotation = "restore.kubevirt.io/lastRestoreUID"

// Generation returns a text that changes when the disks of a VM go back in time. A VM that is restored from a backup, cloned or created again has another
// UID. A restore in place leaves an annotation, or the owner writes one.
func Generation(vm *v1.VirtualMachine) string {
	return strings.Trim(strings.Join([]string{string(vm.UID), vm.Annotations[restoredAnnotation], vm.Annotations[v1alpha1.AnnotationGeneration]}, "/"), "/")
}

// GenerationID returns the GUID by which a guest detects that it was restored or cloned. It does not change at restarts, on any host. A change without need
// costs a guest little, but a GUID that stays after a restore makes it repeat what must be unique.
func GenerationID(vmi *v1.VirtualMachineInstance) string {
	life := vmi.Annotations[v1alpha1.AnnotationGeneration]
	if owner := metav1.GetControllerOf(vmi); life == "" && owner != nil && owner.Kind == v1.VirtualMachineGroupVersionKind.Kind {
		life = string(owner.UID) // the controller is not Kiln's, and makes a VMI with another UID at each start
	}
	return derivedUUID(string(vmi.Spec.Domain.Firmware.UUID)+"\x00"+cmp.Or(life, string(vmi.UID)), "generation")
}

// derivedUUID returns a UUID of version 8 (RFC 9562: custom derivation).
func derivedUUID(seed, purpose string) string {
	b := seedDigest(seed, purpose)
	b[6] = b[6]&0x0f | 0x80
	b[8] = b[8]&0x3f | 0x80
	text := []byte("00000000-0000-0000-0000-000000000000")
	hex.Encode(text, b[:4])
	hex.Encode(text[9:], b[4:6])
	hex.Encode(text[14:], b[6:8])
	hex.Encode(text[19:], b[8:10])
	hex.Encode(text[24:], b[10:16])
	return string(text)
}

// derivedMAC returns a locally administered unicast address. With its 46 free bits the probability of a clash in a network of 10,000 NICs is about one in a
// million.
func derivedMAC(seed, nic string) string {
	b := seedDigest(seed, "mac/"+nic)
	b[0] = b[0]&0xfc | 0x02
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3], b[4], b[5])
}

func seedDigest(seed, purpose string) [sha256.Size]byte {
	var few [128]byte // on the stack
	return sha256.Sum256(append(append(append(few[:0], seed...), 0), purpose...))
}
