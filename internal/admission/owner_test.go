package admission

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const virtController = "system:serviceaccount:kubevirt:kubevirt-controller"

// older is the preset that the VM is pinned to; newer has come since.
const (
	older = "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstancePreset\nmetadata: {name: p, namespace: team}\n" +
		"spec: {selector: {matchLabels: {tier: web}}, domain: {ioThreadsPolicy: auto}}"
	newer = "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstancePreset\nmetadata: {name: p, namespace: team}\n" +
		"spec: {selector: {matchLabels: {tier: web}}, domain: {ioThreadsPolicy: shared}}"
	linux = "apiVersion: instancetype.kubevirt.io/v1beta1\nkind: VirtualMachineClusterPreference\nmetadata: {name: linux, uid: p, generation: 1}\n" +
		"spec: {devices: {preferredDiskBus: virtio}}"
)

// parsed is a document as a map.
func parsed(t *testing.T, document string) (object map[string]any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(document), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// nameOf is the name of a document's object.
func nameOf(t *testing.T, document string) string {
	t.Helper()
	return (&unstructured.Unstructured{Object: parsed(t, document)}).GetName()
}

// storedByKubeVirt is a revision that KubeVirt has stored for the VM.
func storedByKubeVirt(t *testing.T, name, of string) string {
	t.Helper()
	object := parsed(t, of)
	document, err := yaml.Marshal(map[string]any{"apiVersion": "apps/v1", "kind": "ControllerRevision", "data": object, "metadata": map[string]any{
		"name": name, "namespace": "team", "ownerReferences": []any{map[string]any{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "web",
			"uid": "vm-uid", "controller": true}}, "labels": map[string]any{"instancetype.kubevirt.io/object-name": nameOf(t, of)}}})
	if err != nil {
		t.Fatal(err)
	}
	return string(document)
}

// owned are the objects around a VM of KubeVirt's, and the VM as a test has changed it.
type owned struct {
	documents []string
	pins      v1alpha1.Pins
	vm        *v1.VirtualMachine
}

// newOwned returns VM 'web' with pins to an instancetype, a preference, a preset and a configuration, all of which have changed since.
func newOwned(t *testing.T) *owned {
	t.Helper()
	was := installed().Defaults
	was.CPUModel = "Haswell"
	configuration, err := config.Snapshot(was)
	if err != nil {
		t.Fatal(err)
	}
	revisions := []string{revisionOf(t, parsed(t, catalog)), revisionOf(t, parsed(t, linux)), revisionOf(t, parsed(t, older)), revisionOf(t, configuration)}
	o := &owned{documents: append(revisions, newer, strings.Replace(catalog, "guest: 2", "guest: 4", 1), strings.Replace(linux, "virtio", "sata", 1)),
		pins: v1alpha1.Pins{Instancetype: nameOf(t, revisions[0]), Preference: nameOf(t, revisions[1]), Presets: []string{nameOf(t, revisions[2])},
			Configuration: nameOf(t, revisions[3])}}
	vm := &v1.VirtualMachine{}
	if err := yaml.Unmarshal([]byte(`
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: web, namespace: team, uid: vm-uid, annotations: {kilnvm.io/identity: seed, kilnvm.io/hardware: latest}}
spec:
  runStrategy: Always
  instancetype: {name: small}
  preference: {name: linux}
  template: {metadata: {labels: {tier: web}}, spec: {domain: {devices: {}}}}
`), vm); err != nil {
		t.Fatal(err)
	}
	o.vm = vm
	o.refer(o.pins.Instancetype, o.pins.Preference)
	return o
}

// refer writes the references of the status.
func (o *owned) refer(instancetype, preference string) {
	o.vm.Status.InstancetypeRef = &v1.InstancetypeStatusRef{Name: "small", ControllerRevisionRef: &v1.ControllerRevisionRef{Name: instancetype}}
	o.vm.Status.PreferenceRef = &v1.InstancetypeStatusRef{Name: "linux", ControllerRevisionRef: &v1.ControllerRevisionRef{Name: preference}}
}

// cluster is the server over the VM and all around it.
func (o *owned) cluster(t *testing.T) *cluster {
	t.Helper()
	if _, written := o.vm.Annotations[v1alpha1.AnnotationPins]; !written && o.pins.Configuration != "" {
		text, err := json.Marshal(o.pins)
		if err != nil {
			t.Fatal(err)
		}
		o.vm.Annotations[v1alpha1.AnnotationPins] = string(text)
	}
	document, err := yaml.Marshal(o.vm)
	if err != nil {
		t.Fatal(err)
	}
	return newCluster(t, append(o.documents, string(document))...)
}

// ownedByWeb is the owner reference that KubeVirt writes.
const ownedByWeb = "{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: web, uid: vm-uid, controller: true, blockOwnerDeletion: true}"

// theirs is the VMI as KubeVirt's controller makes it of the VM, with annotations of the template.
func theirs(t *testing.T, annotations string, edits ...string) *admissionv1.AdmissionRequest {
	t.Helper()
	text := `
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata:
  name: web
  labels: {tier: web}
  annotations: {` + annotations + `}
  ownerReferences: [` + ownedByWeb + `]
spec:
  domain: {cpu: {sockets: 2, cores: 1, threads: 1}, memory: {guest: 1Gi}, firmware: {uuid: 5d307ca9-b3ef-428c-8861-06e72d69f223}, devices: {}}
`
	text = strings.NewReplacer(edits...).Replace(text)
	request := create(t, text)
	request.UserInfo.Username = virtController
	return request
}

// TestVMIOfKubeVirtIsMadeOfTheVMsPins: the VMI that KubeVirt makes has the annotations that Kiln's controller would have given it, and is made explicit by what
// the VM is pinned to, not by what has come since.
func TestVMIOfKubeVirtIsMadeOfTheVMsPins(t *testing.T) {
	o := newOwned(t)
	c := o.cluster(t)
	// A tenant writes the template, whose annotations KubeVirt copies.
	request := theirs(t, `kilnvm.io/pins: '{"presets":[]}', kilnvm.io/identity: forged, kilnvm.io/generation: forged, kilnvm.io/architecture: s390x, a: b`)
	text := patched(t, request, ask(t, c.Hooks()[MutateVMI], request))
	vmi := &v1.VirtualMachineInstance{}
	if err := json.Unmarshal([]byte(text), vmi); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{v1alpha1.AnnotationPins: o.vm.Annotations[v1alpha1.AnnotationPins], v1alpha1.AnnotationIdentity: "seed",
		v1alpha1.AnnotationGeneration: "vm-uid", v1alpha1.AnnotationHardware: "latest", v1alpha1.AnnotationArchitecture: "", "a": "b"} {
		if got := vmi.Annotations[key]; got != want {
			t.Errorf("annotation %s is '%s', want '%s'", key, got, want)
		}
	}
	domain := vmi.Spec.Domain
	if domain.IOThreadsPolicy == nil || *domain.IOThreadsPolicy != v1.IOThreadsPolicyAuto || domain.CPU.Model != "Haswell" || vmi.Spec.Architecture != "amd64" {
		t.Errorf("IO threads %v, CPU model '%s', architecture '%s': want the values of the pinned preset and configuration",
			domain.IOThreadsPolicy, domain.CPU.Model, vmi.Spec.Architecture)
	}
	if domain.Firmware.UUID != "5d307ca9-b3ef-428c-8861-06e72d69f223" || domain.Firmware.Serial != "" {
		t.Errorf("firmware %+v: its UUID and serial number are KubeVirt's to choose", domain.Firmware)
	}
	again := create(t, text)
	again.UserInfo = request.UserInfo
	if response := ask(t, c.Hooks()[MutateVMI], again); !response.Allowed || response.Patch != nil {
		t.Errorf("the second call changes what the first has made: %s, %+v", response.Patch, response.Result)
	}
	if response := ask(t, c.Hooks()[ValidateVMI], again); !response.Allowed {
		t.Errorf("validation: %+v", response.Result)
	}
	if len(c.written) > 0 {
		t.Errorf("%d revisions were written that exist", len(c.written))
	}
}

// TestWhoTakesThePinsOfAVM: what is asked, by whom, about which owner. Code 0 means that the VMI is admitted; it has the VM's pins or none.
func TestWhoTakesThePinsOfAVM(t *testing.T) {
	const anothers = "uid: vm-uid"
	for _, test := range []struct {
		why, user string
		edits     []string
		code      int32
		says      string
		pinned    bool
	}{
		{"KubeVirt's controller", virtController, nil, 0, "", true},
		{"a tenant gets nothing", "eve", nil, http.StatusUnprocessableEntity, "only controllers may make a VirtualMachine the owner", false},
		{"an account of that name in another namespace", strings.Replace(virtController, ":kubevirt:", ":eve:", 1), nil, http.StatusUnprocessableEntity,
			"only controllers may make a VirtualMachine the owner", false},
		{"Kiln's own controller has written them itself", controller, nil, 0, "", false},
		{"a VM that was deleted and made again", virtController, []string{anothers, "uid: older"}, http.StatusConflict, "has been replaced by another one", false},
		{"a VM that is gone", virtController, []string{"name: web\n", "name: gone\n", "VirtualMachine, name: web", "VirtualMachine, name: gone"},
			http.StatusConflict, "VirtualMachine 'gone', does not exist", false},
		{"a VM of another name", virtController, []string{"name: web\n", "name: db\n"}, http.StatusConflict, "has an owner of another name", false},
		{"a name that no VM has", virtController, []string{"name: web\n", "name: a/b\n", "VirtualMachine, name: web", "VirtualMachine, name: a/b"},
			http.StatusConflict, "owner of another name", false},
		{"an owner that is not the controller", virtController, []string{", controller: true", ""}, 0, "", false},
		{"a kind of another group", virtController, []string{"kubevirt.io/v1, kind: VirtualMachine,", "eve.io/v1, kind: VirtualMachine,"}, 0, "", false},
		{"an older version of the API", virtController, []string{"kubevirt.io/v1, kind: VirtualMachine,", "kubevirt.io/v1alpha3, kind: VirtualMachine,"},
			0, "", true},
		{"a group that cannot be read", virtController, []string{"kubevirt.io/v1, kind: VirtualMachine,", "a/b/c, kind: VirtualMachine,"}, 0, "", false},
		{"a replica set", virtController, []string{"kind: VirtualMachine,", "kind: VirtualMachineInstanceReplicaSet,"}, 0, "", false},
		{"a bare VMI", virtController, []string{ownedByWeb, ""}, 0, "", false},
	} {
		t.Run(test.why, func(t *testing.T) {
			c := newOwned(t).cluster(t)
			request := theirs(t, "", test.edits...)
			request.UserInfo.Username = test.user
			response := ask(t, c.Hooks()[MutateVMI], request)
			if response.Allowed != (test.code == 0) {
				t.Fatalf("allowed %t: %+v", response.Allowed, response.Result)
			}
			if !response.Allowed {
				if response.Result.Code != test.code || !strings.Contains(response.Result.Message, test.says) {
					t.Errorf("%d: %s", response.Result.Code, response.Result.Message)
				}
				return
			}
			if got := strings.Contains(patched(t, request, response), v1alpha1.AnnotationPins); got != test.pinned {
				t.Errorf("has pins: %t", got)
			}
		})
	}
}
