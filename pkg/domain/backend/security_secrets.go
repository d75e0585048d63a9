package backend

import (
	"crypto/sha256"
	"fmt"

	"libvirt.org/go/libvirtxml"
)

// Documents: secrets. Domains name them by UUID. The launcher gives their values to libvirt; no document has them, because documents are logged
// and compared. KubeVirt renders none. libvirt: "Secret XML format".

// Secret is a document and the name under which the host has its value.
type Secret struct {
	Document libvirtxml.Secret
	// Ref is luks/VOLUME, auth/VOLUME or vtpm.
	Ref string
}

// usages has libvirt's usage type of a secret by the protocol that needs it. nbd has none.
var usages = map[string]string{"rbd": "ceph", "iscsi": "iscsi"}

// TPM is the reference of the passphrase of a TPM's state.
const TPM = "vtpm"

// ownerName returns the name of what is made on the host for one VMI: the UID of the VMI, which the API server generates and nobody can choose. It is not
// firmware.uuid, because another tenant can write the same one. A VMI that is rendered offline has no UID; its namespace and name are used instead.
func (h *host) ownerName() string {
	if uid := string(h.VMI.UID); uid != "" {
		return uid
	}
	return derivedUUID("offline/" + h.VMI.Namespace + "/" + h.VMI.Name)
}

// secretUUID returns the UUID of a secret. It is the same at each start of one VMI, so that a second definition replaces the first.
func (h *host) secretUUID(ref string) string {
	return derivedUUID(h.ownerName() + "\x00secret/" + ref)
}

// derivedUUID hashes a text to a UUID of version 8, which RFC 9562 leaves to the application.
func derivedUUID(text string) string {
	b := sha256.Sum256([]byte(text))
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// secretDocuments returns the secrets in the order of the volumes' names. private: libvirt returns the value to no client. ephemeral: the value is never on
// disk.
func (h *host) secretDocuments() (out []Secret) {
	add := func(ref string, usage libvirtxml.SecretUsage) {
		uuid := h.secretUUID(ref)
		// libvirt requires a unique usage ID. The UUID is one, and shows nothing of the tenant.
		switch usage.Type {
		case "volume":
			usage.Volume = "kiln-" + uuid
		case "iscsi":
			usage.Target = "kiln-" + uuid
		default:
			usage.Name = "kiln-" + uuid
		}
		out = append(out, Secret{Ref: ref, Document: libvirtxml.Secret{Ephemeral: "yes", Private: "yes", UUID: uuid, Usage: &usage}})
	}
	for _, name := range sortedNames(h.Bindings.Volumes, func(v Volume) bool { return v.Encrypted || v.Network != nil }) {
		volume := h.Bindings.Volumes[name]
		if volume.Encrypted {
			add("luks/"+name, libvirtxml.SecretUsage{Type: "volume"})
		}
		if volume.Network != nil && volume.Network.User != "" {
			add("auth/"+name, libvirtxml.SecretUsage{Type: usages[volume.Network.Protocol]})
		}
	}
	if h.ownTPMSecret() && len(h.Frontend.Devices.TPMs) > 0 {
		add(TPM, libvirtxml.SecretUsage{Type: "vtpm"})
	}
	return out
}
