package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

var (
	vms       = schema.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachines"}
	vmis      = schema.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachineinstances"}
	sizes     = schema.GroupVersionResource{Group: "instancetype.kubevirt.io", Version: "v1beta1", Resource: "virtualmachineinstancetypes"}
	revisions = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "controllerrevisions"}
)

// direct is a client without a limit of its own: a process of kubectl for each of a thousand objects would take minutes.
func direct(t *testing.T) dynamic.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", shared.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func parse(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &object.Object); err != nil {
		t.Fatal(err)
	}
	raw, err := object.MarshalJSON() // numbers as an API server sends them
	if err != nil {
		t.Fatal(err)
	}
	if err := object.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return object
}

// storm creates n objects, some at a time, and fails the test for each that is refused.
func storm(t *testing.T, n int, create func(i int) error) {
	t.Helper()
	const workers = 20
	next := make(chan int)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for i := range next {
				if err := create(i); err != nil {
					t.Errorf("creating number %d: %v", i, err)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	group.Wait()
}

func size(name string, vCPUs int, memory string) string {
	return fmt.Sprintf(`{"apiVersion":"instancetype.kubevirt.io/v1beta1","kind":"VirtualMachineInstancetype","metadata":{"name":%q},
		"spec":{"cpu":{"guest":%d},"memory":{"guest":%q}}}`, name, vCPUs, memory)
}

// A new instancetype, and at once many VMs of it, which start: the replicas of the webhook and the controller meet a revision that
// none of them knows yet.
func TestReplicasShareTheRevisionOfANewSize(t *testing.T) {
	s := newSpace(t)
	client, ctx := direct(t), t.Context()
	if _, err := client.Resource(sizes).Namespace(s.name).Create(ctx, parse(t, size("new", 1, "96Mi")), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const n = 60
	guest := vm("NAME", append(running, "{name: small}", "{name: new, kind: VirtualMachineInstancetype}")...)
	storm(t, n, func(i int) error {
		object := parse(t, strings.Replace(guest, "NAME", fmt.Sprintf("vm-%d", i), 1))
		_, err := client.Resource(vms).Namespace(s.name).Create(ctx, object, metav1.CreateOptions{})
		return err
	})
	s.eventually("every VM has its guest", func() bool {
		made, err := client.Resource(vmis).Namespace(s.name).List(ctx, metav1.ListOptions{})
		return err == nil && len(made.Items) == n
	})
	found, err := client.Resource(revisions).Namespace(s.name).List(ctx, metav1.ListOptions{LabelSelector: "instancetype.kubevirt.io/object-name=new"})
	if err != nil || len(found.Items) != 1 {
		t.Fatalf("%d revisions of one size: %v", len(found.Items), err)
	}
	for _, resource := range []schema.GroupVersionResource{vms, vmis} {
		made, err := client.Resource(resource).Namespace(s.name).List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range made.Items {
			if got := pins(t, &made.Items[i])["instancetype"]; got != found.Items[0].GetName() {
				t.Errorf("%s '%s' is pinned to '%s', want '%s'", resource.Resource, made.Items[i].GetName(), got, found.Items[0].GetName())
			}
		}
	}
	for i, served := range shared.Served() { // clients keep connections, so connections of earlier tests count
		if served == 0 {
			t.Errorf("replica %d got no connection, so nothing was shown", i)
		}
	}
}

// What a catalog costs: one revision for each instancetype and preference in each namespace, however many VMs use it.
func TestThousandVMsShareThirtyRevisions(t *testing.T) {
	s := newSpace(t)
	client, ctx := direct(t), t.Context()
	const vmCount, kinds = 1000, 5
	for i := range kinds {
		s.cluster(fmt.Sprintf(`{"apiVersion":"instancetype.kubevirt.io/v1beta1","kind":"VirtualMachineClusterInstancetype",
			"metadata":{"name":"%s-%d"},"spec":{"cpu":{"guest":%d},"memory":{"guest":"64Mi"}}}`, s.name, i, i+1))
		s.cluster(fmt.Sprintf(`{"apiVersion":"instancetype.kubevirt.io/v1beta1","kind":"VirtualMachineClusterPreference",
			"metadata":{"name":"%s-%d"},"spec":{"preferredTerminationGracePeriodSeconds":%d}}`, s.name, i, i+1))
	}
	spaces := []string{s.name, s.name + "-b", s.name + "-c"}
	for _, name := range spaces[1:] {
		s.must(s.kubectl("", "create", "namespace", name))
		s.Cleanup(func() { s.kubectlAfter("delete", "namespace", name, "--wait=false") })
	}
	began := time.Now()
	storm(t, vmCount, func(i int) error {
		manifest := vm(fmt.Sprintf("vm-%d", i), "{name: small}", fmt.Sprintf("{name: %s-%d}", s.name, i%kinds),
			"{name: linux.sample}", fmt.Sprintf("{name: %s-%d}", s.name, i/kinds%kinds))
		_, err := client.Resource(vms).Namespace(spaces[i%len(spaces)]).Create(ctx, parse(t, manifest), metav1.CreateOptions{})
		return err
	})
	t.Logf("%d VMs in %s", vmCount, time.Since(began).Round(time.Second))
	total := map[string]int{}
	for _, name := range spaces {
		list, err := client.Resource(revisions).Namespace(name).List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			total[list.Items[i].GetLabels()["instancetype.kubevirt.io/object-kind"]]++
		}
	}
	// The controller pins the configuration a moment later.
	if configurations := total["clusterconfiguration"]; configurations > len(spaces) {
		t.Errorf("%d revisions of one configuration in %d namespaces", configurations, len(spaces))
	}
	delete(total, "clusterconfiguration")
	if want := kinds * len(spaces); total["virtualmachineclusterinstancetype"] != want || total["virtualmachineclusterpreference"] != want || len(total) != 2 {
		t.Errorf("the revisions are %v, want %d of sizes and as many of preferences", total, want)
	}
}

// cluster creates an object of no namespace.
func (s space) cluster(manifest string) {
	s.Helper()
	object := parse(s.T, manifest)
	s.create(manifest)
	s.Cleanup(func() { s.kubectlAfter("delete", object.GetKind(), object.GetName()) })
}

// writer is an account that may write revisions: as Kiln itself, or a backup tool.
const writer = "--as=system:serviceaccount:kiln-system:kiln-controller"

// Somebody who could exchange the instancetype of a VM would own it. The policy lets few write revisions; and what one of them
// writes must still be what its name says.
func TestReCreatedRevisionWithOtherContentIsRefused(t *testing.T) {
	s := newSpace(t)
	s.create(size("own", 1, "128Mi"))
	pinned := func(name string) string {
		return vm(name, "{name: small}", "{name: own, kind: VirtualMachineInstancetype}")
	}
	s.create(pinned("demo"))
	name := pins(t, s.get("vm", "demo"))["instancetype"]
	revision := s.get("controllerrevision", name)
	for _, set := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields"} {
		unstructured.RemoveNestedField(revision.Object, "metadata", set)
	}
	honest := mustJSON(t, revision)
	if err := unstructured.SetNestedField(revision.Object, "64Gi", "data", "spec", "memory", "guest"); err != nil {
		t.Fatal(err)
	}
	forged := mustJSON(t, revision)

	for _, args := range [][]string{{"delete", "controllerrevision", name}, {"label", "controllerrevision", name, "instancetype.kubevirt.io/object-kind-"}} {
		if a := s.kubectl("", args...); a.err == nil || !strings.Contains(a.stderr, "kiln-revision-writers") {
			t.Errorf("kubectl %s: want the refusal of the policy, got %v: %s", args[0], a.err, a.stderr)
		}
	}
	s.must(s.kubectl("", "delete", "controllerrevision", name, writer))
	if a := s.kubectl(forged, "create", "-f", "-"); a.err == nil || !strings.Contains(a.stderr, "kiln-revision-writers") {
		t.Errorf("an administrator writes a revision: %v: %s", a.err, a.stderr)
	}
	s.eventually("the revision is another one", func() bool { // Kiln may be faster: it still knows the size
		if s.kubectl(forged, "create", "-f", "-", writer).err == nil {
			return true
		}
		s.must(s.kubectl("", "delete", "controllerrevision", name, writer, "--ignore-not-found"))
		return false
	})

	const untrusted = "cannot be trusted"
	s.eventually("the webhook has seen the other content, and pins nothing to it", func() bool {
		a := s.kubectl(pinned("second"), "create", "--dry-run=server", "-f", "-")
		return a.err != nil && strings.Contains(a.stderr, untrusted)
	})
	s.must(s.kubectl("", "patch", "vm", "demo", "--type=merge", `-p={"metadata":{"labels":{"a":"b"}}}`)) // nothing to judge
	start := s.kubectl("", "patch", "vm", "demo", "--type=merge", `-p={"spec":{"runStrategy":"Always"}}`)
	if start.err == nil || !strings.Contains(start.stderr, untrusted) {
		t.Errorf("a VM with that pin may be started: %v: %s", start.err, start.stderr)
	}
	bare := `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineInstance","metadata":{"name":"bare","annotations":{"kilnvm.io/pins":"{\"instancetype\":\"` +
		name + `\"}"}},
		"spec":{"nodeSelector":{"machine":"none"},"domain":{"devices":{}}}}`
	if a := s.kubectl(bare, "create", "-f", "-"); a.err == nil || !strings.Contains(a.stderr, untrusted) {
		t.Errorf("a guest is made from it: %v: %s", a.err, a.stderr)
	}

	s.must(s.kubectl("", "delete", "controllerrevision", name, writer))
	if a := s.kubectl(honest, "create", "-f", "-", writer); a.err != nil && !strings.Contains(a.stderr, "already exists") {
		t.Fatal(a.stderr)
	}
	s.eventually("with its true content the VM starts", func() bool {
		return s.kubectl("", "patch", "vm", "demo", "--type=merge", `-p={"spec":{"runStrategy":"Always"}}`).err == nil
	})
	s.eventually("the VM has its VMI", func() bool { return s.exists("vmi", "demo") })
	if memory := field(s.get("vmi", "demo"), "spec", "domain", "memory", "guest"); memory != "128Mi" {
		t.Errorf("the guest has %v of memory, the size 128Mi", memory)
	}
}
