package main

import (
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/pkg/instancetype"
	"sigs.k8s.io/yaml"
)

// boundaries are specs of VMIs with the fields, gates and defaults that came, went or changed between versions of KubeVirt. What a generated change seldom
// meets is here: a pair of fields, or a value that only one version refuses. Architecture and memory are filled in where they are not written.
var boundaries = []string{
	// Since 1.8.
	"{utilityVolumes: [{name: u, claimName: c}]}",
	"{domain: {rebootPolicy: Terminate}}", "{domain: {rebootPolicy: Never}}",
	"{domain: {memory: {guest: 1Gi, reservedOverhead: {addedOverhead: 1Mi}}}}",
	"{domain: {memory: {guest: 1Gi, reservedOverhead: {memLock: Required}}}}",
	"{domain: {features: {hyperv: {tlbflush: {direct: {}}}}}}",
	"{domain: {features: {hyperv: {vpindex: {}, tlbflush: {enabled: false, extended: {enabled: true}}}}}}",
	"{domain: {devices: {filesystems: [{name: v, virtiofs: {}}]}}, volumes: [{name: v, containerPath: {path: /run/shared}}]}",
	"{domain: {devices: {filesystems: [{name: v, virtiofs: {}}]}}, volumes: [{name: v, containerPath: {path: /var/run/kubevirt/x}}]}",
	"{domain: {devices: {disks: [{name: v}], filesystems: [{name: v, virtiofs: {}}]}}, volumes: [{name: v, containerPath: {path: /run/shared}}]}",
	"{domain: {devices: {disks: [{name: v}], filesystems: [{name: v, virtiofs: {}}]}}, volumes: [{name: v, configMap: {name: c}}]}",
	"{domain: {devices: {filesystems: [{name: v, virtiofs: {}}]}}, volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]}",
	"{domain: {devices: {interfaces: [{name: net, passtBinding: {}}]}}, networks: [{name: net, pod: {}}]}",
	"{domain: {devices: {interfaces: [{name: net, passtBinding: {}}]}}, networks: [{name: net, multus: {networkName: m}}]}",
	"{domain: {devices: {interfaces: [{name: net, passt: {}}]}}, networks: [{name: net, pod: {}}]}",
	"{domain: {devices: {interfaces: [{name: net, passt: {}, masquerade: {}}]}}, networks: [{name: net, pod: {}}]}",
	"{domain: {devices: {interfaces: [{name: net, macvtap: {}}]}}, networks: [{name: net, multus: {networkName: m}}]}",
	"{domain: {devices: {interfaces: [{name: net, slirp: {}}]}}, networks: [{name: net, pod: {}}]}",
	"{architecture: arm64}", "{architecture: s390x}",
	"{domain: {memory: {}}}", "{domain: {memory: {hugepages: {pageSize: 2Mi}}}}", "{domain: {memory: {guest: 3Mi, hugepages: {pageSize: 2Mi}}}}",
	// Claims: 1.7 judges the claims of GPUs only, and 1.9 judges the list.
	"{domain: {devices: {gpus: [{name: a, claimName: c}]}}, resourceClaims: [{name: c, resourceClaimName: x}]}",
	"{domain: {devices: {gpus: [{name: a, claimName: c}]}}}",
	"{domain: {devices: {gpus: [{name: a, requestName: r}]}}, resourceClaims: [{name: c, resourceClaimName: x}]}",
	"{domain: {devices: {gpus: [{name: a, claimName: c, requestName: r}, {name: b, claimName: c, requestName: r}]}}, " +
		"resourceClaims: [{name: c, resourceClaimName: x}]}",
	"{domain: {devices: {gpus: [{name: a, deviceName: e.org/d}, {name: b, claimName: c, requestName: r}]}}, resourceClaims: [{name: c, resourceClaimName: x}]}",
	"{domain: {devices: {gpus: [{name: a, deviceName: e.org/d, claimName: c, requestName: r}]}}, resourceClaims: [{name: c, resourceClaimName: x}]}",
	"{domain: {devices: {hostDevices: []}}}", "{domain: {devices: {hostDevices: [{name: a}]}}}",
	"{domain: {devices: {hostDevices: [{name: a, claimName: c, requestName: r}]}}}",
	"{domain: {devices: {hostDevices: [{name: a, claimName: c}]}}, resourceClaims: [{name: c, resourceClaimName: x}]}",
	"{domain: {devices: {hostDevices: [{name: a, deviceName: e.org/d}, {name: b, requestName: r}]}}, resourceClaims: [{name: c, resourceClaimName: x}]}",
	"{domain: {devices: {hostDevices: [{name: a, claimName: c, requestName: r}, {name: b, claimName: c, requestName: r}]}}, " +
		"resourceClaims: [{name: c, resourceClaimTemplateName: x}]}",
	"{domain: {devices: {gpus: [{name: a, claimName: c, requestName: r}], hostDevices: [{name: b, claimName: c, requestName: r}]}}, " +
		"resourceClaims: [{name: c, resourceClaimTemplateName: x}]}",
	"{resourceClaims: [{name: c, resourceClaimName: x}, {name: c, resourceClaimName: y}]}", "{resourceClaims: [{name: C, resourceClaimName: x}]}",
	"{resourceClaims: [{name: c}]}", "{resourceClaims: [{name: c, resourceClaimName: x, resourceClaimTemplateName: y}]}",
	"{resourceClaims: [{name: c, resourceClaimTemplateName: X}]}",
	// Since 1.9.
	"{domain: {devices: {interfaces: [{name: net, sriov: {}}]}}, networks: [{name: net, resourceClaim: {claimName: c, requestName: r}}], " +
		"resourceClaims: [{name: c, resourceClaimName: x}]}",
	"{domain: {devices: {interfaces: [{name: net, masquerade: {}, portRanges: [{protocol: TCP, start: 1, end: 9}]}]}}, networks: [{name: net, pod: {}}]}",
	"{domain: {devices: {interfaces: [{name: net, bridge: {}, portRanges: [{protocol: TCP, start: 9, end: 1}]}]}}, networks: [{name: net, pod: {}}]}",
	"{domain: {devices: {interfaces: [{name: net, masquerade: {}, ports: [{port: 65536}]}]}}, networks: [{name: net, pod: {}}]}",
	"{domain: {devices: {interfaces: [{name: net, masquerade: {}, ports: [{port: 0, protocol: SCTP}]}]}}, networks: [{name: net, pod: {}}]}",
	"{domain: {devices: {interfaces: [{name: net}]}}, networks: [{name: net, pod: {}}]}",
	"{domain: {devices: {interfaces: [{name: net, masquerade: {}, bridge: {}}]}}, networks: [{name: net, pod: {}}]}",
	"{domain: {devices: {interfaces: [{name: net, masquerade: {}, binding: {name: b}}]}}, networks: [{name: net, pod: {}}]}",
	"{domain: {devices: {interfaces: [{name: net, bridge: {}}]}}, networks: [{name: net, pod: {}, multus: {networkName: m}}]}",
	"{domain: {devices: {interfaces: [{name: net, bridge: {}}]}}, networks: [{name: net}]}",
	"{serviceAccountName: a, volumes: [{name: v, serviceAccount: {serviceAccountName: b}}], domain: {devices: {disks: [{name: v}]}}}",
	"{serviceAccountName: A}",
	"{domain: {devices: {video: {type: virtio}}}}", "{domain: {devices: {video: {}}}}",
	"{domain: {devices: {video: {type: vga}, autoattachGraphicsDevice: false}}}",
	"{domain: {devices: {panicDevices: []}}}", "{domain: {devices: {panicDevices: [{}]}}}", "{domain: {devices: {panicDevices: [{model: bell}]}}}",
	"{architecture: s390x, domain: {devices: {panicDevices: [{model: isa}]}}}",
	"{domain: {launchSecurity: {sev: {}}}}", "{domain: {launchSecurity: {snp: {}}, memory: {guest: 1Gi, maxGuest: 2Gi}}}",
	"{domain: {launchSecurity: {sev: {attestation: {}}}, firmware: {bootloader: {efi: {secureBoot: false}}}}}",
	"{domain: {launchSecurity: {tdx: {}}, firmware: {bootloader: {efi: {}}}}}",
	"{domain: {launchSecurity: {tdx: {}}, firmware: {bootloader: {efi: {secureBoot: false}}}}}",
	"{architecture: s390x, domain: {launchSecurity: {}}}",
	"{architecture: arm64, domain: {firmware: {bootloader: {efi: {}}}}}", "{architecture: arm64, domain: {firmware: {bootloader: {efi: {secureBoot: true}}}}}",
	"{domain: {devices: {disks: [{name: v, lun: {reservation: true}}]}}, volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]}",
	"{domain: {devices: {disks: [{name: v, cdrom: {bus: sata}}]}}}", "{domain: {devices: {disks: [{name: v, disk: {bus: virtio}}]}}}",
	"{domain: {machine: {type: pc-i440fx-2.10}}}", "{domain: {machine: {type: pc-q35-9.2}}}",
	"{domain: {cpu: {cores: 2, dedicatedCpuPlacement: true, numa: {guestMappingPassthrough: {}}}, memory: {guest: 1Gi, hugepages: {pageSize: 2Mi}}, " +
		"devices: {gpus: [{name: a, deviceName: e.org/d}]}}}",
}

// tastes are specs of preferences with fields that came between versions.
var tastes = []string{
	"{devices: {preferredPanicDeviceModel: isa}}", "{devices: {preferredVideoType: virtio}}", "{preferredLaunchSecurity: {sev: {}}}",
	"{preferredLaunchSecurity: {tdx: {}}, firmware: {preferredEfi: {}}}", "{features: {preferredHyperv: {tlbflush: {direct: {}}}}}",
	"{features: {preferredHyperv: {vpindex: {}, tlbflush: {extended: {enabled: true}}}}}",
}

// atBoundaries returns each of the specs as a VMI and a VM that are judged and as a VMI that gets its defaults, and VMs with each of the preferences, with an
// instancetype and while the instancetype does not exist. Each case is in every configuration.
func atBoundaries() (all []Case, err error) {
	add := func(c Case) {
		for _, config := range []string{byDefault, allOn, allOff} {
			c.Config = config
			all = append(all, c)
		}
	}
	for i, text := range boundaries {
		vmi, err := guestOf(text)
		if err != nil {
			return nil, fmt.Errorf("boundary '%s': %w", text, err)
		}
		origin := fmt.Sprintf("boundary %d", i)
		add(Case{Suite: "validate-vmi", Origin: origin, VMI: vmi})
		add(Case{Suite: "validate-vm", Origin: origin, VM: vmOf(vmi)})
		add(Case{Suite: "mutate", Kind: "vmi", Origin: origin, VMI: vmi})
	}
	plain, err := guestOf("{}")
	if err != nil {
		return nil, err
	}
	delete(plain["spec"].(map[string]any)["domain"].(map[string]any), "memory")
	size := map[string]any{"cpu": map[string]any{"guest": int64(2)}, "memory": map[string]any{"guest": "1Gi"}}
	for i, text := range tastes {
		var taste map[string]any
		if err := yaml.Unmarshal([]byte(text), &taste); err != nil {
			return nil, fmt.Errorf("preference '%s': %w", text, err)
		}
		c := Case{Suite: "validate-vm", Origin: fmt.Sprintf("preference %d", i), VM: vmOf(plain),
			Preferences: []map[string]any{object(instancetype.PreferenceKinds.Namespaced, "taste", taste)}}
		spec := c.VM["spec"].(map[string]any)
		spec["instancetype"] = map[string]any{"kind": instancetype.Kinds.Namespaced, "name": "size"}
		spec["preference"] = map[string]any{"kind": instancetype.PreferenceKinds.Namespaced, "name": "taste"}
		add(c)
		c.Instancetypes = []map[string]any{object(instancetype.Kinds.Namespaced, "size", size)}
		add(c)
	}
	return append(all, ofSnapshots()...), nil
}

// guestOf returns a VMI with a spec, and with architecture and memory if the spec has none.
func guestOf(text string) (map[string]any, error) {
	var spec map[string]any
	if err := yaml.Unmarshal([]byte(text), &spec); err != nil {
		return nil, err
	}
	spec = numbers(spec).(map[string]any)
	within := func(object map[string]any, name string, value any) {
		if _, has := object[name]; !has {
			object[name] = value
		}
	}
	within(spec, "architecture", "amd64")
	within(spec, "domain", map[string]any{})
	domain := spec["domain"].(map[string]any)
	within(domain, "devices", map[string]any{})
	within(domain, "memory", map[string]any{"guest": "1Gi"})
	return map[string]any{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
		"metadata": map[string]any{"name": "guest", "namespace": "default"}, "spec": spec}, nil
}

// ofSnapshots are VMs whose instancetype is inferred from the snapshot of which a volume is made. Versions before 1.9 do not read snapshots.
func ofSnapshots() (all []Case) {
	labels := map[string]any{"instancetype.kubevirt.io/default-instancetype": "size"}
	snapshot := map[string]any{"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
		"metadata": map[string]any{"name": "image", "namespace": "default", "labels": labels}, "spec": map[string]any{}}
	named := map[string]any{"snapshot": map[string]any{"name": "image", "namespace": "default"}}
	source := map[string]any{"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataSource",
		"metadata": map[string]any{"name": "image", "namespace": "default"}, "spec": map[string]any{"source": named}}
	for what, from := range map[string]map[string]any{
		"snapshot": {"source": named}, "DataSource of a snapshot": {"sourceRef": map[string]any{"kind": "DataSource", "name": "image"}},
	} {
		for _, failure := range []string{"Ignore", "Reject"} {
			disk := map[string]any{"storage": map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}}}}
			for key, value := range from {
				disk[key] = value
			}
			all = append(all, Case{Suite: "mutate", Kind: "vm", Config: byDefault, Origin: strings.Join([]string{"inferred from a", what, failure}, " "),
				VM: map[string]any{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": map[string]any{"name": "guest", "namespace": "default"},
					"spec": map[string]any{"runStrategy": "Always",
						"instancetype":        map[string]any{"inferFromVolume": "root", "inferFromVolumeFailurePolicy": failure},
						"dataVolumeTemplates": []any{map[string]any{"metadata": map[string]any{"name": "root"}, "spec": disk}},
						"template": map[string]any{"spec": map[string]any{"architecture": "amd64", "domain": map[string]any{"devices": map[string]any{}},
							"volumes": []any{map[string]any{"name": "root", "dataVolume": map[string]any{"name": "root"}}}}}}},
				Objects: []map[string]any{snapshot, source}})
		}
	}
	return all
}
