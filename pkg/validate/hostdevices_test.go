package validate_test

const (
	displayAfterBoot = "{name: a, deviceName: e.org/d, virtualGPUOptions: {display: {ramFB: {enabled: false}}}}"
	twoMultus        = "{name: a, multus: {networkName: net}}, {name: b, multus: {networkName: m}}"
)

var gpuClaims = gates("GPUsWithDRA")

var hostdevicesCases = []testCase{
	{
		why:    "a claimed GPU after one of a plugin",
		rule:   "hostdevices/gpus-mixed",
		given:  claimed("gpus: [{name: a, deviceName: e.org/d}, {name: b, claimName: c, requestName: r}]"),
		limits: gpuClaims,
		want:   invalid("spec.domain.devices.gpus[1]"),
	},
	{
		why:    "a GPU of a plugin after a claimed one",
		rule:   "hostdevices/gpus-mixed",
		given:  claimed("gpus: [{name: a, claimName: c, requestName: r}, {name: b, deviceName: e.org/d}]"),
		limits: gpuClaims,
		want:   invalid("spec.domain.devices.gpus[1]"),
	},
	{
		why:    "GPUs of both kinds beside KubeVirt 1.8",
		rule:   "hostdevices/gpus-mixed",
		given:  claimed("gpus: [{name: a, deviceName: e.org/d}, {name: b, claimName: c, requestName: r}]"),
		limits: beside(8, "GPUsWithDRA"),
	},
	{
		why:   "GPUs of a plugin",
		rule:  "hostdevices/gpus-mixed",
		given: devices("gpus: [{name: a, deviceName: e.org/d}, {name: b, deviceName: e.org/d}]"),
	},
	{
		why:    "claimed GPUs",
		rule:   "hostdevices/gpus-mixed",
		given:  claimed("gpus: [{name: a, claimName: c, requestName: r}, {name: b, claimName: c, requestName: s}]"),
		limits: gpuClaims,
	},
	{
		why:    "a GPU without a source is refused as such alone",
		rule:   "hostdevices/gpus-mixed",
		given:  claimed("gpus: [{name: a}, {name: b, claimName: c, requestName: r}]"),
		limits: gpuClaims,
		others: []string{"hostdevices/source"},
	},
	{
		why:    "a GPU with both sources is refused as such alone",
		rule:   "hostdevices/gpus-mixed",
		given:  claimed("gpus: [{name: a, deviceName: e.org/d}, {name: b, deviceName: e.org/d, claimName: c, requestName: r}]"),
		limits: gpuClaims,
		others: []string{"hostdevices/sources"},
	},
	{
		why:   "two boot displays",
		rule:  "hostdevices/gpu-ramfb",
		given: devices("gpus: [{name: a, deviceName: e.org/d, virtualGPUOptions: {display: {}}}, {name: b, deviceName: e.org/d, virtualGPUOptions: {display: {}}}]"),
		want:  invalid("spec.domain.devices.gpus[1].virtualGPUOptions.display"),
	},
	{
		why:   "two displays, of which one shows the boot",
		rule:  "hostdevices/gpu-ramfb",
		given: devices("gpus: [" + displayAfterBoot + ", {name: b, deviceName: e.org/d, virtualGPUOptions: {display: {}}}]"),
	},
	{
		why:   "a boot display and a GPU without a display",
		rule:  "hostdevices/gpu-ramfb",
		given: devices("gpus: [{name: a, deviceName: e.org/d, virtualGPUOptions: {display: {}}}, {name: b, deviceName: e.org/d}]"),
	},
	{
		why:   "a device without the feature gate",
		rule:  "hostdevices/gate",
		given: devices("hostDevices: [{name: a, deviceName: e.org/d}]"),
		want:  forbidden("spec.domain.devices.hostDevices"),
	},
	{
		why:    "a device with the feature gate",
		rule:   "hostdevices/gate",
		given:  devices("hostDevices: [{name: a, deviceName: e.org/d}]"),
		limits: gates("HostDevices"),
	},
	{
		why:    "a device of two sources beside KubeVirt 1.7, which does not judge them",
		rule:   "hostdevices/gate",
		given:  claimed("hostDevices: [{name: a, deviceName: e.org/d, claimName: c, requestName: r}]"),
		limits: beside(7, "HostDevices"),
	},
	{
		why:   "a GPU needs no feature gate",
		rule:  "hostdevices/gate",
		given: devices("gpus: [{name: a, deviceName: e.org/d}]"),
	},
	{
		why:   "a GPU on s390x",
		rule:  "hostdevices/s390x",
		given: devicesOn("s390x", "gpus: [{name: a, deviceName: e.org/d}]"),
		want:  forbidden("spec.domain.devices.gpus[0]"),
	},
	{
		why:    "another device on s390x",
		rule:   "hostdevices/s390x",
		given:  devicesOn("s390x", "hostDevices: [{name: a, deviceName: e.org/d}]"),
		limits: gates("HostDevices"),
		want:   forbidden("spec.domain.devices.hostDevices[0]"),
	},
	{
		why:   "SR-IOV on s390x",
		rule:  "hostdevices/s390x",
		given: spec("{architecture: s390x, domain: {devices: {interfaces: [{name: a, bridge: {}}, {name: b, sriov: {}}]}}, networks: [" + twoMultus + "]}"),
		want:  forbidden("spec.domain.devices.interfaces[1]"),
	},
	{
		why:   "a bridge on s390x",
		rule:  "hostdevices/s390x",
		given: spec("{architecture: s390x, domain: {devices: {interfaces: [{name: a, bridge: {}}, {name: b, bridge: {}}]}}, networks: [" + twoMultus + "]}"),
	},
	{
		why:   "SR-IOV on amd64",
		rule:  "hostdevices/s390x",
		given: onMultus("sriov: {}"),
	},
}
