package subresources

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/subresource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

// TestExpand: what expand-spec answers is a VM without references, which means the same.
func TestExpand(t *testing.T) {
	s := newSpace(t)
	s.make("web", v1.RunStrategyHalted)
	for _, answer := range []reply{
		s.expect(http.MethodGet, "vm/web/expand-spec", "", 200, ""),
		s.expect(http.MethodPut, "namespace/expand-vm-spec", s.kubectl("", "get", "vm", "web", "-o", "json"), 200, ""),
	} {
		vm := &v1.VirtualMachine{}
		if err := json.Unmarshal([]byte(answer.text), vm); err != nil {
			t.Fatal(err)
		}
		if vm.Kind != "VirtualMachine" || vm.Spec.Instancetype != nil || vm.Spec.Preference != nil || vm.Spec.Template.Spec.Domain.Memory == nil {
			t.Errorf("the VM is not expanded: %.500s", answer.text)
		}
		vm.ObjectMeta = metav1.ObjectMeta{Name: "copy", Namespace: s.name, Annotations: vm.Annotations}
		raw, err := json.Marshal(vm)
		if err != nil {
			t.Fatal(err)
		}
		s.kubectl(string(raw), "create", "--dry-run=server", "-f", "-")
	}
	for _, c := range []struct {
		body, words string
	}{
		{"", "empty request body"},
		{"[", "neither JSON nor YAML"},
		{`{"spec":1}`, "the body is no"},
		{`{"apiVersion":"v1","kind":"Pod"}`, "want a VirtualMachine"},
		{`{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"a"},"spec":{"runStrategy":"Halted"}}`, "spec.template"},
		{`{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"a","namespace":"other"},"spec":{}}`, "metadata.namespace"},
		{`{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"a"},"spec":{"runStrategy":"Halted","instancetype":{"name":"absent"},` +
			`"template":{"spec":{"domain":{"devices":{}}}}}}`, "absent"},
		{`{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","spec":{"template":{"spec":{"domain":{"devices":{"disks":[` + strings.Repeat(`{},`, 100_000) +
			`{}]}}}}}}`, "spec.template.spec.domain.devices.disks: Too many"},
	} {
		s.expect(http.MethodPut, "namespace/expand-vm-spec", c.body, 400, c.words)
	}
}

// TestVolumes: addvolume and removevolume change the template; a VM that runs says that it needs a restart.
func TestVolumes(t *testing.T) {
	s := newSpace(t)
	s.make("web", v1.RunStrategyManual)
	s.expect(http.MethodPut, "vm/web/start", "", 202, "")
	s.vmi("web", nil)
	s.phase("web", v1.Running)
	const added = `{"name":"more","disk":{"disk":{"bus":"scsi"}},"volumeSource":{"persistentVolumeClaim":{"claimName":"more"}}}`
	s.expect(http.MethodPut, "vm/web/addvolume", strings.Replace(added, `"name"`, `"dryRun":["All"],"name"`, 1), 202, "")
	if got := s.vm("web").Spec.Template.Spec.Volumes; len(got) != 1 {
		t.Errorf("a dry run has added a volume: %v", got)
	}
	s.expect(http.MethodPut, "vm/web/addvolume", added, 202, "")
	spec := s.vm("web").Spec.Template.Spec
	if len(spec.Volumes) != 2 || len(spec.Domain.Devices.Disks) != 2 || !spec.Volumes[1].PersistentVolumeClaim.Hotpluggable {
		t.Errorf("volumes %v, disks %v", spec.Volumes, spec.Domain.Devices.Disks)
	}
	s.eventually("the VM needs a restart", func() bool {
		for _, condition := range s.vm("web").Status.Conditions {
			if condition.Type == v1.VirtualMachineRestartRequired {
				return strings.Contains(condition.Message, "more")
			}
		}
		return false
	})
	s.expect(http.MethodPut, "vm/web/addvolume", added, 409, "already exists")
	s.expect(http.MethodPut, "vm/web/addvolume", strings.Replace(added, `"name":"more"`, `"name":"again"`, 1), 409, "because it already exists")
	s.expect(http.MethodPut, "vm/web/removevolume", `{"name":"data"}`, 409, "not hotpluggable")
	s.expect(http.MethodPut, "vm/web/removevolume", `{"name":"absent"}`, 409, "does not exist")
	s.expect(http.MethodPut, "vm/web/removevolume", `{"name":"more"}`, 202, "")
	if got := s.vm("web").Spec.Template.Spec; len(got.Volumes) != 1 || len(got.Domain.Devices.Disks) != 1 {
		t.Errorf("after removal there are volumes %v, disks %v", got.Volumes, got.Domain.Devices.Disks)
	}
	for body, words := range map[string]string{
		"{}": "name: Required", `{"name":"a"}`: "disk: Required", `{"name":"a","disk":{}}`: "volumeSource: Required",
		`{"name":"a","disk":{},"volumeSource":{}}`: "volumeSource",
	} {
		s.expect(http.MethodPut, "vm/web/addvolume", body, 400, words)
	}
	// Admission judges the result: a disk on a bus that does not exist.
	s.expect(http.MethodPut, "vm/web/addvolume", strings.Replace(added, "scsi", "floppy", 1), 422, "spec.template.spec.domain.devices.disks")
}

// TestGraph: the objects that a VM depends on.
func TestGraph(t *testing.T) {
	s := newSpace(t)
	s.make("web", v1.RunStrategyHalted)
	kinds := func(answer reply) (list []string) {
		root := v1.ObjectGraphNode{}
		if err := json.Unmarshal([]byte(answer.text), &root); err != nil {
			t.Fatal(err)
		}
		for _, child := range root.Children {
			list = append(list, child.ObjectReference.Kind+" "+child.ObjectReference.Name)
		}
		return list
	}
	whole := strings.Join(kinds(s.expect(http.MethodGet, "vm/web/objectgraph", "", 200, "")), ", ")
	for _, want := range []string{"VirtualMachineClusterInstancetype small", "VirtualMachineClusterPreference linux"} {
		if !strings.Contains(whole, want) {
			t.Errorf("no %s in %s", want, whole)
		}
	}
	s.expect(http.MethodGet, "vmi/web/objectgraph", "", 404, "not found")
}

// TestBadInput: each is answered, and the server goes on.
func TestBadInput(t *testing.T) {
	s := newSpace(t)
	s.make("web", v1.RunStrategyHalted)
	for _, c := range []struct {
		verb, path, body string
		code             int
		words            string
	}{
		{http.MethodPut, "vm/web/nothing", "", 404, ""},
		{http.MethodPost, "vm/web/start", "", 405, ""},
		{http.MethodPut, "vm/web/start", "{", 400, "neither JSON nor YAML"},
		{http.MethodPut, "vm/web/start", `{"paused":"yes"}`, 400, "StartOptions"},
		{http.MethodPut, "vm/web/start", `{"dryRun":["Some"]}`, 400, "dryRun[0]"},
		{http.MethodPut, "vm/web/start", strings.Repeat(" ", 10<<20), 413, "more than"},
		{http.MethodPut, "vm/web/start", "paused: [1, 2", 400, "neither JSON nor YAML"},
		{http.MethodPut, "vm/web/addvolume", `{"name":"more","disk":{},"dryRun":[` + strings.Repeat(`"",`, 2000) + `""]}`, 400, "dryRun"},
		{http.MethodPut, "vmi/web/pause", "", 404, "not found"},
		{http.MethodGet, "vmi/web/console", "", 404, "not found"},
		{http.MethodGet, "vm/web/portforward/22", "", 409, "VMI is not started"},
		{http.MethodPut, "vm/" + strings.Repeat("a", 4000) + "/start", "", 404, ""},
		{http.MethodPut, "vm/%2e%2e/start", "", 400, "may not be"},
	} {
		s.expect(c.verb, c.path, c.body, c.code, c.words)
	}
	answer := s.call(http.MethodPut, "vm/web/start", `{"dryRun":["All"],"pausde":true}`)
	if answer.code != 202 || !strings.Contains(strings.Join(answer.warnings, ""), "pausde") {
		t.Errorf("an unknown field: status %d, warnings %q", answer.code, answer.warnings)
	}
}

// TestGuestCalls: what is asked of a guest is refused with the reason where it has no pod of Kiln's, or is not in the state for it.
func TestGuestCalls(t *testing.T) {
	s := newSpace(t)
	s.make("web", v1.RunStrategyAlways)
	s.vmi("web", nil)
	for _, path := range []string{"pause", "unpause", "reset", "softreboot", "freeze", "unfreeze"} {
		s.expect(http.MethodPut, "vmi/web/"+path, "", 409, "VMI is not running")
	}
	s.expect(http.MethodGet, "vmi/web/console", "", 400, "VMI is not running")
	s.expect(http.MethodGet, "vmi/web/vnc", "", 400, "VMI is not running")
	s.phase("web", v1.Running)
	for _, path := range []string{"pause", "reset", "softreboot", "freeze", "unfreeze"} {
		s.expect(http.MethodPut, "vmi/web/"+path, "", 409, "the guest does not run in a pod of Kiln's")
	}
	s.expect(http.MethodPut, "vmi/web/pause", `{"dryRun":["All"]}`, 200, "")
	s.expect(http.MethodPut, "vmi/web/unpause", "", 409, "VMI is not paused")
	s.expect(http.MethodGet, "vmi/web/guestosinfo", "", 409, "guest agent")
	s.expect(http.MethodGet, "vmi/web/console", "", 409, "does not run in a pod of Kiln's")
	s.expect(http.MethodGet, "vmi/web/vnc?preserveSession=perhaps", "", 400, "preserveSession")
	for _, port := range []string{"0", "65536", "ssh", "22/sctp"} {
		s.expect(http.MethodGet, "vmi/web/portforward/"+port, "", 400, "")
	}
	s.expect(http.MethodGet, "vmi/web/portforward/22", "", 409, "does not run in a pod of Kiln's")
	s.phase("web", v1.Running, v1.VirtualMachineInstancePaused)
	s.expect(http.MethodPut, "vmi/web/pause", "", 409, "already paused")
	s.expect(http.MethodPut, "vmi/web/softreboot", "", 409, "VMI is paused")
	s.expect(http.MethodGet, "vmi/web/portforward/22", "", 409, "VMI is paused")
}

// TestUnserved: each subresource of KubeVirt that is not served says why.
func TestUnserved(t *testing.T) {
	s := newSpace(t)
	s.make("web", v1.RunStrategyHalted)
	for _, row := range subresource.Table() {
		if row.Served {
			continue
		}
		path := row.Name
		switch row.Resource {
		case "virtualmachines":
			path = "vm/web/" + row.Name
		case "virtualmachineinstances":
			path = "vmi/web/" + row.Name
		}
		answer := s.expect(row.Verb, path, "", 501, row.Doc)
		if answer.status.Kind != "Status" {
			t.Errorf("%s: no Status: %s", path, answer.text)
		}
	}
}

// TestDiscovery: clients find the group, and no resource of it stands in the way of kubevirt.io's.
func TestDiscovery(t *testing.T) {
	s := newSpace(t)
	list := metav1.APIResourceList{}
	if err := json.Unmarshal([]byte(s.expect(http.MethodGet, "", "", 200, "").text), &list); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, resource := range list.APIResources {
		names[resource.Name] = true
	}
	for _, row := range subresource.Table() {
		if row.Resource != "" && !names[row.Resource+"/"+row.Name] {
			t.Errorf("discovery does not have %s/%s", row.Resource, row.Name)
		}
	}
	if names["virtualmachines"] {
		t.Error("discovery has virtualmachines, which are kubevirt.io's")
	}
	if got := s.kubectl("", "get", "virtualmachines", "-o", "name"); got != "" {
		t.Errorf("kubectl gets %s", got)
	}
	s.expect(http.MethodGet, "version", "", 200, "gitVersion")
	s.expect(http.MethodGet, "healthz", "", 200, "connectivity")
	for _, version := range []string{"v1", "v1alpha3"} {
		s.eventually("OpenAPI has "+version, func() bool { // Kubernetes' API server reads it once in a while
			text, _, err := shared.Kubectl(t.Context(), "", "get", "--raw", "/openapi/v3/apis/subresources.kubevirt.io/"+version)
			return err == nil && strings.Contains(text, "virtualmachines/{name}/start")
		})
	}
}

// TestRights: KubeVirt's roles say who may do what (Kubernetes' own roles get them from a controller that does not run here), and a
// GET that starts a VM needs more than to read.
func TestRights(t *testing.T) {
	s := newSpace(t)
	s.make("web", v1.RunStrategyManual)
	for user, role := range map[string]string{"viewer": "kubevirt.io:view", "editor": "kubevirt.io:edit", "owner": "kubevirt.io:admin"} {
		s.kubectl("", "create", "rolebinding", user, "--clusterrole="+role, "--user="+user)
	}
	s.kubectl(fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"reader","namespace":%q},"rules":[
		{"apiGroups":["subresources.kubevirt.io"],"resources":["virtualmachines/start","virtualmachines/stop"],"verbs":["get"]}]}`, s.name), "create", "-f", "-")
	s.kubectl("", "create", "rolebinding", "reader", "--role=reader", "--user=reader")
	as := func(user string) space { s := s; s.user = user; return s }
	as("viewer").expect(http.MethodPut, "vm/web/start", "", 403, "cannot update resource")
	as("viewer").expect(http.MethodGet, "vm/web/start", "", 403, "cannot get resource")
	as("viewer").expect(http.MethodGet, "vm/web/expand-spec", "", 200, "")
	as("reader").expect(http.MethodGet, "vm/web/start", "", 403, "cannot update it in namespace")
	as("reader").expect(http.MethodGet, "vm/web/stop", "", 403, "cannot update it in namespace")
	as("nobody").expect(http.MethodGet, "version", "", 200, "")
	as("nobody").expect(http.MethodGet, "vm/web/expand-spec", "", 403, "")
	for _, user := range []string{"editor", "owner"} {
		as(user).expect(http.MethodGet, "vm/web/start", "", 202, "")
		s.vmi("web", nil)
		s.phase("web", v1.Running)
		as(user).expect(http.MethodPut, "vm/web/stop", "", 202, "")
		s.gone("web")
	}
}
