package walk

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Objects of the tenant, before they are made hostile.
const (
	guestSpec = `{nodeSelector: {machine: none}, terminationGracePeriodSeconds: 0, domain: {memory: {guest: 64Mi},
  devices: {disks: [{name: data, disk: {bus: scsi}}], interfaces: [],
  autoattachPodInterface: false}}, volumes: [{name: data, emptyDisk: {capacity: 1Mi}}]}`
	sizedSpec = `{nodeSelector: {machine: none}, terminationGracePeriodSeconds: 0, domain: {devices: {disks: [{name: data}], interfaces: [],
  autoattachPodInterface: false}},
  volumes: [{name: data, emptyDisk: {capacity: 1Mi}}]}`
)

// bodies are what the objects of a resource have besides metadata.
var bodies = map[string][]string{
	"virtualmachines": {"{spec: {runStrategy: Halted, template: {spec: " + guestSpec + "}}}", "{spec: {runStrategy: Always, template: {spec: " + guestSpec + "}}}",
		"{spec: {runStrategy: Halted, instancetype: {name: small}, preference: {name: linux.sample}, template: {spec: " + sizedSpec + "}}}",
		"{spec: {runStrategy: Once, instancetype: {kind: VirtualMachineInstancetype, name: a}, template: {spec: " + sizedSpec + "}}}"},
	"virtualmachineinstances": {"{spec: " + guestSpec + "}"},
	"virtualmachineinstancepresets": {"{spec: {selector: {}, domain: {ioThreadsPolicy: shared}}}",
		"{spec: {selector: {matchLabels: {secret: a}}, domain: {firmware: {serial: a}}}}"},
	"virtualmachineinstancetypes":        {"{spec: {cpu: {guest: 1}, memory: {guest: 64Mi}}}"},
	"virtualmachineclusterinstancetypes": {"{spec: {cpu: {guest: 1}, memory: {guest: 64Mi}}}"},
	"virtualmachinepreferences":          {"{spec: {devices: {preferredDiskBus: virtio}}}"},
	"hostprofiles":                       {"{spec: {priority: 2000, disk: {cache: none}}}"},
	"guestprofiles": {"{spec: {selector: {}, template: {spec: {domain: {ioThreadsPolicy: shared}}}}}",
		"{spec: {selector: {matchLabels: {secret: a}}, extends: [{kind: ClusterGuestProfile, name: a}], template: {metadata: {labels: {secret: a}}}}}"},
	"clusterguestprofiles": {"{spec: {selector: {}, template: {spec: {hostname: a}}}}"},
	"frontendprofiles":     {"{spec: {freePorts: 128, smbios: {manufacturer: a}}}"},
	"guesthardwares": {"{spec: {hardware: {defaults: a, digest: a, machine: pc-q35-9.2}}}",
		"{spec: {identity: a, hardware: {defaults: a, digest: a, devices: {disk.data: {drive: '4000000000:0:0:0'}}}}}"},
	"controllerrevisions": {"{revision: 1, data: {apiVersion: instancetype.kubevirt.io/v1beta1, kind: VirtualMachineInstancetype, metadata: {name: size}, " +
		"spec: {cpu: {guest: 1}, memory: {guest: 64Mi}}}}"},
	"secrets":                {"{stringData: {userdata: '#cloud-config'}}", "{type: kubernetes.io/service-account-token}"},
	"configmaps":             {"{data: {writers: 'system:serviceaccount:walk-home:alice'}}"},
	"persistentvolumeclaims": {"{spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}"},
	"pods":                   {"{spec: {containers: [{name: c, image: i}]}}"},
	"serviceaccounts/token":  {"{spec: {audiences: [], expirationSeconds: 600}}"},
}

// object of a resource, to which hostile things were done.
func (w walker) object(r resource) map[string]any {
	object := map[string]any{}
	if from := bodies[r.name]; len(from) > 0 {
		if err := yaml.Unmarshal([]byte(oneOf(w, from)), &object); err != nil {
			w.Fatalf("%s: %v", r.name, err)
		}
	}
	version := r.version
	if r.group != "" {
		version = r.group + "/" + r.version
	}
	object["apiVersion"], object["kind"] = version, r.kind
	object["metadata"] = map[string]any{"name": w.name()}
	if spec := guest(object); spec != nil && w.oneIn(3) { // few names bound how many guests run
		spec["nodeSelector"] = map[string]any{"machine": w.machine}
	}
	if w.oneIn(10) {
		object["metadata"] = map[string]any{"generateName": "g-"}
		if spec := guest(object); spec != nil {
			spec["nodeSelector"] = map[string]any{"machine": "none"}
		}
	}
	holders := []map[string]any{object}
	if template := below(object, "spec", "template"); template != nil {
		template["metadata"] = map[string]any{}
		holders = append(holders, template)
	}
	for range w.IntN(4) {
		holder := oneOf(w, holders)
		oneOf(w, hostilities)(w, holder)
	}
	return object
}

// below returns the object at a path within another one, nil if it does not exist.
func below(object map[string]any, path ...string) map[string]any {
	for _, key := range path {
		object, _ = object[key].(map[string]any)
	}
	return object
}

// inMetadata returns a map of the metadata, and creates a missing one.
func inMetadata(object map[string]any, key string) map[string]any {
	metadata := below(object, "metadata")
	found, _ := metadata[key].(map[string]any)
	if found == nil {
		found = map[string]any{}
		metadata[key] = found
	}
	return found
}

// hostilities are done to an object, or to the template of one. Those about guests do nothing to others.
var hostilities = []func(walker, map[string]any){
	func(w walker, o map[string]any) {
		inMetadata(o, "annotations")[oneOf(w, annotations)] = w.hostileValue()
	},
	func(w walker, o map[string]any) {
		inMetadata(o, "annotations")["kilnvm.io/pins"] = fmt.Sprintf(
			`{"instancetype":%q,"preference":%q,"presets":[%q],"profiles":[%q],"bases":[%q],"configuration":%q}`,
			w.reference(), w.reference(), w.reference(), w.reference(), w.reference(), w.reference())
	},
	forge, forge, // what a launcher believes
	func(w walker, o map[string]any) {
		inMetadata(o, "labels")[oneOf(w, labels)] = oneOf(w, []string{"a", "web", w.uid, ""})
	},
	func(w walker, o map[string]any) {
		owner := map[string]any{"apiVersion": oneOf(w, []string{"kubevirt.io/v1", "kubevirt.io/v1alpha3"}),
			"kind": oneOf(w, []string{"VirtualMachine", "VirtualMachineInstance"}),
			"name": w.name(), "uid": oneOf(w, []string{w.uid, "00000000-0000-4000-8000-000000000000"}), "controller": w.oneIn(2), "blockOwnerDeletion": w.oneIn(2)}
		below(o, "metadata")["ownerReferences"] = []any{owner}
	},
	func(w walker, o map[string]any) {
		below(o, "metadata")["finalizers"] = []any{oneOf(w,
			[]string{"kilnvm.io/launcher", "example.com/mine", "foregroundDeletion", "kubevirt.io/foregroundDeleteVirtualMachine"})}
	},
	func(w walker, o map[string]any) {
		below(o, "metadata")[oneOf(w, []string{"uid", "namespace", "resourceVersion", "selfLink", "deletionTimestamp"})] = oneOf(w,
			[]string{w.uid, otherSpace, "1", "2020-01-01T00:00:00Z"})
	},
	func(w walker, o map[string]any) {
		if spec := guest(o); spec != nil {
			spec["volumes"] = []any{w.volume()}
		}
	},
	func(w walker, o map[string]any) {
		if domain := below(guest(o), "domain"); domain != nil {
			domain["firmware"] = map[string]any{"uuid": oneOf(w, []string{w.uuid, w.uid}), "serial": oneOf(w, []string{"a", w.uuid})}
		}
	},
	func(w walker, o map[string]any) {
		if devices := below(guest(o), "domain", "devices"); devices != nil {
			devices[oneOf(w, []string{"disks", "interfaces", "gpus", "hostDevices", "inputs", "filesystems"})] = slices.Repeat([]any{map[string]any{}},
				oneOf(w, []int{1, 30, 20_000}))
		}
	},
	func(w walker, o map[string]any) { w.refer(below(o, "spec"), "instancetype") },
	func(w walker, o map[string]any) { w.refer(below(o, "spec"), "preference") },
	func(w walker, o map[string]any) { // a volume of another's, from which size and preference are inferred
		spec := below(o, "spec")
		if below(spec, "template") == nil || guest(o) == nil {
			return // a VMI, or a profile, whose template is not a template of a VMI
		}
		source := map[string]any{"pvc": map[string]any{"namespace": otherSpace, "name": "image"}}
		storage := map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}}}
		spec["dataVolumeTemplates"] = []any{map[string]any{"metadata": map[string]any{"name": "data"}, "spec": map[string]any{"source": source, "storage": storage}}}
		guest(o)["volumes"] = []any{map[string]any{"name": "data", "dataVolume": map[string]any{"name": "data"}}}
		spec["instancetype"] = map[string]any{"inferFromVolume": "data", "inferFromVolumeFailurePolicy": oneOf(w, []string{"Ignore", "Reject"})}
	},
	func(w walker, o map[string]any) {
		revision := map[string]any{"name": w.revision}
		o["status"] = map[string]any{"instancetypeRef": map[string]any{"name": "size", "kind": "VirtualMachineInstancetype", "controllerRevisionRef": revision},
			"nodeName": w.machine, "phase": oneOf(w, []string{"Running", "Failed", "Succeeded", "Scheduled"})}
	},
	func(w walker, o map[string]any) {
		if spec := guest(o); spec != nil {
			spec["networks"] = []any{map[string]any{"name": "n", "multus": map[string]any{"networkName": otherSpace + "/n"}}}
			spec["accessCredentials"] = []any{map[string]any{"userPassword": map[string]any{"source": map[string]any{"secret": map[string]any{
				"secretName": otherSpace + "/secret"}},
				"propagationMethod": map[string]any{"qemuGuestAgent": map[string]any{}}}}}
		}
	},
}

// guest returns the spec of a guest, from a VMI or a template; nil for other objects.
func guest(object map[string]any) map[string]any {
	if spec := below(object, "spec"); spec["domain"] != nil && spec["selector"] == nil {
		return spec
	}
	return below(object, "spec", "template", "spec")
}

// refer makes a reference of a VM to an instancetype or a preference lead elsewhere.
func (w walker) refer(spec map[string]any, matcher string) {
	if below(spec, "template") == nil {
		return
	}
	reference := map[string]any{"name": w.reference()}
	kind := strings.ToUpper(matcher[:1]) + matcher[1:]
	for key, values := range map[string][]string{"kind": {"VirtualMachine" + kind, "VirtualMachineCluster" + kind, "Secret", "secrets"},
		"revisionName": {w.revision, otherSpace + "/" + w.revision, "none"}, "inferFromVolume": {"data", "image", "../image"}} {
		if w.oneIn(2) {
			reference[key] = oneOf(w, values)
		}
	}
	spec[matcher] = reference
}

// reference to what is, mostly, another's.
func (w walker) reference() string {
	return oneOf(w, []string{"size", "preference", "preset", w.revision, otherSpace + "/" + w.revision, otherSpace + "/size", "../" + otherSpace + "/size", w.uid,
		"a", "small", "linux.sample"})
}

// volume of a guest, which refers to what is another's or the machine's.
func (w walker) volume() map[string]any {
	files := []string{"/etc/passwd", "/etc/shadow"}
	for _, name := range hostFiles {
		files = append(files, w.volumes+"/"+name, w.volumes+"/containers/../"+name)
	}
	names := []string{"image", otherSpace + "/image", "../" + otherSpace + "/image", "web", "secret"}
	source := oneOf(w, []map[string]any{
		{"hostDisk": map[string]any{"path": oneOf(w, files), "type": oneOf(w, []string{"Disk", "DiskOrCreate"}), "capacity": oneOf(w, []string{"1Mi", "8Ei", "-1"})}},
		{"containerDisk": map[string]any{"image": oneOf(w, []string{"other.example/secret:1", ".", "../claims/" + otherSpace, "no/such:image"}),
			"path": oneOf(w, []string{"", "/disk/disk.img", "/../../" + hostFiles[1]})}},
		{"persistentVolumeClaim": map[string]any{"claimName": oneOf(w, names)}},
		{"dataVolume": map[string]any{"name": oneOf(w, names)}},
		{"cloudInitNoCloud": map[string]any{"secretRef": map[string]any{"name": oneOf(w, names)}, "userData": "#cloud-config"}},
		{"cloudInitConfigDrive": map[string]any{"networkDataSecretRef": map[string]any{"name": oneOf(w, names)}}},
		{"secret": map[string]any{"secretName": oneOf(w, names)}},
		{"configMap": map[string]any{"name": oneOf(w, names)}},
		{"serviceAccount": map[string]any{"serviceAccountName": oneOf(w, names)}},
		{"sysprep": map[string]any{"secret": map[string]any{"name": oneOf(w, names)}}},
		{"emptyDisk": map[string]any{"capacity": oneOf(w, []string{"1Mi", "8Ei", "0", "-1"})}},
	})
	volume := map[string]any{"name": "data"}
	maps.Copy(volume, source)
	return volume
}

// Annotations and labels that steer Kiln or KubeVirt.
var (
	annotations = []string{"kilnvm.io/pins", "kilnvm.io/identity", "kilnvm.io/generation", "kilnvm.io/architecture", "kilnvm.io/hardware", "kilnvm.io/inference",
		"kilnvm.io/numa-cells", "kilnvm.io/unused-since", "kubevirt.io/qgs-socket-path", "kubevirt.io/pci-topology-version", "kubevirt.io/ignitiondata",
		"hooks.kubevirt.io/hookSidecars", "kubevirt.io/instancetype-name", "kubevirt.io/cluster-instancetype-name", "kubevirt.io/preference-name",
		"kubevirt.io/placePCIDevicesOnRootComplex", "kubevirt.io/restore-uid", "virtualmachineinstancepresets.admission.kubevirt.io/exclude",
		"kubectl.kubernetes.io/last-applied-configuration", "template.kubevirt.io/architecture"}
	labels = []string{"kubevirt.io/nodeName", "kubevirt.io/created-by", "kubevirt.io/migrationJobUID", "instancetype.kubevirt.io/object-name",
		"instancetype.kubevirt.io/object-uid", "kilnvm.io/unused-since", "instancetype.kubevirt.io/default-instancetype",
		"instancetype.kubevirt.io/default-preference", "secret", "machine"}
)

func (w walker) hostileValue() string {
	return oneOf(w, []string{"", "latest", "lates", "true", "-1", "4000000000", "amd64", "s390x", w.uid, w.uuid, w.revision, otherSpace + "/web",
		"../" + otherSpace + "/web", "/etc/passwd", "{", "[]", "null", `{"instancetype":"` + w.revision + `"}`, "\u0000\u202e", strings.Repeat("x", 100_000),
		"2020-01-01T00:00:00Z", `<domain/>`, `%s%n`, "$(id)"})
}
