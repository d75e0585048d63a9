package policyaudit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/crdschema"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// pages is a cluster that gives its VMs in pages, counts the calls, and forbids the kinds that are named.
type pages struct {
	client.Reader
	vms       []unstructured.Unstructured
	pools     []unstructured.Unstructured
	calls     map[string]int
	forbidden string
}

// RESTMapper serves VirtualMachinePools and no other kind with templates.
func (*pages) RESTMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{poolKind.GroupVersion()})
	mapper.Add(poolKind, meta.RESTScopeNamespace)
	return mapper
}

// poolKind is a version of the kind that a later KubeVirt may serve.
var poolKind = schema.GroupVersionKind{Group: "pool.kubevirt.io", Version: "v1", Kind: "VirtualMachinePool"}

func (p *pages) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	p.calls[fmt.Sprintf("get %T", into)]++
	return p.Reader.Get(ctx, key, into, options...)
}

func (p *pages) List(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	p.calls[fmt.Sprintf("list %T", into)]++
	if p.forbidden != "" && strings.Contains(fmt.Sprintf("%T", into), p.forbidden) {
		return apierrors.NewForbidden(schema.GroupResource{Resource: p.forbidden}, "", nil)
	}
	list, untyped := into.(*unstructured.UnstructuredList)
	var wanted client.ListOptions
	wanted.ApplyOptions(options)
	switch {
	case untyped && list.GetKind() == "VirtualMachinePoolList":
		list.Items = slices.Clone(p.pools)
		if p.forbidden == "VirtualMachinePool" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: p.forbidden}, "", nil)
		}
		return nil
	case !untyped || list.GetKind() != "VirtualMachineList":
		return p.Reader.List(ctx, into, options...)
	}
	start := 0
	if _, err := fmt.Sscan(wanted.Continue, &start); wanted.Continue != "" && err != nil {
		return err
	}
	end := min(start+int(wanted.Limit), len(p.vms))
	list.Items = append([]unstructured.Unstructured{}, p.vms[start:end]...)
	if list.SetContinue(""); end < len(p.vms) {
		list.SetContinue(fmt.Sprint(end))
	}
	return nil
}

func untyped(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	return object
}

const (
	auditedVM = "{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: %s, namespace: %s}, spec: {runStrategy: Halted, %s template: {spec: " +
		"{domain: {cpu: {cores: %d}, memory: {guest: 1Gi}, devices: {}}}}}}"
	fewCores = "{apiVersion: kilnvm.io/v1alpha1, kind: GuestPolicy, metadata: {name: few-cores}, spec: {validationActions: [Warn], validations: [" +
		"{expression: 'guest.spec.domain.?cpu.?cores.orValue(1) <= 2', message: at most 2 cores, field: spec.domain.cpu.cores}]}}"
	shopOnly = "{apiVersion: kilnvm.io/v1alpha1, kind: GuestPolicy, metadata: {name: shop-only}, spec: {matchConstraints: {namespaceSelector: {matchLabels: " +
		"{team: shop}}}, validations: [{expression: \"object.metadata.name != 'one'\", message: no one}]}}"
)

// cluster returns a cluster with objects.
func cluster(t *testing.T, texts ...string) *pages {
	t.Helper()
	known, err := crdschema.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	var all []*unstructured.Unstructured
	for _, text := range texts {
		all = append(all, untyped(t, text))
	}
	return &pages{Reader: objects.New(known, all...), calls: map[string]int{}}
}

// TestAuditOfTemplates: the audit lists a template that violates a policy at its path in the object, and leaves out a template of which nothing can be made.
// A user without the right to list the kind gets a warning.
func TestAuditOfTemplates(t *testing.T) {
	t.Parallel()
	pool := "{apiVersion: pool.kubevirt.io/v1, kind: VirtualMachinePool, metadata: {name: %s, namespace: shop}, spec: {virtualMachineTemplate: {spec: " +
		"{runStrategy: Always, template: {spec: {domain: {cpu: {cores: %s}, memory: {guest: 1Gi}, devices: {}}}}}}}}"
	c := cluster(t, fewCores)
	c.vms = []unstructured.Unstructured{*untyped(t, fmt.Sprintf(auditedVM, "one", "shop", "", 2))}
	c.pools = []unstructured.Unstructured{*untyped(t, fmt.Sprintf(pool, "large", "4")), *untyped(t, fmt.Sprintf(pool, "small", "1")),
		*untyped(t, fmt.Sprintf(pool, "broken", "many"))}
	audit, err := OfCluster(t.Context(), &workbench.Bench{}, c, "")
	if err != nil || audit.Judged != 4 || len(audit.Violations) != 1 || len(audit.Unjudged) > 0 {
		t.Fatalf("%+v: %v", audit, err)
	}
	if v := audit.Violations[0]; v.Kind != "VirtualMachinePool" || v.Name != "large" || v.Policy != "few-cores" ||
		v.Field != "spec.virtualMachineTemplate.spec.template.spec.domain.cpu.cores" {
		t.Errorf("%+v", v)
	}
	c.forbidden = "VirtualMachinePool"
	audit, err = OfCluster(t.Context(), &workbench.Bench{}, c, "")
	const untold = "you may not list VirtualMachinePool.pool.kubevirt.io"
	if err != nil || audit.Judged != 1 || len(audit.Warnings) != 1 || !strings.Contains(audit.Warnings[0], untold) {
		t.Errorf("%+v: %v", audit, err)
	}

	in := manifest.Inputs{Reader: c.Reader, OfCluster: true}
	for i := range c.pools {
		in.Named = append(in.Named, manifest.Stored(&c.pools[i]))
	}
	whys, _, err := Explain(t.Context(), &workbench.Bench{}, in)
	if err != nil || len(whys) != 3 {
		t.Fatal(whys, err)
	}
	if say := whys[0].Policies[0]; say.Create != SayWarned || say.EditGuest != SayWarned || say.EditRest != SayNothing {
		t.Errorf("a pool that violates a policy: %+v", say)
	}
	if say := whys[1].Policies[0]; say.Create != SayAllowed || say.EditGuest != SayAllowed || say.EditRest != SayNothing {
		t.Errorf("a pool that does not: %+v", say)
	}
}

func TestAudit(t *testing.T) {
	t.Parallel()
	vmi := "{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: %s, namespace: shop%s}, " +
		"spec: {domain: {cpu: {cores: 4}, memory: {guest: 1Gi}, devices: {}}}}"
	owner := ", ownerReferences: [{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: one, uid: a, controller: true}]"
	c := cluster(t, fewCores, shopOnly, "{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {team: shop}}}",
		"{apiVersion: v1, kind: Namespace, metadata: {name: lab}}", fmt.Sprintf(vmi, "bare", ""), fmt.Sprintf(vmi, "one", owner))
	c.vms = []unstructured.Unstructured{
		*untyped(t, fmt.Sprintf(auditedVM, "one", "shop", "", 4)), *untyped(t, fmt.Sprintf(auditedVM, "one", "lab", "", 2)),
		*untyped(t, fmt.Sprintf(auditedVM, "refused", "lab", "instancetype: {name: none, kind: None},", 4)),
	}
	audit, err := OfCluster(t.Context(), &workbench.Bench{}, c, "")
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, v := range audit.Violations {
		got += fmt.Sprintf("%s %s %s: %s: %s %s %v\n", v.Kind, v.Namespace, v.Name, v.Policy, v.Message, v.Field, v.Actions)
	}
	want := `VirtualMachine lab refused: few-cores: failed: spec.validations[0].expression: no such key: spec  []
VirtualMachine shop one: few-cores: at most 2 cores spec.template.spec.domain.cpu.cores [Warn]
VirtualMachine shop one: shop-only: no one spec [Deny]
VirtualMachineInstance shop bare: few-cores: at most 2 cores spec.domain.cpu.cores [Warn]
`
	if got != want || audit.Judged != 4 || len(audit.Unjudged) > 0 {
		t.Errorf("%d judged, unjudged %v, got:\n%swant:\n%s", audit.Judged, audit.Unjudged, got, want)
	}
}

// TestAuditIsBounded: VMs of one instancetype are pages, and one call for each object that they share in each of four namespaces.
func TestAuditIsBounded(t *testing.T) {
	t.Parallel()
	const vms, shared = 2000, 24
	size := "{apiVersion: instancetype.kubevirt.io/v1beta1, kind: VirtualMachineClusterInstancetype, metadata: {name: small}, " +
		"spec: {cpu: {guest: 3}, memory: {guest: 1Gi}}}"
	c := cluster(t, strings.Replace(fewCores, "?cores.orValue(1) <= 2", "?sockets.orValue(1) <= 2", 1), size)
	of := untyped(t, strings.Replace(fmt.Sprintf(auditedVM, "vm", "shop", "instancetype: {name: small},", 1), "cpu: {cores: 1}, memory: {guest: 1Gi}, ", "", 1))
	for i := range vms {
		one := of.DeepCopy()
		one.SetName(fmt.Sprintf("vm-%d", i))
		one.SetNamespace(fmt.Sprintf("shop-%d", i%4))
		c.vms = append(c.vms, *one)
	}
	audit, err := OfCluster(t.Context(), &workbench.Bench{}, c, "")
	if err != nil || audit.Judged != vms || len(audit.Violations) != vms {
		t.Fatalf("%d judged, %d violations, %v: %v", audit.Judged, len(audit.Violations), audit.Unjudged[:min(3, len(audit.Unjudged))], err)
	}
	calls := 0
	for _, n := range c.calls {
		calls += n
	}
	if most := vms/manifest.PageSize + shared; calls > most {
		t.Errorf("%d calls for %d VMs, want at most %d: %v", calls, vms, most, c.calls)
	}
}

// TestAuditWithoutRights: policies that may not be read are a warning, and policies of files judge.
func TestAuditWithoutRights(t *testing.T) {
	t.Parallel()
	c := cluster(t, fewCores)
	c.forbidden = "GuestPolicyList"
	audit, err := OfCluster(t.Context(), &workbench.Bench{Policies: []string{"../../../examples/policies/largest-guest"}}, c, "")
	if err != nil || len(audit.Policies) != 1 || len(audit.Warnings) != 1 || !strings.Contains(audit.Warnings[0], "cannot be read") {
		t.Errorf("%+v: %v", audit, err)
	}
	c.forbidden = "NamespaceList"
	var list corev1.NamespaceList
	if err := c.List(t.Context(), &list); !apierrors.IsForbidden(err) {
		t.Error("the cluster of this test forbids nothing")
	}
}
