package walk

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/kilnvm/kiln/test/cgroups"
)

// What attackers did to earlier versions, step by step: at random no walk would get so far. Webhook and controller run under the memory limit of their
// manifests meanwhile.

// podMemory is the limit of webhook and controller in their manifests, in bytes.
const podMemory = 512 << 20

// limitPods puts webhook and controller under the memory limit that their pods have. The kernel ends a process that exceeds it, as a node would.
func (w *world) limitPods() {
	w.Helper()
	root, limit := w.memoryCgroup()
	if root == "" {
		w.Log("no cgroup of this machine can limit memory: the peak of the processes is compared with the limit alone")
		return
	}
	for name, pid := range w.limitedProcesses() {
		group := filepath.Join(root, fmt.Sprintf("kiln-walk-%d-%s", os.Getpid(), name))
		if err := os.Mkdir(group, 0o755); err != nil {
			w.Fatal(err)
		}
		w.Cleanup(func() { w.removeCgroup(group) })
		for file, value := range map[string]string{limit: fmt.Sprint(podMemory), "cgroup.procs": fmt.Sprint(pid)} {
			if err := os.WriteFile(filepath.Join(group, file), []byte(value), 0o644); err != nil {
				w.Fatal(err)
			}
		}
	}
}

// removeCgroup removes a cgroup. Its process may run on until the cluster is closed, and goes back to the cgroup above, because only an empty one can be
// removed.
func (w *world) removeCgroup(group string) {
	pids, err := os.ReadFile(filepath.Join(group, "cgroup.procs"))
	for _, pid := range strings.Fields(string(pids)) {
		moved := os.WriteFile(filepath.Join(filepath.Dir(group), "cgroup.procs"), []byte(pid), 0o644)
		if moved != nil && !errors.Is(moved, syscall.ESRCH) { // the process has ended
			err = moved
		}
	}
	if err == nil {
		err = os.Remove(group)
	}
	if err != nil {
		w.Error(err)
	}
}

// memoryCgroup returns the folder below which cgroups can limit memory, and the name of their file with the limit; both are empty if no cgroup can. On version
// 2 the machine must have given the controller to the cgroups below the root, as systemd does.
func (w *world) memoryCgroup() (root, limit string) {
	groups, err := cgroups.Read()
	if err != nil {
		return "", ""
	}
	if root, err = groups.Root("memory"); err != nil {
		return "", ""
	}
	if !groups.Unified {
		return root, "memory.limit_in_bytes"
	}
	given, err := os.ReadFile(filepath.Join(root, "cgroup.subtree_control"))
	if err != nil || !slices.Contains(strings.Fields(string(given)), "memory") {
		return "", ""
	}
	return root, "memory.max"
}

// limitedProcesses returns the processes of webhook and controller by name.
func (w *world) limitedProcesses() map[string]int {
	all := w.on.Running()
	maps.DeleteFunc(all, func(name string, _ int) bool {
		return !strings.HasPrefix(name, "webhook-") && !strings.HasPrefix(name, "controller-")
	})
	return all
}

// staysWithin compares the peaks of the processes with the limit, and lists them.
func (w *world) staysWithin() {
	w.Helper()
	for name, pid := range w.limitedProcesses() {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			w.Errorf("%s has ended: %v", name, err)
			continue
		}
		_, rest, _ := strings.Cut(string(status), "VmHWM:")
		var peak int
		if _, err := fmt.Sscan(rest, &peak); err != nil {
			w.Fatal(err)
		}
		w.Logf("%s had %d MiB at most", name, peak>>10)
		if peak<<10 > podMemory {
			w.Errorf("%s had %d MiB, more than its pod may have", name, peak>>10)
		}
	}
}

// holes does what earlier versions let through.
func (a *tenant) holes() {
	a.Helper()
	a.growWhatIsDeleted()
	a.fillTheNamespace()
	a.relabel()
	a.leaveNamesOut()
}

// do sends a request with a body, and returns the answer. The path may have a query.
func (a *tenant) do(method, path, contentType string, body any) answer {
	a.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		a.Fatal(err)
	}
	path, query, _ := strings.Cut(path, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		a.Fatal(err)
	}
	return a.ask(request{method: method, path: path, query: values, contentType: contentType, body: raw})
}

const mergePatch = "application/merge-patch+json"

// growWhatIsDeleted updates objects that are being deleted to ones that no cache holds.
func (a *tenant) growWhatIsDeleted() {
	a.Helper()
	list := func(n int) []any {
		all := make([]any, n)
		for i := range all {
			all[i] = map[string]any{"name": fmt.Sprint("n", i), "deviceName": "example.org/d"}
		}
		return all
	}
	values := func(n int) map[string]any {
		all := map[string]any{}
		for i := range n {
			all[fmt.Sprint("key-", i)] = "value"
		}
		return all
	}
	for _, c := range []struct {
		resource
		kind        string
		small, grow map[string]any
	}{
		{resource{group: "instancetype.kubevirt.io", version: "v1beta1", name: "virtualmachineinstancetypes", namespaced: true}, "VirtualMachineInstancetype",
			map[string]any{"cpu": map[string]any{"guest": 1}, "memory": map[string]any{"guest": "64Mi"}}, map[string]any{"gpus": list(40_000)}},
		{resource{group: "instancetype.kubevirt.io", version: "v1beta1", name: "virtualmachinepreferences", namespaced: true}, "VirtualMachinePreference",
			map[string]any{}, map[string]any{"annotations": values(40_000)}},
		{resource{group: "kubevirt.io", version: "v1", name: "virtualmachineinstancepresets", namespaced: true}, "VirtualMachineInstancePreset",
			map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"no": "vm"}}, "domain": map[string]any{"ioThreadsPolicy": "shared"}},
			map[string]any{"selector": map[string]any{"matchLabels": values(20_000)}}},
		{resource{group: "kilnvm.io", version: "v1alpha1", name: "guestprofiles", namespaced: true}, "GuestProfile",
			map[string]any{"template": map[string]any{"spec": map[string]any{"hostname": "a"}}},
			map[string]any{"template": map[string]any{"spec": map[string]any{"nodeSelector": values(20_000)}}}},
	} {
		for i := range 20 {
			name := fmt.Sprintf("grows-%d", i)
			made := a.do(http.MethodPost, c.path(a.own, ""), "application/json", map[string]any{"apiVersion": c.group + "/" + c.version, "kind": c.kind,
				"metadata": map[string]any{"name": name, "finalizers": []any{"example.org/hold"}}, "spec": c.small})
			if made.status != http.StatusCreated {
				a.Errorf("%s %s cannot be created: %d %.500s", c.name, name, made.status, made.body)
				break
			}
			a.ask(request{method: http.MethodDelete, path: c.path(a.own, name), query: url.Values{}})
			grown := a.do(http.MethodPatch, c.path(a.own, name), mergePatch, map[string]any{"spec": c.grow})
			if grown.status < 400 || grown.status >= 500 {
				a.Errorf("%s %s is being deleted and grows: %d %.300s", c.name, name, grown.status, grown.body)
			}
			freed := a.do(http.MethodPatch, c.path(a.own, name), mergePatch, map[string]any{"metadata": map[string]any{"finalizers": nil}})
			if freed.status != http.StatusOK {
				a.Errorf("the finalizer of %s %s does not go: %d %.300s", c.name, name, freed.status, freed.body)
			}
		}
	}
}

// fillTheNamespace creates legal profiles of 36 kB until they are refused.
func (a *tenant) fillTheNamespace() {
	a.Helper()
	of := resource{group: "kilnvm.io", version: "v1alpha1", name: "guestprofiles", namespaced: true}
	labels := map[string]any{}
	for i := range 400 {
		labels[fmt.Sprintf("k%d.example.org/label-%[1]d", i)] = strings.Repeat("v", 40)
	}
	const most = 400
	for i := range most {
		made := a.do(http.MethodPost, of.path(a.own, ""), "application/json", map[string]any{"apiVersion": "kilnvm.io/v1alpha1", "kind": "GuestProfile",
			"metadata": map[string]any{"name": fmt.Sprint("fills-", i)},
			"spec": map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"no": "vm"}}, "template": map[string]any{
				"metadata": map[string]any{"labels": labels}}}})
		if made.status == http.StatusCreated {
			continue
		}
		if made.status != http.StatusUnprocessableEntity || !strings.Contains(string(made.body), "are allowed: delete those that no VM needs") {
			a.Errorf("profile %d: %d %.500s", i, made.status, made.body)
		}
		a.Logf("%d profiles of %d bytes are let in", i, 400*80)
		a.ask(request{method: http.MethodDelete, path: of.path(a.own, ""), query: url.Values{"labelSelector": {""}}})
		return
	}
	a.Errorf("%d profiles of 32 kB are let in", most)
}

// relabel writes a label that a policy forbids by an update of only the metadata.
func (a *tenant) relabel() {
	a.Helper()
	of := resource{group: "kubevirt.io", version: "v1", name: "virtualmachines", namespaced: true}
	vm := map[string]any{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": map[string]any{"name": "relabelled"},
		"spec": map[string]any{"runStrategy": "Halted", "template": map[string]any{"spec": map[string]any{
			"domain": map[string]any{"memory": map[string]any{"guest": "64Mi"}, "devices": map[string]any{}}}}}}
	if made := a.do(http.MethodPost, of.path(a.own, ""), "application/json", vm); made.status != http.StatusCreated {
		a.Fatalf("the VM cannot be created: %d %.500s", made.status, made.body)
	}
	a.kubectl(`{apiVersion: kilnvm.io/v1alpha1, kind: GuestPolicy, metadata: {name: walk-labels}, spec: {matchConstraints: {namespaceSelector: {matchLabels:
  {kubernetes.io/metadata.name: `+a.own+`}}}, validations: [{expression: "object.metadata.?labels['walk.example.org/forbidden'].orValue('') == ''",
  message: "no such label"}]}}`,
		"apply", "-f", "-")
	defer a.kubectl("", "delete", "guestpolicy", "walk-labels")
	forbidden := map[string]any{"metadata": map[string]any{"labels": map[string]any{"walk.example.org/forbidden": "x"}}}
	vm["metadata"] = map[string]any{"name": "other", "labels": map[string]any{"walk.example.org/forbidden": "x"}}
	a.eventually("the policy counts", func() bool {
		return a.do(http.MethodPost, of.path(a.own, "")+"?dryRun=All", "application/json", vm).status == http.StatusUnprocessableEntity
	})
	if got := a.do(http.MethodPatch, of.path(a.own, "relabelled"), mergePatch, forbidden); got.status != http.StatusUnprocessableEntity {
		a.Errorf("a label that a policy forbids is written by an update of metadata: %d %.300s", got.status, got.body)
	}
	a.ask(request{method: http.MethodDelete, path: of.path(a.own, "relabelled"), query: url.Values{}})
}

// leaveNamesOut asks for subresources of nothing.
func (a *tenant) leaveNamesOut() {
	a.Helper()
	for _, path := range []string{"virtualmachines//start", "virtualmachineinstances//pause", "virtualmachineinstances//console"} {
		for _, version := range []string{"v1", "v1alpha3"} {
			got := a.do(http.MethodPut, "/apis/subresources.kubevirt.io/"+version+"/namespaces/"+a.own+"/"+path, "application/json", map[string]any{})
			if got.status >= http.StatusInternalServerError {
				a.Errorf("%s: %d %.300s", path, got.status, got.body)
			}
		}
	}
}
