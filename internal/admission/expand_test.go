package admission

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
)

// preferring has what an expanded VM takes from a preference, into the guest and into its data volumes.
const preferring = `
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterPreference
metadata: {name: fast, uid: p, generation: 1}
spec: {devices: {preferredDiskBus: virtio}, volumes: {preferredStorageClassName: ssd}}
`

// kubeVirts is a revision as KubeVirt's controller writes them.
const kubeVirts = `
apiVersion: apps/v1
kind: ControllerRevision
metadata:
  name: web-small-v1beta1-u-1
  namespace: team
  ownerReferences: [{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: web, uid: w, controller: true}]
data:
  apiVersion: instancetype.kubevirt.io/v1beta1
  kind: VirtualMachineClusterInstancetype
  metadata: {name: small}
  spec: {cpu: {guest: 2}, memory: {guest: 1Gi}}
`

// TestMutatingWebhookRefusesMistakes: the API server asks ValidatingAdmissionPolicies before validating webhooks, and they report less than the webhooks.
func TestMutatingWebhookRefusesMistakes(t *testing.T) {
	hooks := newCluster(t, catalog, preferring, kubeVirts).Hooks()
	conflict := ask(t, hooks[MutateVM], create(t, strings.Replace(sparse, "devices: {}", "devices: {}, cpu: {cores: 1}", 1))).Result
	if conflict == nil || conflict.Code != 422 || conflict.Details.Causes[0].Field != "spec.template.spec.domain.cpu.cores" {
		t.Errorf("a VM that overrides its size: %+v", conflict)
	}
	const guest = `{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: a}, spec: {domain: {devices: {disks: [{name: d}]}}}}`
	wrong := ask(t, hooks[MutateVMI], create(t, guest)).Result
	if wrong == nil || wrong.Code != 422 || len(wrong.Details.Causes) != 2 {
		t.Errorf("a guest without memory, and with a disk without a volume: %+v", wrong)
	}
}

func TestPolicies(t *testing.T) {
	with := func(old, text string) string { return strings.Replace(sparse, old, text, 1) }
	pinned := with("namespace: team", "namespace: team, annotations: {kilnvm.io/pins: '{\"instancetype\":\"PIN\"}'}")
	labelled := func(document string) string {
		return strings.Replace(document, "runStrategy: Always", "runStrategy: Halted", 1)
	}
	ofKubeVirt := sparse + "status: {instancetypeRef: {name: small, kind: VirtualMachineClusterInstancetype, " +
		"controllerRevisionRef: {name: web-small-v1beta1-u-1}}}\n"
	for _, test := range []struct {
		name, why     string
		policy        v1.InstancetypeReferencePolicy
		before, after string
		expanded      bool
	}{
		{name: "reference", why: "the spec stays", policy: v1.Reference, after: sparse},
		{name: "expand", why: "the size belongs into the template, in place of the reference", policy: v1.Expand, after: sparse, expanded: true},
		{name: "expand, never pinned", policy: v1.Expand, before: with("instancetype: {name: small}", ""), after: sparse, expanded: true},
		{name: "expand, pinned", why: "what refers to a revision keeps doing so", policy: v1.Expand, before: pinned, after: labelled(pinned)},
		{name: "expand, pinned by KubeVirt", why: "its revisions count as well", policy: v1.Expand, before: ofKubeVirt, after: labelled(ofKubeVirt)},
		{name: "expandAll", policy: v1.ExpandAll, after: sparse, expanded: true},
		{name: "expandAll, pinned", why: "all", policy: v1.ExpandAll, before: pinned, after: labelled(pinned), expanded: true},
		{name: "unknown size", why: "there is nothing to expand yet", policy: v1.ExpandAll, after: with("name: small", "name: large")},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t, catalog, preferring, kubeVirts)
			cluster := config.Default()
			cluster.Policy = test.policy
			c.Reviewer.Configuration = func() config.Cluster { return cluster }
			pin := pinOf(t, c)
			before, after := strings.ReplaceAll(test.before, "PIN", pin), strings.ReplaceAll(test.after, "PIN", pin)
			request := create(t, after)
			if before != "" {
				request = update(t, before, after)
			}
			response := ask(t, c.Hooks()[MutateVM], request)
			if !response.Allowed {
				t.Fatalf("%+v", response.Result)
			}
			admitted := patched(t, request, response)
			var vm v1.VirtualMachine
			if err := json.Unmarshal([]byte(admitted), &vm); err != nil {
				t.Fatal(err)
			}
			memory := vm.Spec.Template.Spec.Domain.Memory
			_, refers := vm.Annotations[v1alpha1.AnnotationPins]
			if expanded := vm.Spec.Instancetype == nil && memory != nil && memory.Guest.String() == "1Gi" && !refers; expanded != test.expanded {
				t.Fatalf("%s: expanded %t: %s", test.why, expanded, admitted)
			}
			if !test.expanded {
				return
			}
			again := create(t, admitted)
			again.DryRun = new(true) // what was updated here has no identity yet
			if second := ask(t, c.Hooks()[MutateVM], again); second.Patch != nil {
				t.Errorf("expanding what is expanded: %s", second.Patch)
			}
			if validated := ask(t, c.Hooks()[ValidateVM], create(t, admitted)); !validated.Allowed {
				t.Errorf("what was expanded is refused: %+v", validated.Result)
			}
		})
	}
}

// pinOf is the revision that a VM of the catalog's size is pinned to.
func pinOf(t *testing.T, c *cluster) string {
	t.Helper()
	cluster := c.Reviewer.Configuration
	defer func() { c.Reviewer.Configuration = cluster }()
	c.Reviewer.Configuration = config.Default
	response := ask(t, c.Hooks()[MutateVM], create(t, sparse))
	if len(c.written) != 1 || !response.Allowed {
		t.Fatalf("%d revisions", len(c.written))
	}
	pin := c.written[0].Name
	c.written = nil
	return pin
}

func TestExpandedTemplates(t *testing.T) {
	c := newCluster(t, catalog, preferring)
	cluster := config.Default()
	cluster.Policy = v1.Expand
	c.Reviewer.Configuration = func() config.Cluster { return cluster }
	request := create(t, strings.Replace(sparse, "instancetype: {name: small}", `instancetype: {name: small}
  preference: {name: fast}
  dataVolumeTemplates:
  - {metadata: {name: a}, spec: {source: {blank: {}}, storage: {}}}
  - {metadata: {name: b}, spec: {source: {blank: {}}, pvc: {storageClassName: own}}}`, 1))
	request.Object.Raw = []byte(strings.Replace(string(request.Object.Raw), `"devices":{}}`,
		`"devices":{}},"volumes":[{"name":"a","dataVolume":{"name":"a"}},{"name":"b","dataVolume":{"name":"b"}}]`, 1))
	var vm v1.VirtualMachine
	if err := json.Unmarshal([]byte(patched(t, request, ask(t, c.Hooks()[MutateVM], request))), &vm); err != nil {
		t.Fatal(err)
	}
	disks, templates := vm.Spec.Template.Spec.Domain.Devices.Disks, vm.Spec.DataVolumeTemplates
	if len(disks) != 2 || disks[0].Disk.Bus != "virtio" {
		t.Errorf("disks %+v: the preference speaks of disks that nobody names", disks)
	}
	if class := templates[0].Spec.Storage.StorageClassName; class == nil || *class != "ssd" || *templates[1].Spec.PVC.StorageClassName != "own" {
		t.Errorf("templates %+v: the reference goes, so that its storage class must be written down", templates)
	}
	if len(c.written) > 0 {
		t.Errorf("%d revisions: an expanded VM refers to nothing", len(c.written))
	}
}
