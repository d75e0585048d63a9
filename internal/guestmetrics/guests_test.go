package guestmetrics

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// askerFunc asks by a function.
type askerFunc func(context.Context, *v1.VirtualMachineInstance) (hypervisor.Statistics, error)

func (f askerFunc) Statistics(ctx context.Context, vmi *v1.VirtualMachineInstance) (hypervisor.Statistics, error) {
	return f(ctx, vmi)
}

func guestOf(namespace, name string) *v1.VirtualMachineInstance {
	vmi := &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name)}}
	vmi.Spec.Domain.CPU = &v1.CPU{Cores: 2}
	vmi.Spec.Domain.Devices.Disks = []v1.Disk{{Name: "root"}}
	vmi.Spec.Domain.Devices.Interfaces = []v1.Interface{{Name: "default"}}
	vmi.Status.Phase, vmi.Status.NodeName = v1.Running, "node-1"
	return vmi
}

// served returns a source with VMIs whose launchers serve.
func served(t *testing.T, asks Asker, vmis ...*v1.VirtualMachineInstance) *source {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(v1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	var objects []client.Object
	for _, vmi := range vmis {
		objects = append(objects, vmi, &v1alpha1.GuestPod{ObjectMeta: metav1.ObjectMeta{Namespace: vmi.Namespace, Name: vmi.Name},
			Spec: v1alpha1.GuestPodSpec{VMIUID: vmi.UID}, Status: v1alpha1.GuestPodStatus{ServerCertificate: "sha256:00"}})
	}
	return &source{fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), asks}
}

// TestHostileStatistics: a launcher's statistics make series only of its own VMI, and only for vCPUs, disks and interfaces in the spec. A missing counter has
// no series.
func TestHostileStatistics(t *testing.T) {
	statistics := hypervisor.Statistics{
		CPU: hypervisor.Values{"time": 1_500_000_000, "evil": 1}, Memory: hypervisor.Values{"rss": 2},
		VCPUs: map[string]hypervisor.Values{"0": {"time": 1e9, "state": 1}, "1": {"time": 2e9, "state": 77}, "2": {"time": 1}, "01": {"time": 1},
			"-1": {"time": 1}, "x": {"time": 1}},
		Disks: map[string]hypervisor.Values{"root": {"rd.bytes": 3}, "other\n": {"rd.bytes": 1}},
		NICs:  map[string]hypervisor.Values{"default": {"rx.bytes": 4, "tx.bytes": 5}, "": {"rx.bytes": 1}},
	}
	g := NewGuests()
	if n := testutil.CollectAndCount(g); n != 0 {
		t.Errorf("a replica that does not lead has %d series", n)
	}
	stopped := guestOf("team", "stopped")
	stopped.Status.Phase = v1.Scheduled
	g.setSource(served(t, askerFunc(func(context.Context, *v1.VirtualMachineInstance) (hypervisor.Statistics, error) {
		return statistics, nil
	}),
		guestOf("team", "web"), stopped))
	const labels = `name="web",namespace="team",node="node-1"`
	var want strings.Builder
	for _, one := range []struct{ name, kind, extra, value string }{
		{"kubevirt_vmi_cpu_usage_seconds_total", "counter", "", "1.5"},
		{"kubevirt_vmi_memory_resident_bytes", "gauge", "", "2048"},
		{"kubevirt_vmi_vcpu_seconds_total", "counter", `id="0",` + labels + `,state="running"`, "1"},
		{"kubevirt_vmi_vcpu_seconds_total", "", `id="1",` + labels + `,state="unknown"`, "2"},
		{"kubevirt_vmi_storage_read_traffic_bytes_total", "counter", `drive="root",` + labels, "3"},
		{"kubevirt_vmi_network_receive_bytes_total", "counter", `interface="default",` + labels, "4"},
		{"kubevirt_vmi_network_transmit_bytes_total", "counter", `interface="default",` + labels, "5"},
		{"kubevirt_vmi_network_traffic_bytes_total", "counter", `interface="default",` + labels + `,type="rx"`, "4"},
		{"kubevirt_vmi_network_traffic_bytes_total", "", `interface="default",` + labels + `,type="tx"`, "5"},
	} {
		if one.kind != "" {
			for _, s := range allStatistics() {
				if s.name == one.name {
					fmt.Fprintf(&want, "# HELP %s %s\n# TYPE %s %s\n", one.name, s.help, one.name, one.kind)
				}
			}
		}
		if one.extra == "" {
			one.extra = labels
		}
		fmt.Fprintf(&want, "%s{%s} %s\n", one.name, one.extra, one.value)
	}
	if err := testutil.CollectAndCompare(g, strings.NewReader(want.String())); err != nil {
		t.Error(err)
	}
	g.setSource(nil)
	if n := testutil.CollectAndCount(g); n != 0 {
		t.Errorf("a replica that has ceased to lead has %d series", n)
	}
}

// TestSilentGuests: guests of one namespace that never answer neither delay guests of other namespaces, nor let a scrape take longer than Prometheus waits.
func TestSilentGuests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var vmis []*v1.VirtualMachineInstance
		for i := range 3000 {
			namespace := "silent"
			if i%3 > 0 {
				namespace = fmt.Sprint("team-", i%7)
			}
			vmis = append(vmis, guestOf(namespace, fmt.Sprint("g", i)))
		}
		var mutex sync.Mutex
		asked, now, most := map[string]int{}, 0, 0
		g := NewGuests()
		g.setSource(served(t, askerFunc(func(ctx context.Context, vmi *v1.VirtualMachineInstance) (hypervisor.Statistics, error) {
			mutex.Lock()
			asked[vmi.Namespace]++
			now++
			most = max(most, now)
			mutex.Unlock()
			defer func() {
				mutex.Lock()
				now--
				mutex.Unlock()
			}()
			if vmi.Namespace == "silent" {
				<-ctx.Done()
				return hypervisor.Statistics{}, ctx.Err()
			}
			time.Sleep(20 * time.Millisecond)
			return hypervisor.Statistics{CPU: hypervisor.Values{"time": 1}}, nil
		}), vmis...))
		for scrape := range 2 {
			began := time.Now()
			if n := testutil.CollectAndCount(g, "kubevirt_vmi_cpu_usage_seconds_total"); n != 2000 {
				t.Errorf("scrape %d has %d guests, want all 2000 that answer", scrape, n)
			}
			if took := time.Since(began); took > roundLimit {
				t.Errorf("scrape %d took %s", scrape, took)
			}
			time.Sleep(30 * time.Second)
		}
		if most > mostAsked || asked["silent"] > 2*mostOfNamespace*int(roundLimit/answerLimit+1) {
			t.Errorf("%d launchers were asked at once, and those that are silent %d times", most, asked["silent"])
		}
	})
}

// TestScrapesShareARound: scrapes that follow each other closely, as by two instances of Prometheus, ask each launcher once; the next scrape asks again.
func TestScrapesShareARound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		g := NewGuests()
		g.setSource(served(t, askerFunc(func(context.Context, *v1.VirtualMachineInstance) (hypervisor.Statistics, error) {
			asked++
			time.Sleep(time.Second)
			if asked == 3 {
				return hypervisor.Statistics{}, errors.New("gone")
			}
			return hypervisor.Statistics{CPU: hypervisor.Values{"time": 1}}, nil
		}), guestOf("team", "web")))
		var scrapes sync.WaitGroup
		for range 3 {
			scrapes.Go(func() {
				if n := len(g.currentAnswers()); n != 1 {
					t.Errorf("%d guests have answered", n)
				}
			})
		}
		scrapes.Wait()
		for i, want := range []int{1, 0} {
			time.Sleep(30 * time.Second)
			if n := len(g.currentAnswers()); n != want || asked != i+2 {
				t.Errorf("%d guests have answered, and %d were asked", n, asked)
			}
		}
		const results = "# HELP kiln_guest_statistics x\n# TYPE kiln_guest_statistics gauge\n" +
			`kiln_guest_statistics{result="answered"} 0` + "\n" + `kiln_guest_statistics{result="failed"} 1` + "\n" + `kiln_guest_statistics{result="late"} 0` + "\n"
		if err := testutil.CollectAndCompare(g.Metric(), strings.NewReader(results), "kiln_guest_statistics"); err != nil && !strings.Contains(err.Error(), "HELP") {
			t.Error(err)
		}
	})
}

// BenchmarkScrape is one scrape of 3,000 guests with two vCPUs, a disk and an interface, without what launchers take.
func BenchmarkScrape(b *testing.B) {
	values := func(list []statistic) hypervisor.Values {
		all := hypervisor.Values{}
		for _, s := range list {
			all[s.value] = 1 << 40
		}
		return all
	}
	g := NewGuests()
	for i := range 3000 {
		g.answered = append(g.answered, answer{guestOf("team", fmt.Sprint("guest-", i)), hypervisor.Statistics{
			CPU: values(cpuStatistics), Memory: values(memoryStatistics), Disks: map[string]hypervisor.Values{"root": values(storageStatistics)},
			NICs:  map[string]hypervisor.Values{"default": values(networkStatistics)},
			VCPUs: map[string]hypervisor.Values{"0": values(vcpuStatistics), "1": values(vcpuStatistics)},
		}})
	}
	for b.Loop() {
		if n := testutil.CollectAndCount(g); n < 100_000 {
			b.Fatal(n)
		}
	}
}
