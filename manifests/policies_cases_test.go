package manifests_test

import (
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
)

// Objects that one rule of a policy refuses. A list in a patch replaces the list of the right object.

var wrongGuests = slices.Concat(wrongMachines, wrongDisks, wrongNetworks)

var wrongMachines = []wrong{
	{"cpu/sockets", `{"domain": {"cpu": {"sockets": 4, "maxSockets": 2}}}`},
	{"cpu/feature-name", `{"domain": {"cpu": {"features": [{"name": ""}]}}}`},
	{"cpu/feature-policy", `{"domain": {"cpu": {"features": [{"name": "vmx", "policy": "maybe"}]}}}`},
	{"memory/page-size-given", `{"domain": {"memory": {"hugepages": {"pageSize": ""}}}}`},
	{"memory/page-size", `{"domain": {"memory": {"hugepages": {"pageSize": "0"}}}}`},
	{"memory/page-size", `{"domain": {"memory": {"hugepages": {"pageSize": "large"}}}}`},
	{"memory/guest", `{"domain": {"memory": {"guest": 0}}}`},
	{"memory/max-guest", `{"domain": {"memory": {"maxGuest": "-1Gi"}}}`},
	{"resources/request-negative", `{"domain": {"resources": {"requests": {"cpu": "-1"}}}}`},
	{"resources/limit-negative", `{"domain": {"resources": {"limits": {"memory": "-1"}}}}`},
	{"resources/request-over-limit", `{"domain": {"resources": {"requests": {"cpu": 2}, "limits": {"cpu": "1500m"}}}}`},
	{"resources/memory-unit", `{"domain": {"resources": {"requests": {"memory": 64}}}}`},
	{"firmware/bootloaders", `{"domain": {"firmware": {"bootloader": {"bios": {}, "efi": {"secureBoot": false}}}}}`},
	{"firmware/kernel-args", `{"domain": {"firmware": {"kernelBoot": {"kernelArgs": "quiet"}}}}`},
	{"firmware/kernel-files", `{"domain": {"firmware": {"kernelBoot": {"container": {"image": "i"}}}}}`},
	{"firmware/acpi-empty", `{"domain": {"firmware": {"acpi": {}}}}`},
	{"features/hyperv-passthrough-enabled", `{"domain": {"features": {"hypervPassthrough": {}}}}`},
	{"features/hyperv-passthrough-alone", `{"domain": {"features": {"hyperv": {}, "hypervPassthrough": {"enabled": true}}}}`},
	{"devices/input-bus", `{"domain": {"devices": {"inputs": [{"name": "i", "bus": "ps2", "type": "tablet"}]}}}`},
	{"devices/input-type", `{"domain": {"devices": {"inputs": [{"name": "i", "bus": "usb", "type": "mouse"}]}}}`},
	{"devices/sound-model", `{"domain": {"devices": {"sound": {"name": "s", "model": "sb16"}}}}`},
	{"devices/sound-name", `{"domain": {"devices": {"sound": {"name": ""}}}}`},
	{"devices/video-graphics", `{"domain": {"devices": {"autoattachGraphicsDevice": false, "video": {"type": "vga"}}}}`},
	{"devices/panic-model", `{"domain": {"devices": {"panicDevices": [{"model": "red"}]}}}`},
	{"iothreads/policy", `{"domain": {"ioThreadsPolicy": "many"}}`},
	{"placement/hostname", `{"hostname": "a.b"}`},
	{"placement/subdomain", `{"subdomain": "a.b"}`},
	{"placement/eviction-strategy", `{"evictionStrategy": "Run"}`},
	{"placement/start-strategy", `{"startStrategy": "Now"}`},
	{"placement/paused-liveness", `{"startStrategy": "Paused", "livenessProbe": {"guestAgentPing": {}}}`},
	{"placement/dns-policy", `{"dnsPolicy": "Mine"}`},
	{"placement/dns-config", `{"dnsPolicy": "None"}`},
	{"placement/dns-nameservers", `{"dnsConfig": {"nameservers": ["::1", "::2", "::3", "::4"]}}`},
	{"placement/dns-nameserver", `{"dnsConfig": {"nameservers": ["dns.example"]}}`},
	{"placement/dns-searches", `{"dnsConfig": {"searches": ["a", "b", "c", "d", "e", "f", "g"]}}`},
	{"placement/dns-option", `{"dnsConfig": {"options": [{"value": "1"}]}}`},
	{"placement/probe-handler", `{"readinessProbe": {"initialDelaySeconds": 1}}`},
	{"placement/probe-handlers", `{"livenessProbe": {"guestAgentPing": {}, "tcpSocket": {"port": 22}}}`},
	{"placement/spread-skew", `{"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]}`},
	{"placement/spread-unsatisfiable", `{"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "Wait"}]}`},
	{"security/credential-kind", `{"accessCredentials": [{}]}`},
	{"security/credential-kinds",
		`{"accessCredentials": [{"sshPublicKey": {"source": {}, "propagationMethod": {}}, "userPassword": {"source": {}, "propagationMethod": {}}}]}`},
}

var wrongDisks = []wrong{
	{"disks/name-twice", disk(`{"name": "a", "disk": {}}, {"name": "a", "disk": {}}`)},
	{"disks/name", disk(`{"name": "A_", "cdrom": {"bus": "sata"}}`)},
	{"disks/targets", disk(`{"name": "a", "disk": {}, "cdrom": {"bus": "sata"}}`)},
	{"disks/bus", disk(`{"name": "a", "disk": {"bus": "nvme"}}`)},
	{"disks/bus", disk(`{"name": "a", "cdrom": {"bus": "nvme"}}`)},
	{"disks/bus-ide", disk(`{"name": "a", "disk": {"bus": "ide"}}`)},
	{"disks/cdrom-virtio", disk(`{"name": "a", "cdrom": {"bus": "virtio"}}`)},
	{"disks/sata-readonly", disk(`{"name": "a", "disk": {"bus": "sata", "readonly": true}}`)},
	{"disks/pci-address", disk(`{"name": "a", "disk": {"bus": "virtio", "pciAddress": "1:2"}}`)},
	{"disks/serial", disk(`{"name": "a", "disk": {}, "serial": "a b"}`)},
	{"disks/serial-length", disk(`{"name": "a", "disk": {}, "serial": "` + strings.Repeat("s", 257) + `"}`)},
	{"disks/cache", disk(`{"name": "a", "disk": {}, "cache": "fast"}`)},
	{"disks/io", disk(`{"name": "a", "disk": {}, "io": "io_uring"}`)},
	{"disks/error-policy", disk(`{"name": "a", "disk": {}, "errorPolicy": "panic"}`)},
	{"disks/dedicated-iothread", disk(`{"name": "a", "disk": {"bus": "scsi"}, "dedicatedIOThread": true}`)},
	{"disks/boot-order", disk(`{"name": "a", "disk": {}, "bootOrder": 0}`)},
	{"disks/block-size-both", disk(`{"name": "a", "disk": {}, "blockSize": {"matchVolume": {}, "custom": {"logical": 512, "physical": 512}}}`)},
	{"disks/block-size-small", disk(`{"name": "a", "disk": {}, "blockSize": {"custom": {"logical": 256, "physical": 512}}}`)},
	{"disks/block-size-large", disk(`{"name": "a", "disk": {}, "blockSize": {"custom": {"logical": 512, "physical": 4194304}}}`)},
	{"disks/block-size-order", disk(`{"name": "a", "disk": {}, "blockSize": {"custom": {"logical": 4096, "physical": 512}}}`)},
	{"disks/discard-granularity", disk(`{"name": "a", "disk": {}, "blockSize": {"custom": {"logical": 512, "physical": 512, "discardGranularity": 1000}}}`)},
	{"disks/disk-volume", disk(`{"name": "b", "disk": {}}`)},
	{"disks/volume-name-twice", `{"volumes": [{"name": "a", "emptyDisk": {"capacity": "1Gi"}}, {"name": "a", "emptyDisk": {"capacity": "1Gi"}}]}`},
	{"disks/volume-source", `{"volumes": [{"name": "a"}]}`},
	{"disks/volume-sources", `{"volumes": [{"name": "a", "emptyDisk": {"capacity": "1Gi"}, "configMap": {"name": "c"}}]}`},
	{"disks/volume-single",
		`{"volumes": [{"name": "a", "serviceAccount": {"serviceAccountName": "s"}}, {"name": "b", "serviceAccount": {"serviceAccountName": "s"}}]}`},
	{"disks/volume-reference", `{"volumes": [{"name": "a", "configMap": {}}]}`},
	{"disks/volume-reference", `{"volumes": [{"name": "a", "secret": {}}]}`},
	{"disks/volume-reference", `{"volumes": [{"name": "a", "serviceAccount": {}}]}`},
	{"disks/volume-reference", `{"volumes": [{"name": "a", "dataVolume": {"name": ""}}]}`},
	{"disks/host-disk-path", `{"volumes": [{"name": "a", "hostDisk": {"path": "", "type": "Disk"}}]}`},
	{"disks/host-disk-type", `{"volumes": [{"name": "a", "hostDisk": {"path": "/d", "type": "File"}}]}`},
	{"disks/utility-volumes", `{"utilityVolumes": [{"name": "u", "claimName": "c"}]}`},
}

func disk(list string) string { return `{"domain": {"devices": {"disks": [` + list + `]}}}` }

var wrongNetworks = []wrong{
	{"networks/type", `{"networks": [{"name": "a"}]}`},
	{"networks/types", `{"networks": [{"name": "a", "pod": {}, "multus": {"networkName": "net"}}]}`},
	{"networks/multus-name", `{"networks": [{"name": "a", "multus": {"networkName": ""}}]}`},
	{"networks/pod-twice", `{"networks": [{"name": "a", "pod": {}}, {"name": "b", "pod": {}}]}`},
	{"networks/default-twice",
		`{"networks": [{"name": "a", "multus": {"networkName": "net", "default": true}}, {"name": "b", "multus": {"networkName": "net", "default": true}}]}`},
	{"networks/pod-and-default", `{"networks": [{"name": "a", "pod": {}}, {"name": "b", "multus": {"networkName": "net", "default": true}}]}`},
	{"networks/name-twice", `{"networks": [{"name": "a", "pod": {}}, {"name": "a", "multus": {"networkName": "net"}}]}`},
	{"networks/interface-twice", nic(`{"name": "a", "masquerade": {}}, {"name": "a", "masquerade": {}}`)},
	{"networks/network-missing", nic(`{"name": "b", "masquerade": {}}`)},
	{"networks/interface-name", `{"networks": [{"name": "a.b", "pod": {}}], "domain": {"devices": {"interfaces": [{"name": "a.b", "masquerade": {}}]}}}`},
	{"networks/model", nic(`{"name": "a", "masquerade": {}, "model": "ne3000"}`)},
	{"networks/mac", nic(`{"name": "a", "masquerade": {}, "macAddress": "02:00:00"}`)},
	{"networks/pci-address", nic(`{"name": "a", "masquerade": {}, "pciAddress": "1:2"}`)},
	{"networks/bindings", nic(`{"name": "a", "masquerade": {}, "bridge": {}}`)},
	{"networks/binding-plugin", nic(`{"name": "a", "masquerade": {}, "binding": {"name": "b"}}`)},
	{"networks/binding-retired", nic(`{"name": "a", "slirp": {}}`)},
	{"networks/state", nic(`{"name": "a", "masquerade": {}, "state": "sideways"}`)},
	{"networks/state-sriov", nic(`{"name": "a", "sriov": {}, "state": "down"}`)},
	{"networks/dhcp-option", nic(`{"name": "a", "masquerade": {}, "dhcpOptions": {"privateOptions": [{"option": 12, "value": "x"}]}}`)},
	{"networks/ntp-server", nic(`{"name": "a", "masquerade": {}, "dhcpOptions": {"ntpServers": ["::1"]}}`)},
}

func nic(list string) string { return `{"domain": {"devices": {"interfaces": [` + list + `]}}}` }

var wrongVMs = []wrong{
	{"vm/running-and-strategy", `{"running": true}`},
	{"vm/strategy-given", `{"runStrategy": null}`},
	{"vm/strategy", `{"runStrategy": "Sometimes"}`},
	{"vm/matcher-name", `{"instancetype": {"name": ""}}`},
	{"vm/matcher-infer-name", `{"preference": {"name": "a", "inferFromVolume": "b"}}`},
	{"vm/matcher-infer-kind", `{"preference": {"kind": "VirtualMachinePreference", "inferFromVolume": "b"}}`},
	{"vm/matcher-policy", `{"instancetype": {"inferFromVolume": "b", "inferFromVolumeFailurePolicy": "Guess"}}`},
	{"disks/template-name", `{"dataVolumeTemplates": [{"metadata": {}, "spec": {"storage": {}, "source": {"blank": {}}}}]}`},
	{"disks/template-size", `{"dataVolumeTemplates": [{"metadata": {"name": "d"}, "spec": {"source": {"blank": {}}}}]}`},
	{"disks/template-sizes", `{"dataVolumeTemplates": [{"metadata": {"name": "d"}, "spec": {"storage": {}, "pvc": {}, "source": {"blank": {}}}}]}`},
}

var wrongInstancetypes = []wrong{
	{"instancetype/cpus", `{"cpu": {"guest": 0}}`},
	{"instancetype/memory", `{"memory": {"guest": "-1Gi"}}`},
	{"instancetype/overcommit-hugepages", `{"memory": {"overcommitPercent": 10, "hugepages": {"pageSize": "2Mi"}}}`},
}

// wrongLifecycles are of instancetypes and preferences alike.
var wrongLifecycles = []labelled{
	{"catalog/lifecycle", map[string]string{v1alpha1.LabelLifecycle: "retired"}, nil},
	{"catalog/deprecated", map[string]string{v1alpha1.LabelDeprecated: "yes"}, nil},
	{"catalog/replaced-by", nil, map[string]string{v1alpha1.AnnotationReplacedBy: "u2 small\n"}},
	{"catalog/replaced-by", nil, map[string]string{v1alpha1.AnnotationReplacedBy: strings.Repeat("u", 100<<10)}},
	{"catalog/replaced-by", nil, map[string]string{v1alpha1.AnnotationReplacedBy: "judged"}},
	{"catalog/obsolete-after", nil, map[string]string{v1alpha1.AnnotationObsoleteAfter: "99999-01-01T00:00:00Z"}},
	{"catalog/obsolete-after", nil, map[string]string{v1alpha1.AnnotationObsoleteAfter: "2027-01-01"}},
	{"catalog/misplaced", nil, map[string]string{v1alpha1.LabelLifecycle: "obsolete"}},
	{"catalog/misplaced", map[string]string{v1alpha1.AnnotationReplacedBy: "other"}, nil},
}

// rightLifecycle has all keys.
var rightLifecycle = labelled{
	labels:      map[string]string{v1alpha1.LabelLifecycle: "deprecated", v1alpha1.LabelDeprecated: "true"},
	annotations: map[string]string{v1alpha1.AnnotationReplacedBy: "other", v1alpha1.AnnotationObsoleteAfter: "2027-01-01T00:00:00.5+01:00"},
}

var wrongPreferences = []wrong{
	{"preference/topology", `{"cpu": {"preferredCPUTopology": "towers"}}`},
	{"preference/spread-zero", `{"cpu": {"spreadOptions": {"ratio": 0}}}`},
	{"preference/spread-across", `{"cpu": {"spreadOptions": {"across": "Floors"}}}`},
	{"preference/spread-threads", `{"cpu": {"spreadOptions": {"across": "CoresThreads", "ratio": 3}}}`},
}
