package validate

import (
	"encoding/base64"

	"github.com/kilnvm/kiln/pkg/config"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: volumes[].cloudInitNoCloud, volumes[].cloudInitConfigDrive.
// User data and network data each have one source; large data goes into a Secret.
// The rules are part of KubeVirt's validateVolumes. They are the same for both formats.

var cloudInitRules = []guestRule{
	{cloudInits, []Rule{
		{Name: "disks/cloudinit-empty"},
		{Name: "disks/cloudinit-sources"},
		{Name: "disks/cloudinit-base64"},
		{Name: "disks/cloudinit-length"},
	}},
}

// cloudInitLimit is KubeVirt's limit of inline data in bytes. Inline data is stored with every copy of the spec and is readable to
// everyone who may read VMs.
const cloudInitLimit = 2048

// cloudInit has the fields that both formats share.
type cloudInit struct {
	secret                       *corev1.LocalObjectReference
	base64, text                 string
	secretField, encoded, inline string
}

// cloudInitOf returns the volume's source of cloud-init, its user data and its network data; an empty source if it has none. A volume with both formats has two
// sources, which rule disks/volume-sources refuses; of these the first is returned.
func cloudInitOf(v *v1.Volume) (source string, user, network cloudInit) {
	var s v1.CloudInitNoCloudSource
	switch {
	case v.CloudInitNoCloud != nil:
		source, s = "cloudInitNoCloud", *v.CloudInitNoCloud
	case v.CloudInitConfigDrive != nil:
		source, s = "cloudInitConfigDrive", v1.CloudInitNoCloudSource(*v.CloudInitConfigDrive)
	}
	return source, cloudInit{s.UserDataSecretRef, s.UserDataBase64, s.UserData, "secretRef", "userDataBase64", "userData"},
		cloudInit{s.NetworkDataSecretRef, s.NetworkDataBase64, s.NetworkData, "networkDataSecretRef", "networkDataBase64", "networkData"}
}

// cloudInits judges the cloud-init source of each volume.
func cloudInits(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	for i := range spec.Volumes {
		if source, user, network := cloudInitOf(&spec.Volumes[i]); source != "" {
			errs = append(errs, cloudInitData(below(path.Child("volumes"), i, source), user, network)...)
		}
	}
	return errs
}

// cloudInitData refuses a volume that carries nothing.
func cloudInitData(at *field.Path, user, network cloudInit) field.ErrorList {
	errs := append(user.judgeData(at), network.judgeData(at)...)
	if !user.isGiven() && !network.isGiven() {
		errs = append(errs, field.Required(at, "give user data or network data, for example userData").WithOrigin("disks/cloudinit-empty"))
	}
	return errs
}

// isGiven reports whether any source is set. A reference without a name does not count, as in KubeVirt.
func (c cloudInit) isGiven() bool {
	return c.secret != nil && c.secret.Name != "" || c.base64 != "" || c.text != ""
}

// judgeData counts decoded bytes: base64 is a third longer than its data. The data itself is never in the error, because it may hold
// passwords.
func (c cloudInit) judgeData(at *field.Path) (errs field.ErrorList) {
	var set []string
	if c.text != "" {
		set = append(set, c.inline)
	}
	if c.base64 != "" {
		set = append(set, c.encoded)
	}
	if c.secret != nil && c.secret.Name != "" {
		set = append(set, c.secretField)
	}
	if len(set) > 1 {
		errs = append(errs, field.Forbidden(at.Child(set[1]), "cannot be combined with "+set[0]+": keep one of them").WithOrigin("disks/cloudinit-sources"))
	}
	size, name := len(c.text), c.inline
	if c.base64 != "" {
		data, err := base64.StdEncoding.DecodeString(c.base64)
		if err != nil {
			return append(errs, field.Invalid(at.Child(c.encoded), short(c.base64), "must be base64: "+err.Error()).WithOrigin("disks/cloudinit-base64"))
		}
		if len(data) > size {
			size, name = len(data), c.encoded
		}
	}
	if size > cloudInitLimit {
		errs = append(errs, field.TooLong(at.Child(name), "", cloudInitLimit).WithOrigin("disks/cloudinit-length"))
	}
	return errs
}
