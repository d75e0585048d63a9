package policyreport

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/policy"
	"github.com/kilnvm/kiln/test/fakecluster"
	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	converter "k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

const (
	// benchVMs are the VMs of the benchmark, in namespaces of benchNamespace VMs each.
	benchVMs       = 20000
	benchNamespace = 2000
)

// benchVM returns one of the VMs as an API server sends it. Every second VM violates the policies.
func benchVM(b *testing.B, i int) unstructured.Unstructured {
	b.Helper()
	vm := machine(fmt.Sprint("team-", i/benchNamespace), fmt.Sprint("vm-", i), uint32(1+i%2)) //nolint:gosec // one or two
	vm.ResourceVersion = strconv.Itoa(i)
	for disk := range 4 {
		name := fmt.Sprint("disk-", disk)
		vm.Spec.Template.Spec.Domain.Devices.Disks = append(vm.Spec.Template.Spec.Domain.Devices.Disks, v1.Disk{Name: name})
		vm.Spec.Template.Spec.Volumes = append(vm.Spec.Template.Spec.Volumes, v1.Volume{Name: name,
			VolumeSource: v1.VolumeSource{ContainerDisk: &v1.ContainerDiskSource{Image: "registry.example/disk:1"}}})
	}
	raw, err := converter.DefaultUnstructuredConverter.ToUnstructured(vm)
	if err != nil {
		b.Fatal(err)
	}
	object := unstructured.Unstructured{Object: raw}
	object.SetGroupVersionKind(v1.VirtualMachineGroupVersionKind)
	return object
}

// BenchmarkAudit audits 20,000 VMs by ten policies, of which every second VM violates five. The cluster is in memory, and answers in pages; what it needs
// itself is not in the numbers, except the decoded pages.
func BenchmarkAudit(b *testing.B) {
	stored := fakecluster.NewClient(&testing.T{}, nil)
	var metadata v1.VirtualMachineList
	for i := range benchVMs {
		vm := machine(fmt.Sprint("team-", i/benchNamespace), "", 1)
		vm.UID, vm.ResourceVersion = "uid", strconv.Itoa(i)
		metadata.Items = append(metadata.Items, v1.VirtualMachine{ObjectMeta: vm.ObjectMeta})
	}
	writes := 0
	paged := interceptor.NewClient(stored, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			wanted := client.ListOptions{}
			wanted.ApplyOptions(options)
			switch into := list.(type) {
			case *v1.VirtualMachineList:
				into.Items = metadata.Items
				return nil
			case *unstructured.UnstructuredList:
				if wanted.Limit == 0 {
					break
				}
				team, _ := strconv.Atoi(wanted.Namespace[len("team-"):])
				from, _ := strconv.Atoi(wanted.Continue)
				for i := from; i < from+int(wanted.Limit) && i < benchNamespace; i++ {
					into.Items = append(into.Items, benchVM(b, team*benchNamespace+i))
				}
				if next := from + int(wanted.Limit); next < benchNamespace {
					into.SetContinue(strconv.Itoa(next))
				}
				return nil
			}
			return c.List(ctx, list, options...)
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			writes++
			return c.Create(ctx, object, options...)
		},
	})
	t := &auditTest{T: &testing.T{}, now: time.Unix(1e9, 0)}
	for i := range 10 {
		of := &v1alpha1.GuestPolicy{}
		of.Name = fmt.Sprint("policy-", i)
		of.Spec.Validations = []v1alpha1.GuestPolicyValidation{{Expression: fmt.Sprintf("guest.spec.domain.cpu.sockets <= %du", 1+i%2), Message: "too many sockets"}}
		made, mistakes := policy.Compile(of)
		if len(mistakes) > 0 {
			b.Fatal(mistakes)
		}
		t.inForce = append(t.inForce, made)
	}
	var peak uint64
	for b.Loop() {
		a := t.newLeader(paged)
		stop := make(chan struct{})
		go func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(50 * time.Millisecond):
					var stats runtime.MemStats
					runtime.ReadMemStats(&stats)
					peak = max(peak, stats.HeapInuse)
				}
			}
		}()
		if err := a.auditChanged(b.Context()); err != nil {
			b.Fatal(err)
		}
		close(stop)
		if sum := a.byPolicy()["policy-0"].counts; sum[fail] != benchVMs/2 || sum[pass] != benchVMs/2 {
			b.Fatal(sum)
		}
	}
	var report openreports.Report
	if err := stored.Get(b.Context(), client.ObjectKey{Namespace: "team-0", Name: reportName}, &report); err != nil || len(report.Results) != mostResults {
		b.Fatal(err, len(report.Results))
	}
	b.ReportMetric(float64(peak)/(1<<20), "peak-MiB")
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/audit")
}
