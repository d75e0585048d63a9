package validate_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/validate"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// kubeVirtVMI is the template of a VM that runs in KubeVirt.
const kubeVirtVMI = `
spec:
  architecture: amd64
  nodeSelector: {zone: a}
  domain:
    cpu: {sockets: 2, cores: 1, threads: 1}
    memory: {guest: 2Gi}
    devices:
      interfaces: [{name: default, masquerade: {}}, {name: blue, bridge: {}}, {name: gone, bridge: {}, state: absent}]
      disks: [{name: root, disk: {bus: virtio}}, {name: data, disk: {bus: scsi}}, {name: cd, cdrom: {bus: sata}}]
  networks: [{name: default, pod: {}}, {name: blue, multus: {networkName: blue}}, {name: gone, multus: {networkName: gone}}]
  volumes: [{name: root, persistentVolumeClaim: {claimName: root}}, ` +
	`{name: data, persistentVolumeClaim: {claimName: data, hotpluggable: true}}, {name: cd, persistentVolumeClaim: {claimName: cd, hotpluggable: true}}]
`

// rolloutCase is an edit of kubeVirtVMI. Edits are texts, each followed by the one that takes its place.
type rolloutCase struct {
	why    string
	edits  []string
	limits func(*config.Limits)
	want   validate.Rollout
}

func e(edits ...string) []string { return edits }

func live(names ...string) validate.Rollout      { return validate.Rollout{Live: names} }
func migrating(names ...string) validate.Rollout { return validate.Rollout{Migrating: names} }
func restart(names ...string) validate.Rollout   { return validate.Rollout{Restart: names} }

func most(sockets uint32, guest string) func(*config.Limits) {
	return func(limits *config.Limits) {
		most := resource.MustParse(guest)
		limits.LiveUpdate = &config.LiveUpdate{MaxCPUSockets: &sockets, MaxGuest: &most, MaxHotplugRatio: 4}
	}
}

func gate(name string, on bool) func(*config.Limits) {
	return func(limits *config.Limits) { limits.Gates[name] = on }
}

// Names of fields, and parts of kubeVirtVMI.
const (
	ofCPU, ofMemory, ofDisks, ofVolumes = "domain.cpu", "domain.memory", "domain.devices.disks", "volumes"
	ofNICs, ofNets                      = "domain.devices.interfaces", "networks"

	lastDisk, lastVolume = "{name: cd, cdrom: {bus: sata}}", "{claimName: cd, hotpluggable: true}}"
	lastNIC, lastNet     = "state: absent}", "{networkName: gone}}"
	another              = ", {name: new, persistentVolumeClaim: {claimName: new, hotpluggable: true}}"
	rootVolume           = "{name: root, persistentVolumeClaim: {claimName: root}}, "
	dataVolume           = "{name: data, persistentVolumeClaim: {claimName: data, hotpluggable: true}}, "
	cdVolume             = ", {name: cd, persistentVolumeClaim: {claimName: cd, hotpluggable: true}}"
)

var rolloutCases = []rolloutCase{
	{"nothing", nil, nil, validate.Rollout{}},
	{"more sockets", e("sockets: 2", "sockets: 8"), nil, migrating(ofCPU)},
	{"more than the ratio", e("sockets: 2", "sockets: 9"), nil, restart(ofCPU)},
	{"as many as are allowed", e("sockets: 2", "sockets: 9"), most(9, "4Gi"), migrating(ofCPU)},
	{"more than are allowed", e("sockets: 2", "sockets: 9"), most(8, "4Gi"), restart(ofCPU)},
	{"fewer sockets", e("sockets: 2", "sockets: 1"), nil, restart(ofCPU)},
	{"more cores, too", e("sockets: 2, cores: 1", "sockets: 3, cores: 2"), nil, restart(ofCPU)},
	{"no CPUs any more", e("cpu: {sockets: 2, cores: 1, threads: 1}", "cpu: null"), nil, restart(ofCPU)},
	{"sockets in stages", e("sockets: 2", "sockets: 4"), staged, restart(ofCPU)},
	{"more memory", e("guest: 2Gi", "guest: 8Gi"), nil, migrating(ofMemory)},
	{"more than the ratio", e("guest: 2Gi", "guest: 9Gi"), nil, restart(ofMemory)},
	{"as much as is allowed", e("guest: 2Gi", "guest: 9Gi"), most(8, "9Gi"), migrating(ofMemory)},
	{"more than is allowed", e("guest: 2Gi", "guest: 5Gi"), most(8, "4Gi"), restart(ofMemory)},
	{"less memory", e("guest: 2Gi", "guest: 1Gi"), nil, restart(ofMemory)},
	{"huge pages, too", e("guest: 2Gi", "guest: 4Gi, hugepages: {pageSize: 2Mi}"), nil, restart(ofMemory)},
	{"no whole blocks", e("guest: 2Gi", "guest: 2049Mi"), nil, restart(ofMemory)},
	{"no memory any more", e("memory: {guest: 2Gi}", "memory: null"), nil, restart(ofMemory)},
	{"memory of nothing", e("guest: 2Gi", "guest: null"), nil, restart(ofMemory)},
	{"memory in stages", e("guest: 2Gi", "guest: 4Gi"), staged, restart(ofMemory)},
	{"another node", e("zone: a", "zone: b"), nil, live("nodeSelector")},
	{"another node in stages", e("zone: a", "zone: b"), staged, restart("nodeSelector")},
	{"tolerations", e("zone: a}", "zone: a}\n  tolerations: [{key: a}]"), nil, live("tolerations")},
	{"affinity", e("zone: a}", "zone: a}\n  affinity: {nodeAffinity: {}}"), nil, live("affinity")},
	{"the rest waits for what waits", e("zone: a}", "zone: b}\n  hostname: h", "sockets: 2", "sockets: 3"), nil, restart("hostname", "nodeSelector", ofCPU)},
	{"it may wait for devices that wait", e("zone: a", "zone: b", "sockets: 2", "sockets: 3", lastNIC, lastNIC+", {name: new, masquerade: {}}"), nil,
		validate.Rollout{Open: []string{"nodeSelector", ofCPU}, Restart: []string{ofNICs}}},
	{"devices do not wait", e("zone: a}", "zone: b}\n  hostname: h", lastVolume, lastVolume+another), nil,
		validate.Rollout{Live: []string{ofVolumes}, Restart: []string{"hostname", "nodeSelector"}}},
	{"a volume with its disk", e(lastDisk, lastDisk+", {name: new, disk: {bus: scsi}}", lastVolume, lastVolume+another), nil, live(ofDisks, ofVolumes)},
	{"in stages, too", e(lastDisk, lastDisk+", {name: new, disk: {bus: scsi}}", lastVolume, lastVolume+another), staged, live(ofDisks, ofVolumes)},
	{"a disk whose volume was there", e(lastDisk, lastDisk+", {name: data, disk: {bus: sata}}"), nil, restart(ofDisks)},
	{"a drive without a medium", e(lastDisk, lastDisk+", {name: empty, cdrom: {bus: sata}}"), nil, restart(ofDisks)},
	{"a volume that stays for good", e(lastVolume, lastVolume+", {name: new, persistentVolumeClaim: {claimName: new}}"), nil, restart(ofVolumes)},
	{"another claim", e("claimName: root", "claimName: other"), nil, restart(ofVolumes)},
	{"another claim that can be plugged", e("claimName: data", "claimName: other"), nil, live(ofVolumes)},
	{"a volume that cannot be plugged any more", e("{claimName: data, hotpluggable: true}", "{claimName: data}"), nil, restart(ofVolumes)},
	{"one that can from now on", e("{claimName: root}", "{claimName: root, hotpluggable: true}"), nil, restart(ofVolumes)},
	{"another disk of a volume that can be plugged", e("{bus: scsi}", "{bus: virtio}"), nil, restart(ofDisks)},
	{"a disk that goes with its volume", e(", {name: data, disk: {bus: scsi}}", "", dataVolume, ""), nil, live(ofDisks, ofVolumes)},
	{"a disk that goes without", e(", {name: data, disk: {bus: scsi}}", ""), nil, restart(ofDisks)},
	{"a drive that goes with its medium", e(", "+lastDisk, "", cdVolume, ""), nil, validate.Rollout{Live: []string{ofVolumes}, Restart: []string{ofDisks}}},
	{"a medium alone", e(", {name: cd, persistentVolumeClaim: "+lastVolume, ""), nil, live(ofVolumes)},
	{"the root disk", e("{name: root, disk: {bus: virtio}}, ", ""), nil, restart(ofDisks)},
	{"the root disk with its volume", e("{name: root, disk: {bus: virtio}}, ", "", rootVolume, ""), nil, restart(ofDisks, ofVolumes)},
	{"volumes without the gate", e("claimName: data", "claimName: other"), gate("DeclarativeHotplugVolumes", false), restart(ofVolumes)},
	{"volumes that a subresource plugs", e("claimName: data", "claimName: other"), gate("HotplugVolumes", true), restart(ofVolumes)},
	{"an interface that is plugged", e(lastNIC, lastNIC+", {name: new, bridge: {}}"), nil, live(ofNICs)},
	{"a function that is plugged", e(lastNIC, lastNIC+", {name: new, sriov: {}}"), nil, live(ofNICs)},
	{"an interface that cannot be plugged", e(lastNIC, lastNIC+", {name: new, masquerade: {}}"), nil, restart(ofNICs)},
	{"one that is new and absent", e(lastNIC, lastNIC+", {name: new, bridge: {}, state: absent}"), nil, restart(ofNICs)},
	{"an interface that is unplugged", e("{name: blue, bridge: {}}", "{name: blue, bridge: {}, state: absent}"), nil, live(ofNICs)},
	{"a link", e("{name: blue, bridge: {}}", "{name: blue, bridge: {}, state: down}"), nil, live(ofNICs)},
	{"a model", e("{name: blue, bridge: {}}", "{name: blue, bridge: {}, model: e1000e}"), nil, restart(ofNICs)},
	{"an interface that is left out", e(", {name: blue, bridge: {}}", ""), nil, restart(ofNICs)},
	{"one that was absent", e(", {name: gone, bridge: {}, state: absent}", ""), nil, live(ofNICs)},
	{"one that was absent, with its network", e(", {name: gone, multus: {networkName: gone}}", ""), nil, live(ofNets)},
	{"one that comes back", e("state: absent", "state: up"), nil, restart(ofNICs)},
	{"another definition", e("networkName: blue", "networkName: green"), nil, live(ofNets)},
	{"a network of another kind", e("{name: blue, multus: {networkName: blue}}", "{name: blue, pod: {}}"), nil, restart(ofNets)},
	{"no pod network", e("{name: default, pod: {}}", "{name: default, multus: {networkName: a}}"), nil, restart(ofNets)},
	{"a default network", e("{networkName: blue}", "{networkName: blue, default: true}"), nil, restart(ofNets)},
	{"a network that is plugged", e(lastNet, lastNet+", {name: new, multus: {networkName: new}}"), nil, live(ofNets)},
	{"a pod network", e(lastNet, lastNet+", {name: new, pod: {}}"), nil, restart(ofNets)},
	{"networks of interfaces that wait", e("{name: blue, bridge: {}}", "{name: blue, bridge: {}, model: e1000e}", "networkName: blue", "networkName: green"),
		nil, restart(ofNICs, ofNets)},
}

func TestByKubeVirt(t *testing.T) {
	for _, c := range rolloutCases {
		t.Run(c.why, func(t *testing.T) {
			limits := config.Default().Limits
			if c.limits != nil {
				c.limits(&limits)
			}
			was := object[v1.VirtualMachineInstance](t, kubeVirtVMI)
			now := object[v1.VirtualMachineInstance](t, strings.NewReplacer(c.edits...).Replace(kubeVirtVMI))
			if diff := cmp.Diff(c.want, validate.ByKubeVirt(&now.Spec, &was.Spec, nil, limits)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestSocketsOfNothing: a VM without a number of sockets has one.
func TestSocketsOfNothing(t *testing.T) {
	for sockets, want := range map[uint32]validate.Rollout{1: migrating(ofCPU), 4: migrating(ofCPU), 5: restart(ofCPU)} {
		was := object[v1.VirtualMachineInstance](t, kubeVirtVMI)
		was.Spec.Domain.CPU.Sockets = 0
		now := was.DeepCopy()
		now.Spec.Domain.CPU.Sockets = sockets
		if diff := cmp.Diff(want, validate.ByKubeVirt(&now.Spec, &was.Spec, nil, config.Default().Limits)); diff != "" {
			t.Errorf("%d sockets (-want +got):\n%s", sockets, diff)
		}
	}
}

// TestVolumesThatMigrate: with updateVolumesStrategy Migration KubeVirt moves what is on the claims, and plugs no volumes in.
func TestVolumesThatMigrate(t *testing.T) {
	migration, replacement := v1.UpdateVolumesStrategyMigration, v1.UpdateVolumesStrategyReplacement
	claims := e("claimName: data", "claimName: other", lastDisk, lastDisk+", {name: new, disk: {bus: scsi}}", lastVolume, lastVolume+another)
	for _, c := range []struct {
		why      string
		strategy *v1.UpdateVolumesStrategy
		limits   func(*config.Limits)
		want     validate.Rollout
	}{
		{"no strategy", nil, func(*config.Limits) {}, live(ofDisks, ofVolumes)},
		{"replacement", &replacement, func(*config.Limits) {}, live(ofDisks, ofVolumes)},
		{"migration", &migration, func(*config.Limits) {}, validate.Rollout{Open: []string{ofVolumes}, Restart: []string{ofDisks}}},
		{"migration in stages", &migration, staged, restart(ofDisks, ofVolumes)},
	} {
		limits := config.Default().Limits
		c.limits(&limits)
		was := object[v1.VirtualMachineInstance](t, kubeVirtVMI)
		now := object[v1.VirtualMachineInstance](t, strings.NewReplacer(claims...).Replace(kubeVirtVMI))
		if diff := cmp.Diff(c.want, validate.ByKubeVirt(&now.Spec, &was.Spec, c.strategy, limits)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.why, diff)
		}
	}
}
