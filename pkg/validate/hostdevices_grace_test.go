package validate_test

import (
	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
)

const graceSpec = `
spec:
  architecture: arm64
  domain:
    cpu: {cores: 1, dedicatedCpuPlacement: true}
    devices: {gpus: [{name: a, deviceName: example.com/grace}]}
`

var graceGates = []string{"GraceIOVirtualization", "PCINUMAAwareTopology", "IOMMUFD"}

// graceHost is a cluster with Grace GPUs, others, and a resource that stands for both. These feature gates are on.
func graceHost(names ...string) func(*config.Limits) {
	return func(limits *config.Limits) {
		gates(names...)(limits)
		limits.PermittedHostDevices = &v1.PermittedHostDevices{PciHostDevices: []v1.PciHostDevice{
			{ResourceName: "example.com/both", PCIVendorSelector: "10DE:2342"},
			{ResourceName: "example.com/both", PCIVendorSelector: "10de:1eb8"},
			{ResourceName: "example.com/both", PCIVendorSelector: "10de:2345"},
			{ResourceName: "example.com/grace", PCIVendorSelector: "10DE:2342"},
			{ResourceName: "example.com/grace", PCIVendorSelector: "10de:2941"},
			{ResourceName: "example.com/one", PCIVendorSelector: "10de:2342"},
			{ResourceName: "example.com/other", PCIVendorSelector: "10de:1eb8"},
		}}
	}
}

// unnamedGrace is a cluster where somebody forgot the name of a resource.
func unnamedGrace(limits *config.Limits) {
	gpuClaims(limits)
	limits.PermittedHostDevices = &v1.PermittedHostDevices{PciHostDevices: []v1.PciHostDevice{{PCIVendorSelector: "10de:2342"}}}
}

// graceGPU is a VMI with a Grace GPU as it has to be, and this in its spec besides.
func graceGPU(fragment string) given { return vmi(graceSpec, "spec: {"+fragment+"}") }

func annotatedGrace(name, value string) given {
	return vmi(graceSpec, "metadata: {annotations: {"+name+": '"+value+"'}}")
}

func annotationField(name string) string { return "metadata.annotations[" + name + "]" }

var hostdevicesGraceCases = []testCase{
	{
		why:    "a Grace GPU without the feature gate",
		rule:   "hostdevices/grace-gate",
		given:  graceGPU(""),
		limits: graceHost("PCINUMAAwareTopology", "IOMMUFD"),
		want:   forbidden("spec.domain.devices.gpus[0].deviceName"),
	},
	{
		why:    "a Grace GPU with the feature gate",
		rule:   "hostdevices/grace-gate",
		given:  graceGPU(""),
		limits: graceHost(graceGates...),
	},
	{
		why:    "another GPU",
		rule:   "hostdevices/grace-gate",
		given:  devices("gpus: [{name: a, deviceName: example.com/other}]"),
		limits: graceHost(),
	},
	{
		why:    "a device that no host is known to have",
		rule:   "hostdevices/grace-gate",
		given:  devices("gpus: [{name: a, deviceName: example.com/unknown}]"),
		limits: graceHost(),
	},
	{
		why:   "a Grace GPU in a cluster that permits no devices",
		rule:  "hostdevices/grace-gate",
		given: devices("gpus: [{name: a, deviceName: example.com/grace}]"),
	},
	{
		why:    "a device that is claimed has no such name",
		rule:   "hostdevices/grace-gate",
		given:  claimed("gpus: [{name: a, claimName: c, requestName: r}]"),
		limits: unnamedGrace,
	},
	{
		why:    "a resource of Grace GPUs and others",
		rule:   "hostdevices/grace-ambiguous",
		given:  graceGPU("domain: {devices: {gpus: [{name: a, deviceName: example.com/both}]}}"),
		limits: graceHost(graceGates...),
		want:   invalid("spec.domain.devices.gpus[0].deviceName"),
	},
	{
		why:    "a resource of two kinds of Grace GPUs",
		rule:   "hostdevices/grace-ambiguous",
		given:  graceGPU(""),
		limits: graceHost(graceGates...),
	},
	{
		why:    "a resource of one kind of Grace GPUs",
		rule:   "hostdevices/grace-ambiguous",
		given:  graceGPU("domain: {devices: {gpus: [{name: a, deviceName: example.com/one}]}}"),
		limits: graceHost(graceGates...),
	},
	{
		why:    "a Grace GPU on amd64",
		rule:   "hostdevices/grace-arm64",
		given:  graceGPU("architecture: amd64"),
		limits: graceHost(graceGates...),
		want:   invalid("spec.architecture"),
	},
	{
		why:    "a Grace GPU on arm64",
		rule:   "hostdevices/grace-arm64",
		given:  graceGPU(""),
		limits: graceHost(graceGates...),
	},
	{
		why:    "another GPU on amd64, besides one that is not served",
		rule:   "hostdevices/grace-arm64",
		given:  devices("gpus: [{name: a, deviceName: example.com/grace}]"),
		limits: graceHost(),
		others: []string{"hostdevices/grace-gate"},
	},
	{
		why:    "a machine that is not virt",
		rule:   "hostdevices/grace-machine",
		given:  graceGPU("domain: {machine: {type: sbsa-ref}}"),
		limits: graceHost(graceGates...),
		want:   invalid("spec.domain.machine.type"),
	},
	{
		why:    "a version of virt",
		rule:   "hostdevices/grace-machine",
		given:  graceGPU("domain: {machine: {type: virt-9.2}}"),
		limits: graceHost(graceGates...),
	},
	{
		why:    "a machine of no type",
		rule:   "hostdevices/grace-machine",
		given:  graceGPU("domain: {machine: {type: ''}}"),
		limits: graceHost(graceGates...),
	},
	{
		why:    "CPUs that are not dedicated",
		rule:   "hostdevices/grace-dedicated",
		given:  graceGPU("domain: {cpu: {dedicatedCpuPlacement: false}}"),
		limits: graceHost(graceGates...),
		want:   required("spec.domain.cpu.dedicatedCpuPlacement"),
	},
	{
		why:    "no CPUs",
		rule:   "hostdevices/grace-dedicated",
		given:  graceGPU("domain: {cpu: null}"),
		limits: graceHost(graceGates...),
		want:   required("spec.domain.cpu"),
	},
	{
		why:    "dedicated CPUs",
		rule:   "hostdevices/grace-dedicated",
		given:  graceGPU(""),
		limits: graceHost(graceGates...),
	},
	{
		why:    "no gate for the topology",
		rule:   "hostdevices/grace-needs-gates",
		given:  graceGPU(""),
		limits: graceHost("GraceIOVirtualization", "IOMMUFD"),
		want:   forbidden("spec.domain.devices"),
	},
	{
		why:    "no gate for IOMMUFD",
		rule:   "hostdevices/grace-needs-gates",
		given:  graceGPU(""),
		limits: graceHost("GraceIOVirtualization", "PCINUMAAwareTopology"),
		want:   forbidden("spec.domain.devices"),
	},
	{
		why:    "all gates",
		rule:   "hostdevices/grace-needs-gates",
		given:  graceGPU(""),
		limits: graceHost(graceGates...),
	},
	{
		why:    "no hole for its memory",
		rule:   "hostdevices/grace-annotations",
		given:  annotatedGrace(v1.DisablePCIHole64, "true"),
		limits: graceHost(graceGates...),
		want:   forbidden(annotationField(v1.DisablePCIHole64)),
	},
	{
		why:    "no root port of its own",
		rule:   "hostdevices/grace-annotations",
		given:  annotatedGrace(v1.PlacePCIDevicesOnRootComplex, "true"),
		limits: graceHost(graceGates...),
		want:   forbidden(annotationField(v1.PlacePCIDevicesOnRootComplex)),
	},
	{
		why:    "the hole is refused before the GPU is served",
		rule:   "hostdevices/grace-annotations",
		given:  annotatedGrace(v1.DisablePCIHole64, "true"),
		limits: graceHost(),
		want:   forbidden(annotationField(v1.DisablePCIHole64)),
	},
	{
		why:    "another word",
		rule:   "hostdevices/grace-annotations",
		given:  annotatedGrace(v1.DisablePCIHole64, "false"),
		limits: graceHost(graceGates...),
	},
	{
		why:    "the annotation without such a GPU",
		rule:   "hostdevices/grace-annotations",
		given:  vmi("metadata: {annotations: {kubevirt.io/disablePCIHole64: 'true'}}"),
		limits: graceHost(graceGates...),
	},
}
