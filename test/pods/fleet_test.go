package pods

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	v1 "kubevirt.io/api/core/v1"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/workbench/startcheck"
	"github.com/kilnvm/kiln/test/nightly"
)

// fleetSort is a sort of VM of TestFleet, with what must be said of it.
type fleetSort struct {
	name     string
	manifest func(name string) string
	// reason is the reason of condition Placeable, whose status is True only with NodeFits. Message is a part of its message.
	reason, message string
	// printed is the printable status after a start, and cause is a part of the cause of 'kubectl kiln why' then.
	printed v1.VirtualMachinePrintableStatus
	cause   string
}

// member is one VM of TestFleet.
type member struct {
	types.NamespacedName
	sort *fleetSort
}

func newMember(n *tenant, of *fleetSort, i int) member {
	return member{types.NamespacedName{Namespace: n.namespace, Name: fmt.Sprintf("%s-%d", of.name, i)}, of}
}

// fleet has the VMs of TestFleet.
type fleet struct {
	*tenant
	client dynamic.Interface
	tool   tool
}

// lean is YAML of a domain that requests little of a CPU.
const lean = "resources: {requests: {cpu: 10m}}"

func leanVM(name string) string { return firmware(name, "", lean) }

// impossibles are the sorts of VMs that no node can run, or that lack an object. Two further sorts are in namespaces of their own.
var impossibles = []fleetSort{
	{
		name: "label", manifest: func(name string) string { return firmware(name, only("nowhere"), lean) },
		reason: v1alpha1.ReasonNoNodeMatches, message: "kubernetes.io/hostname=nowhere",
		printed: v1.VirtualMachineStatusUnschedulable, cause: "no node matches the node selector",
	},
	{
		name: "affinity", manifest: func(name string) string {
			return firmware(name, "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "+
				"[{matchExpressions: [{key: example.com/rack, operator: Exists}]}]}}}", lean)
		},
		reason: v1alpha1.ReasonNoNodeMatches, message: "affinity.nodeAffinity",
		printed: v1.VirtualMachineStatusUnschedulable, cause: "no node matches the node selector or affinity",
	},
	{
		name: "memory", manifest: func(name string) string { return sized(name, "3Ti") },
		reason: v1alpha1.ReasonNoNodeLargeEnough, message: "memory",
		printed: v1.VirtualMachineStatusUnschedulable, cause: "no node is large enough for its pod",
	},
	{
		name: "cpus", manifest: func(name string) string { return firmware(name, "", "resources: {requests: {cpu: 500}}") },
		reason: v1alpha1.ReasonNoNodeLargeEnough, message: "cpu",
		printed: v1.VirtualMachineStatusUnschedulable, cause: "no node is large enough for its pod",
	},
	{
		name: "pages", manifest: func(name string) string { return sized(name, "1Gi, hugepages: {pageSize: 1Gi}") },
		reason: v1alpha1.ReasonNoNodeHasHugePages, message: "hugepages-1Gi",
		printed: v1.VirtualMachineStatusUnschedulable, cause: "no node has so many huge pages",
	},
	{
		name: "claim", manifest: func(name string) string { return withVolume(name, "persistentVolumeClaim: {claimName: none}") },
		reason: v1alpha1.ReasonFailedPvcNotFound, message: "'none'",
		printed: v1.VirtualMachineStatusPvcNotFound, cause: "'none'",
	},
	{
		name: "secret", manifest: func(name string) string { return withVolume(name, "cloudInitNoCloud: {secretRef: {name: none}}") },
		reason: v1alpha1.ReasonReferenceNotFound, message: "no Secret 'none'",
		printed: v1.VirtualMachineStatusUnschedulable, cause: "no Secret 'none'",
	},
	{
		name: "configmap", manifest: func(name string) string { return withVolume(name, "configMap: {name: none}") },
		reason: v1alpha1.ReasonReferenceNotFound, message: "no ConfigMap 'none'",
		printed: v1.VirtualMachineStatusUnschedulable, cause: "no ConfigMap 'none'",
	},
	{
		name: "account", manifest: func(name string) string { return withVolume(name, "serviceAccount: {serviceAccountName: none}") },
		reason: v1alpha1.ReasonReferenceNotFound, message: "no ServiceAccount 'none'",
		printed: v1.VirtualMachineStatusUnschedulable, cause: "no ServiceAccount 'none'",
	},
}

var (
	overQuota = fleetSort{
		name: "quota", manifest: leanVM, reason: v1alpha1.ReasonQuotaExceeded, message: "'none'",
		printed: v1.VirtualMachineStatusUnschedulable, cause: "exceeded quota: none",
	}
	overLimit = fleetSort{
		name: "limit", manifest: leanVM, reason: v1alpha1.ReasonOutsideLimitRange, message: "'none'",
		printed: v1.VirtualMachineStatusUnschedulable, cause: "a LimitRange of the namespace forbids it",
	}
	fitting = fleetSort{name: "fits", manifest: leanVM, reason: v1alpha1.ReasonNodeFits, printed: v1.VirtualMachineStatusRunning, cause: "The guest runs"}
)

const (
	// third is the number of VMs of each kind: impossible, waiting for room, fitting.
	third = 100
	// wide is the number of fitting guests that run at a time.
	wide = 20
)

// TestFleet: of 300 VMs on two nodes, a third has no place, a third has room only when another guest stops, and a third has room. What condition Placeable says
// before the start, and what 'kubectl kiln why' says before and after the start, is compared with what happens.
func TestFleet(t *testing.T) {
	nightly.Only(t)
	f := &fleet{tenant: newTenant(t, "fleet"), client: admin(t), tool: buildTool(t)}
	join(t)
	nodes, size := f.nodeSize()
	quota, limit := newTenant(t, "fleet-quota"), newTenant(t, "fleet-limit")
	quota.apply("apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: none}\nspec: {hard: {pods: 0}}\n")
	limit.apply("apiVersion: v1\nkind: LimitRange\nmetadata: {name: none}\nspec: {limits: [{type: Pod, max: {memory: 16Mi}}]}\n")
	waiting := fleetSort{
		name: "waits", manifest: func(name string) string { return sized(name, fmt.Sprint(size*16/100)) }, reason: v1alpha1.ReasonNodeFits,
		printed: v1.VirtualMachineStatusUnschedulable, cause: "no node has room for its pod",
	}
	var none, later, now []member
	for i := range third {
		switch at := i % (len(impossibles) + 2); at {
		default:
			none = append(none, newMember(f.tenant, &impossibles[at], i))
		case len(impossibles):
			none = append(none, newMember(limit, &overLimit, i))
		case len(impossibles) + 1:
			none = append(none, newMember(quota, &overQuota, i))
		}
		later, now = append(later, newMember(f.tenant, &waiting, i)), append(now, newMember(f.tenant, &fitting, i))
	}
	f.createHalted(slices.Concat(none, later, now))
	f.checkVerdicts(slices.Concat(none, later, now))
	f.checkNotes(none)

	for wave := range slices.Chunk(now, wide) {
		f.setStrategy(v1.RunStrategyAlways, wave...)
		f.awaitPrinted(wave)
		f.checkCauses(wave)
		f.setStrategy(v1.RunStrategyHalted, wave...)
	}
	f.awaitStatus("stopped", now, v1.VirtualMachineStatusStopped)

	var holders []member
	for i, node := range nodes {
		holder := fleetSort{name: "holder", printed: v1.VirtualMachineStatusRunning, manifest: func(name string) string {
			return strings.Replace(firmware(name, only(node), lean), "guest: 64Mi", fmt.Sprintf("guest: %d", size*85/100), 1)
		}}
		holders = append(holders, newMember(f.tenant, &holder, i))
	}
	f.createHalted(holders)
	f.setStrategy(v1.RunStrategyAlways, holders...)
	f.awaitPrinted(holders)
	f.setStrategy(v1.RunStrategyAlways, slices.Concat(none, later)...)
	f.awaitPrinted(slices.Concat(none, later))
	f.checkCauses(slices.Concat(none, later))
	f.checkVerdicts(later)
	f.setStrategy(v1.RunStrategyHalted, holders...)
	f.runInTurns(later)
	f.awaitPrinted(none) // none of them has started meanwhile
	f.checkVerdicts(none)
	f.checkCauses(none)
}

// sized is a VM with an amount of memory.
func sized(name, memory string) string {
	return strings.Replace(leanVM(name), "guest: 64Mi", "guest: "+memory, 1)
}

// nodeSize returns the names of the nodes, and the allocatable memory of the smallest one in bytes.
func (f *fleet) nodeSize() (names []string, size int64) {
	f.Helper()
	out, err := shared.Kubectl(f.Context(), "get", "nodes", "-o", `jsonpath={range .items[*]}{.metadata.name} {.status.allocatable.memory}{"\n"}{end}`)
	if err != nil {
		f.Fatal(err, out)
	}
	for line := range strings.Lines(out) {
		name, memory, _ := strings.Cut(strings.TrimSpace(line), " ")
		quantity := resource.MustParse(memory)
		if names = append(names, name); size == 0 || quantity.Value() < size {
			size = quantity.Value()
		}
	}
	return names, size
}

// createHalted creates VMs that nobody has started.
func (f *fleet) createHalted(members []member) {
	f.Helper()
	for _, m := range members {
		if _, err := f.client.Resource(vmKind).Namespace(m.Namespace).Create(f.Context(), parse(f, halted(m.sort.manifest(m.Name))),
			metav1.CreateOptions{}); err != nil {
			f.Fatal(m.Name, err)
		}
	}
}

// setStrategy sets the run strategy of VMs.
func (f *fleet) setStrategy(strategy v1.VirtualMachineRunStrategy, members ...member) {
	f.Helper()
	patch := fmt.Appendf(nil, `{"spec": {"runStrategy": %q}}`, strategy)
	for _, m := range members {
		if _, err := f.client.Resource(vmKind).Namespace(m.Namespace).Patch(f.Context(), m.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			f.Fatal(m.Name, err)
		}
	}
}

// readVMs returns the VMs of the namespaces of members, by namespace and name.
func (f *fleet) readVMs(members []member) map[types.NamespacedName]*v1.VirtualMachine {
	f.Helper()
	found, read := map[types.NamespacedName]*v1.VirtualMachine{}, map[string]bool{}
	for _, m := range members {
		if read[m.Namespace] {
			continue
		}
		read[m.Namespace] = true
		list, err := f.client.Resource(vmKind).Namespace(m.Namespace).List(f.Context(), metav1.ListOptions{})
		if err != nil {
			f.Fatal(err)
		}
		for i := range list.Items {
			vm := &v1.VirtualMachine{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, vm); err != nil {
				f.Fatal(err)
			}
			found[types.NamespacedName{Namespace: vm.Namespace, Name: vm.Name}] = vm
		}
	}
	return found
}

// awaitAll polls until each member satisfies a condition. It logs how long that took.
func (f *fleet) awaitAll(what string, members []member, holds func(member, *v1.VirtualMachine) (seen string, ok bool)) {
	f.Helper()
	begun := time.Now()
	f.eventually(what, func() (string, bool) {
		var lacking []string
		vms := f.readVMs(members)
		for _, m := range members {
			if seen, ok := holds(m, vms[m.NamespacedName]); !ok {
				lacking = append(lacking, m.Name+": "+seen)
			}
		}
		return fmt.Sprintf("%d of %d: %s", len(lacking), len(members), strings.Join(lacking[:min(5, len(lacking))], "; ")), len(lacking) == 0
	})
	f.Logf("%s, %d VMs, after %.1f s", what, len(members), time.Since(begun).Seconds())
}

// awaitPrinted waits until each VM has the printable status of its sort.
func (f *fleet) awaitPrinted(members []member) {
	f.Helper()
	f.awaitAll("VMs have the status that was predicted", members, func(m member, vm *v1.VirtualMachine) (string, bool) {
		return string(vm.Status.PrintableStatus), vm.Status.PrintableStatus == m.sort.printed
	})
}

func (f *fleet) awaitStatus(what string, members []member, status v1.VirtualMachinePrintableStatus) {
	f.Helper()
	f.awaitAll("VMs are "+what, members, func(_ member, vm *v1.VirtualMachine) (string, bool) {
		return string(vm.Status.PrintableStatus), vm.Status.PrintableStatus == status
	})
}

// checkVerdicts waits until each VM has condition Placeable, and compares the conditions.
func (f *fleet) checkVerdicts(members []member) {
	f.Helper()
	f.awaitAll("VMs have a verdict", members, func(_ member, vm *v1.VirtualMachine) (string, bool) {
		return "no verdict", placeableOf(vm).Status != ""
	})
	vms := f.readVMs(members)
	for _, m := range members {
		got := placeableOf(vms[m.NamespacedName])
		status := corev1.ConditionFalse
		if m.sort.reason == v1alpha1.ReasonNodeFits {
			status = corev1.ConditionTrue
		}
		if got.Status != status || got.Reason != m.sort.reason || !strings.Contains(got.Message, m.sort.message) {
			f.Errorf("%s: %+v, want %s with '%s'", m.Name, got, m.sort.reason, m.sort.message)
		}
	}
}

// askWhy returns what 'kubectl kiln why' says of VMs, in their order.
func (f *fleet) askWhy(members []member) []startcheck.Answer {
	f.Helper()
	answers := make([]startcheck.Answer, len(members))
	group, ctx := errgroup.WithContext(f.Context())
	group.SetLimit(2)
	for i, m := range members {
		group.Go(func() error {
			out, err := f.tool.run(ctx, m.Namespace, "why", m.Name, "-o", "json")
			var exit *exec.ExitError
			if errors.As(err, &exit) && exit.ExitCode() == 1 { // the answer is that a guest does not run
				err = nil
			}
			if err == nil {
				err = json.Unmarshal(out, &answers[i])
			}
			if err != nil {
				return fmt.Errorf("%s: %w", m.Name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		f.Fatal(err)
	}
	return answers
}

// checkNotes: of halted VMs, 'kubectl kiln why' says that a start would not lead to a guest, and why.
func (f *fleet) checkNotes(members []member) {
	f.Helper()
	for i, answer := range f.askWhy(members) {
		notes := strings.Join(answer.Notes, "\n")
		if !answer.AsRequested || !strings.Contains(notes, "a start would not lead to a guest now") || !strings.Contains(notes, members[i].sort.message) {
			f.Errorf("%s: before the start: %+v", members[i].Name, answer)
		}
	}
}

// checkCauses compares what 'kubectl kiln why' says of VMs that were started.
func (f *fleet) checkCauses(members []member) {
	f.Helper()
	logged := map[string]bool{}
	for i, answer := range f.askWhy(members) {
		m := members[i]
		runs := m.sort.printed == v1.VirtualMachineStatusRunning
		if answer.Runs != runs || answer.AsRequested != runs || !strings.Contains(answer.Cause, m.sort.cause) || (answer.Remedy == "") != runs {
			f.Errorf("%s: %+v, want '%s'", m.Name, answer, m.sort.cause)
		}
		if !logged[m.sort.name] {
			logged[m.sort.name] = true
			f.Logf("why %s: %s Remedy: %s By: %s", m.Name, answer.Cause, answer.Remedy, answer.By)
		}
	}
}

// runInTurns stops each guest that runs, until each has run: the others wait for its room.
func (f *fleet) runInTurns(members []member) {
	f.Helper()
	left := slices.Clone(members)
	begun, most := time.Now(), 0
	for len(left) > 0 {
		var running []member
		f.eventually("a guest that waited for room runs", func() (string, bool) {
			vms := f.readVMs(left)
			for _, m := range left {
				if vms[m.NamespacedName].Status.PrintableStatus == v1.VirtualMachineStatusRunning {
					running = append(running, m)
				}
			}
			return fmt.Sprintf("%d guests are left", len(left)), len(running) > 0
		})
		most = max(most, len(running))
		f.setStrategy(v1.RunStrategyHalted, running...)
		left = slices.DeleteFunc(left, func(m member) bool { return slices.Contains(running, m) })
	}
	f.Logf("%d guests have run in turns, at most %d seen at a time, after %.1f s", len(members), most, time.Since(begun).Seconds())
}
