package validate

import (
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: resourceClaims, and claimName and requestName of domain.devices.gpus, hostDevices and networks.
// A claim is declared once, names a claim or a template, and each of its requests is used by one device.
// KubeVirt has these rules in validateResourceClaims, validateDRADevices and pairDuplicateChecker. Whether a claim exists is not
// judged: it may be created after the VM.

var claimRules = []guestRule{
	{claims, []Rule{
		{Name: "hostdevices/claim-name-given", MendedBy: byInstancetype, Since: 9},
		{Name: "hostdevices/claim-twice", MendedBy: byInstancetype, Since: 8},
		{Name: "hostdevices/claim-name", MendedBy: byInstancetype, Since: 9},
		{Name: "hostdevices/claim-source", MendedBy: byInstancetype, Since: 9},
		{Name: "hostdevices/claim-sources", MendedBy: byInstancetype, Since: 9},
		{Name: "hostdevices/claim-resource", MendedBy: byInstancetype, Since: 9},
		{Name: "hostdevices/claim-template", MendedBy: byInstancetype, Since: 9},
	}},
	{claimPairs, []Rule{
		{Name: "hostdevices/request-twice", MendedBy: byInstancetype, Since: 8},
		{Name: "hostdevices/claim-undeclared", MendedBy: byInstancetype},
	}},
}

// claims requires the names that Kubernetes requires of a pod's resourceClaims, where the list goes unchanged.
func claims(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	seen := map[string]bool{}
	for i, claim := range spec.ResourceClaims {
		at := path.Child("resourceClaims").Index(i)
		switch {
		case claim.Name == "":
			errs = append(errs, field.Required(at.Child("name"), "give the claim a name").WithOrigin("hostdevices/claim-name-given"))
		case seen[claim.Name]:
			errs = append(errs, field.Duplicate(at.Child("name"), claim.Name).WithOrigin("hostdevices/claim-twice"))
		default:
			errs = append(errs, named(at.Child("name"), claim.Name, validation.IsDNS1123Label).WithOrigin("hostdevices/claim-name")...)
		}
		seen[claim.Name] = true
		// Pointers tell which of the two is given: an empty name is a mistake of that one.
		switch direct, template := claim.ResourceClaimName, claim.ResourceClaimTemplateName; {
		case direct == nil && template == nil:
			errs = append(errs, field.Required(at, "give resourceClaimName or resourceClaimTemplateName").WithOrigin("hostdevices/claim-source"))
		case direct != nil && template != nil:
			errs = append(errs, field.Forbidden(at.Child("resourceClaimTemplateName"),
				"cannot be combined with resourceClaimName: remove one of them").WithOrigin("hostdevices/claim-sources"))
		case direct != nil:
			errs = append(errs, named(at.Child("resourceClaimName"), *direct, validation.IsDNS1123Subdomain).WithOrigin("hostdevices/claim-resource")...)
		default:
			errs = append(errs, named(at.Child("resourceClaimTemplateName"), *template, validation.IsDNS1123Subdomain).WithOrigin("hostdevices/claim-template")...)
		}
	}
	return errs
}

// deviceSources requires one source for each device, with names that the API server takes in the pod.
// A device whose gate is off is judged no further: without the gate nothing reads its claim.
func deviceSources(devices []passed, limits config.Limits, gate string) (errs field.ErrorList) {
	for _, d := range devices {
		switch {
		case d.deviceName == "" && d.claim == nil:
			errs = append(errs, field.Required(d.at, "give deviceName, or claimName and requestName").WithOrigin("hostdevices/source"))
		case d.deviceName != "" && d.claim != nil:
			errs = append(errs, field.Forbidden(d.at.Child("deviceName"),
				"cannot be combined with claimName and requestName: remove one of them").WithOrigin("hostdevices/sources"))
		case d.deviceName != "":
			errs = append(errs, deviceNamed(d.at, d.deviceName).WithOrigin("hostdevices/device-name")...)
		}
		if d.claim == nil {
			continue
		}
		if !limits.Gates.Enabled(gate) {
			errs = append(errs, gated(limits, gate, d.at).WithOrigin("hostdevices/claim-gate")...)
			continue
		}
		if d.claim.ClaimName == "" {
			errs = append(errs, field.Required(d.at.Child("claimName"), "name an entry of resourceClaims").WithOrigin("hostdevices/request-claim"))
		}
		if d.claim.RequestName == "" {
			errs = append(errs, field.Required(d.at.Child("requestName"), "name the request in the claim").WithOrigin("hostdevices/request-name"))
		} else {
			errs = append(errs, requestNamed(d.at, d.claim.RequestName).WithOrigin("hostdevices/request-form")...)
		}
	}
	return errs
}

// deviceNamed refuses the deviceName of a device, at its path, if no device plugin can have a resource of that name.
func deviceNamed(at *field.Path, name string) field.ErrorList {
	if wrong := wrongDeviceName(name); wrong != "" {
		return field.ErrorList{field.Invalid(at.Child("deviceName"), name, wrong)}
	}
	return nil
}

// requestNamed refuses the requestName of a device or network, at its path, if no claim can have a request of that name.
func requestNamed(at *field.Path, name string) field.ErrorList {
	return named(at.Child("requestName"), name, validation.IsDNS1123Label)
}

// isComplete reports whether a device has claimName and requestName, and no deviceName.
func (d passed) isComplete() bool {
	return d.deviceName == "" && d.claim != nil && d.claim.ClaimName != "" && d.claim.RequestName != ""
}

// claimPairs refuses two devices with the same request of a claim, which is one device, and claims that are not declared.
// KubeVirt compares pairs through a map, so its errors come in random order; here the later device is reported. A claim that several
// devices lack is reported once. KubeVirt 1.8 looks for pairs within each list.
func claimPairs(spec *v1.VirtualMachineInstanceSpec, limits config.Limits, path *field.Path) (errs field.ErrorList) {
	declared := map[string]bool{}
	for _, claim := range spec.ResourceClaims {
		declared[claim.Name] = true
	}
	// used has the path of the first device or network with a request.
	used := map[v1.ClaimRequest]string{}
	check := func(claim *v1.ClaimRequest, at *field.Path) {
		if claim == nil || claim.ClaimName == "" || claim.RequestName == "" {
			return
		}
		if by := used[*claim]; by != "" {
			errs = append(errs, field.Duplicate(at,
				fmt.Sprintf("claim '%s' request '%s', already used by %s", claim.ClaimName, claim.RequestName, by)).WithOrigin("hostdevices/request-twice"))
			return
		}
		used[*claim] = at.String()
	}
	// A device whose gate is off was refused for that by deviceSources.
	var lists [2][]passed
	if limits.Gates.Enabled("GPUsWithDRA") {
		lists[0] = gpuList(spec, path)
	}
	if limits.Gates.Enabled("HostDevicesWithDRA") && judgesHostDevices(limits) {
		lists[1] = hostDeviceList(spec, path)
	}
	for _, list := range lists {
		for _, d := range list {
			check(d.claim, d.at)
		}
		if limits.Version.Nearest() < 9 {
			clear(used)
		}
	}
	missing := map[string]bool{}
	for _, d := range slices.Concat(lists[0], lists[1]) {
		if d.isComplete() && !declared[d.claim.ClaimName] && !missing[d.claim.ClaimName] {
			missing[d.claim.ClaimName] = true
			errs = append(errs, field.Required(path.Child("resourceClaims"),
				fmt.Sprintf("declare claim '%s', which %s uses", d.claim.ClaimName, d.at)).WithOrigin("hostdevices/claim-undeclared"))
		}
	}
	for i, network := range spec.Networks {
		if network.ResourceClaim != nil {
			check(network.ResourceClaim, path.Child("networks").Index(i).Child("resourceClaim"))
		}
	}
	return errs
}
