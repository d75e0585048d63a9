package instancetype

import (
	"github.com/kilnvm/kiln/pkg/internal/filled"
	"k8s.io/apimachinery/pkg/api/equality"
	v1 "kubevirt.io/api/core/v1"
)

// Field of an instancetype: launchSecurity, deprecated there. Field of a preference: preferredLaunchSecurity, which replaces it.

// ownedSecurityFields returns the owned field of applyLaunchSecurity.
func ownedSecurityFields(set Set, vmi *v1.VirtualMachineInstance) []ownedField {
	wanted, given := set.Instancetype.Spec.LaunchSecurity, vmi.Spec.Domain.LaunchSecurity
	if wanted == nil || given == nil {
		return nil
	}
	return []ownedField{{field: "spec.domain.launchSecurity", given: "set", same: equality.Semantic.DeepEqual(wanted, given)}}
}

func applySecurity(set Set, vmi *v1.VirtualMachineInstance, log *filled.Log) {
	fillCopy(log, &vmi.Spec.Domain.LaunchSecurity, set.Instancetype.Spec.LaunchSecurity)
}

func preferSecurity(p *Preference, vmi *v1.VirtualMachineInstance, log *filled.Log) {
	fillCopy(log, &vmi.Spec.Domain.LaunchSecurity, p.Spec.PreferredLaunchSecurity)
}
