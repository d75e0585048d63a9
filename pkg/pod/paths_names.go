package pod

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

// Names are a prefix and a name of the tenant's. One that would be too long is cut and ends in a digest of the whole. All names above a length are cut,
// also those that would just fit: so no name that is kept equals a name that was cut, whatever a tenant chooses.
const (
	digestLength = 16
	// longestName leaves kubelet's folder of a pod's logs, NAMESPACE_NAME_UID, within the 255 bytes of a file name.
	longestName = 150
	// longestVolume is the length of a DNS label, because a name of a pod's volume is one.
	longestVolume = 63
)

// namePrefix begins the names of what belongs to one guest's pod: pod, service account, Role and RoleBinding.
const namePrefix = "guest-"

// Name returns the name of the pod of a VMI, and of the service account, the Role and the RoleBinding of its launcher. A name that would be too long
// is cut and ends in a digest of the whole.
func Name(vmi string) string { return fitName(namePrefix+vmi, longestName) }

// volumeName returns the name of a pod's volume for a volume of the VMI. Prefixes hold no hyphen, and Kiln's own volumes have names without a hyphen:
// names of different prefixes are different.
func volumeName(prefix, volume string) string { return fitName(prefix+"-"+volume, longestVolume) }

// fitName returns a name as it is, or cut to exactly most bytes.
func fitName(name string, most int) string {
	kept := most - digestLength - 1
	if len(name) < kept {
		return name
	}
	cut := name[:kept]
	if strings.HasSuffix(cut, ".") { // a label of a DNS name begins with a letter or a digit, not with the hyphen that follows
		cut = cut[:kept-1] + "-"
	}
	return cut + "-" + digestOf(name)
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:digestLength])
}
