package validate_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// testCase is an object and what one rule says of it. Each rule has a case that it refuses and the nearest legal one; a boundary has a
// case on both sides.
type testCase struct {
	// why the object is refused, or legal.
	why string
	// rule is the name of the rule that the case is about.
	rule string
	// given is the object: a legal one, changed by a fragment. See objects_test.go.
	given given
	// limits changes the limits of a cluster that configures nothing.
	limits func(*config.Limits)
	// want are the errors of the rule, in their order. None says that the object is legal: no rule refuses it.
	want []refusal
	// others are the rules that refuse a legal object all the same, because nothing nearer is legal.
	others []string
}

// given judges an object in a cluster of these limits.
type given func(testing.TB, config.Limits) field.ErrorList

// tables are the cases, by the file that they are about.
var tables = map[string][]testCase{
	"catalog":              catalogCases,
	"clock":                clockCases,
	"cpu":                  slices.Concat(cpuCases, cpuDedicatedCases, cpuNUMACases),
	"cpu_numa_nodes":       cpuNUMANodesCases,
	"devices":              slices.Concat(devicesCases, devicesWatchdogCases),
	"devices_architecture": devicesArchitectureCases,
	"devices_names":        devicesNamesCases,
	"disks":                slices.Concat(disksCases, disksBusesCases),
	"disks_blocksize":      disksBlockSizeCases,
	"disks_cloudinit":      disksCloudInitCases,
	"disks_drivers":        disksDriversCases,
	"disks_references":     disksReferencesCases,
	"disks_requests":       disksRequestsCases,
	"disks_sources":        slices.Concat(disksVolumeNamesCases, disksSourcesCases),
	"disks_templates":      disksTemplatesCases,
	"disks_volumes":        slices.Concat(disksVolumesCases, disksVolumeUseCases),
	"embedded":             embeddedCases,
	"features":             featuresCases,
	"firmware":             slices.Concat(firmwareCases, firmwareKernelCases),
	"hostdevices":          hostdevicesCases,
	"hostdevices_claims":   slices.Concat(hostdevicesClaimsCases, hostdevicesRequestsCases),
	"hostdevices_grace":    hostdevicesGraceCases,
	"iothreads":            iothreadsCases,
	"machine":              machineCases,
	"networks":             slices.Concat(networksCases, networksClaimsCases),
	"networks_addresses":   networksAddressesCases,
	"networks_dhcp":        networksDHCPCases,
	"networks_interfaces":  slices.Concat(networksInterfacesCases, networksBindingsCases),
	"networks_ports":       slices.Concat(networksPortsCases, networksRangesCases),
	"kubevirt":             kubeVirtCases,
	"memory":               memoryCases,
	"memory_growth":        memoryGrowthCases,
	"counts":               countsCases,
	"counts_quantities":    countsQuantitiesCases,
	"scheduling":           schedulingCases,
	"scheduling_affinity":  slices.Concat(affinityCases, podAffinityCases),
	"scheduling_dns":       dnsCases,
	"security_record":      securityRecordCases,
	"resources":            resourcesCases,
	"resources_others":     resourcesOthersCases,
	"security":             securityCases,
	"security_credentials": securityCredentialsCases,
	"security_metadata":    securityMetadataCases,
	"updates":              slices.Concat(updatesCases, updatesStatusCases),
	"vm":                   vmCases,
	"vm_names":             vmNamesCases,
	"vm_state":             vmStateCases,
}

func TestCases(t *testing.T) {
	for file, cases := range tables {
		t.Run(file, func(t *testing.T) {
			for _, c := range cases {
				t.Run(c.rule+"/"+c.why, c.run)
			}
		})
	}
}

func (c testCase) run(t *testing.T) {
	limits := config.Default().Limits
	if c.limits != nil {
		c.limits(&limits)
	}
	var got []refusal
	var others []string
	for _, err := range c.given(t, limits) {
		if err.Origin == c.rule {
			got = append(got, refusal{err.Type, err.Field})
		} else if !slices.Contains(others, err.Origin) {
			others = append(others, err.Origin)
		}
	}
	if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("rule '%s' answers otherwise (-want +got):\n%s", c.rule, diff)
	}
	if len(c.want) > 0 {
		return
	}
	slices.Sort(others)
	if diff := cmp.Diff(c.others, others, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("other rules refuse an object that is to be legal (-want +got):\n%s", diff)
	}
}

// refusal is what is compared of an error: its text is the corpus' to show.
type refusal struct {
	Type  field.ErrorType
	Field string
}

func refusals(kind field.ErrorType, fields []string) (list []refusal) {
	for _, f := range fields {
		list = append(list, refusal{kind, f})
	}
	return list
}

func invalid(fields ...string) []refusal      { return refusals(field.ErrorTypeInvalid, fields) }
func required(fields ...string) []refusal     { return refusals(field.ErrorTypeRequired, fields) }
func forbidden(fields ...string) []refusal    { return refusals(field.ErrorTypeForbidden, fields) }
func notSupported(fields ...string) []refusal { return refusals(field.ErrorTypeNotSupported, fields) }
func duplicate(fields ...string) []refusal    { return refusals(field.ErrorTypeDuplicate, fields) }
func notFound(fields ...string) []refusal     { return refusals(field.ErrorTypeNotFound, fields) }
func tooLong(fields ...string) []refusal      { return refusals(field.ErrorTypeTooLong, fields) }
func tooMany(fields ...string) []refusal      { return refusals(field.ErrorTypeTooMany, fields) }

// gates switches feature gates on; a name that begins with '-' switches one off.
func gates(names ...string) func(*config.Limits) {
	return func(limits *config.Limits) {
		for _, name := range names {
			gate, off := strings.CutPrefix(name, "-")
			limits.Gates[gate] = !off
		}
	}
}

// staged is a cluster where changes of a VM wait for its next start, liveUpdate one where memory and CPUs do not.
func staged(limits *config.Limits) { limits.LiveUpdate = nil }

func liveUpdate(limits *config.Limits) { limits.LiveUpdate = &config.LiveUpdate{} }

// beside are the limits of a version of KubeVirt, in a cluster that lists these gates.
func beside(version config.Version, gates ...string) func(*config.Limits) {
	return func(limits *config.Limits) {
		cluster, _ := version.FromKubeVirt(v1.KubeVirtConfiguration{DeveloperConfiguration: &v1.DeveloperConfiguration{FeatureGates: gates}})
		*limits = cluster.Limits
	}
}

// machines are the patterns of machine types that guests of any architecture may have.
func machines(patterns ...string) func(*config.Limits) {
	return func(limits *config.Limits) {
		limits.EmulatedMachines = map[string][]string{"amd64": patterns, "arm64": patterns, "s390x": patterns}
	}
}
