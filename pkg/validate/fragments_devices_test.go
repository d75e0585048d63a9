package validate_test

import (
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/pkg/config"
)

// devices is a VMI with these devices, devicesOn one of an architecture.
func devices(fragment string) given { return devicesOn("amd64", fragment) }

func devicesOn(architecture, fragment string) given {
	return spec("{architecture: " + architecture + ", domain: {devices: {" + fragment + "}}}")
}

// disk is a VMI with a disk that has a claim for its volume, diskOn one of an architecture.
func disk(fragment string) given { return diskOn("amd64", fragment) }

func diskOn(architecture, fragment string) given {
	return spec("{architecture: " + architecture + ", domain: {devices: {disks: [{name: a, " + fragment + "}]}}, " +
		"volumes: [{name: a, persistentVolumeClaim: {claimName: a}}]}")
}

// volume is a VMI with a disk that has this for its volume.
func volume(fragment string) given { return attached("disks: [{name: a}]", "{name: a, "+fragment+"}") }

// attached is a VMI with these devices and volumes.
func attached(devices, volumes string) given {
	return spec("{domain: {devices: {" + devices + "}}, volumes: [" + volumes + "]}")
}

// nics is a VMI with these interfaces and networks.
func nics(interfaces, networks string) given {
	return spec("{domain: {devices: {interfaces: [" + interfaces + "]}}, networks: [" + networks + "]}")
}

// onPod is a VMI with an interface on the pod's network, onMultus one with an interface on another.
func onPod(fragment string) given { return nics("{name: a, "+fragment+"}", "{name: a, pod: {}}") }

func onMultus(fragment string) given {
	return nics("{name: a, "+fragment+"}", "{name: a, multus: {networkName: net}}")
}

// ranges are as many ranges of ports.
func ranges(count int) string {
	var list []string
	for i := range count {
		list = append(list, fmt.Sprintf("{protocol: TCP, start: %d, end: %d}", i+1, i+1))
	}
	return "masquerade: {}, portRanges: [" + strings.Join(list, ", ") + "]"
}

// claiming is a VMI with an interface and a network, and with a claim for devices.
func claiming(nic, network string) given {
	return spec("{domain: {devices: {interfaces: [{name: a, " + nic + "}]}}, networks: [{name: a, " + network + "}], " +
		"resourceClaims: [{name: c, resourceClaimName: x}]}")
}

// claimed is a VMI with these devices, and with a claim for them.
func claimed(fragment string) given {
	return spec("{domain: {devices: {" + fragment + "}}, resourceClaims: [{name: c, resourceClaimName: x}]}")
}

// noBridge is a cluster whose pod network allows none.
func noBridge(limits *config.Limits) { limits.BridgeOnPodNetwork = false }
