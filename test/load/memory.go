package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kilnvm/kiln/test/load/creates"
	"github.com/kilnvm/kiln/test/ports"
	v1 "kubevirt.io/api/core/v1"
)

// memorySizes is the cluster in which memory is measured, once at half of its VMs and once at all.
type memorySizes struct {
	VMs        int `json:"vms"`
	Namespaces int `json:"namespaces"`
	Every      int `json:"every"`
}

// MemoryAt are the figures at one size. Sizes are in bytes.
type MemoryAt struct {
	VMs  int `json:"vms"`
	VMIs int `json:"vmis"`
	// Admitting are the peaks (VmHWM) of the two replicas of the webhook that have admitted all VMs.
	Admitting []int64 `json:"admitting"`
	// Webhook and Controller were started at this size.
	Webhook    Process `json:"webhook"`
	Controller Process `json:"controller"`
}

// Process is a process that was started with all objects there, and had to list all of them three times more.
type Process struct {
	// Started is VmHWM when the work after the start was done, Peak is VmHWM after the relists, and Resident is VmRSS at the end.
	Started  int64 `json:"started"`
	Peak     int64 `json:"peak"`
	Resident int64 `json:"resident"`
	// Ready, First and All are seconds from the start to readiness, to the first reconcile of a VM, and until nothing was left to do.
	Ready float64 `json:"ready"`
	First float64 `json:"first,omitempty"`
	All   float64 `json:"all,omitempty"`
	// Requests of the start by verb and resource.
	Requests map[string]int `json:"requests"`
}

const relists = 3

// measureMemory fills a cluster by way of the webhooks, and measures at half of the size and at the whole.
func measureMemory(ctx context.Context, o options, r *Results) (err error) {
	b, err := variant{name: "memory", overlay: "overlays/rotation"}.startBench(ctx, o.Root)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	spaces, err := b.createCatalogAndNamespaces(ctx, o.Memory.Namespaces)
	if err != nil {
		return err
	}
	r.Memory = nil
	at := 0
	for _, size := range []int{o.Memory.VMs / 2, o.Memory.VMs} {
		if err := b.fillCluster(ctx, o, filling{spaces, at, size}); err != nil {
			return err
		}
		at = size
		if err := b.reportStatuses(ctx, size); err != nil {
			return err
		}
		found, err := b.memoryAt(ctx, size)
		if err != nil {
			return err
		}
		r.Memory = append(r.Memory, found)
		found.printTo(os.Stderr)
	}
	return nil
}

// createCatalogAndNamespaces creates what the VMs refer to, and a number of namespaces, whose names it returns.
func (b *bench) createCatalogAndNamespaces(ctx context.Context, number int) (names []string, err error) {
	if err := b.createCatalog(ctx); err != nil {
		return nil, err
	}
	for i := range number {
		names = append(names, fmt.Sprintf("load-%03d", i))
	}
	return names, b.createNamespaces(ctx, names...)
}

// filling are the VMs from one number to another.
type filling struct {
	namespaces []string
	from, to   int
}

func (b *bench) fillCluster(ctx context.Context, o options, f filling) error {
	result, err := creates.Run(ctx, b.config, creates.Plan{Clients: o.Clients, Total: f.to - f.from, VM: func(i int) *v1.VirtualMachine {
		i += f.from
		kind := haltedVMs(f.namespaces[i%len(f.namespaces)])
		// Not i modulo the number of instancetypes: each namespace shall have all of them.
		kind.Instancetype = instancetypes[i/len(f.namespaces)%len(instancetypes)]
		if i%o.Memory.Every == 0 {
			kind.Strategy = v1.RunStrategyAlways
		}
		return kind.VM(fmt.Sprintf("vm-%05d", i))
	}})
	if failed := result.Failures(); err == nil && len(failed) > 0 {
		err = fmt.Errorf("%d creates failed: %w", len(failed), failed[0].Err)
	}
	s := result.Summary()
	fmt.Fprintf(os.Stderr, "%d VMs created, %.1f/s, p99 %.0f ms\n", s.Created, s.PerSecond, s.P99)
	return err
}

// reportStatuses lets a controller write the status of all VMs, and ends it, so that the next measured process does not have to. The first time it is the
// cluster's own.
func (b *bench) reportStatuses(ctx context.Context, vms int) error {
	if len(b.controllerPIDs()) > 0 {
		_, err := b.workedOff(ctx, vms)
		return errors.Join(err, b.stopControllers(ctx))
	}
	controller, err := b.startWatched(ctx, "controller", "--runtime=node")
	if err != nil {
		return err
	}
	_, err = b.workedOff(ctx, vms)
	return errors.Join(err, controller.awaitIdle(ctx), controller.stop())
}

// controllerPIDs returns the process IDs of the cluster's own controllers.
func (b *bench) controllerPIDs() (pids []int) {
	for name, pid := range b.Running() {
		if strings.HasPrefix(name, "controller-") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// stopControllers ends the controllers of the cluster, and waits until they have.
func (b *bench) stopControllers(ctx context.Context) error {
	for _, pid := range b.controllerPIDs() {
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			return err
		}
	}
	for len(b.controllerPIDs()) > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}

// memoryAt starts a controller and a replica of the webhook, and has both list everything anew.
func (b *bench) memoryAt(ctx context.Context, vms int) (at MemoryAt, err error) {
	at.VMs = vms
	if at.Admitting, err = b.WebhookPeaks(); err != nil {
		return at, err
	}
	controller, err := b.startWatched(ctx, "controller", "--runtime=node")
	if err != nil {
		return at, err
	}
	defer func() { err = errors.Join(err, controller.stop()) }()
	if at.Controller, err = controller.measureProcess(ctx, vms); err != nil {
		return at, err
	}
	listen, err := ports.Address("127.0.0.1")
	if err != nil {
		return at, err
	}
	webhook, err := b.startWatched(ctx, "webhook", "--cert-dir", b.Dir+"/certs", "--certificate-name", b.Host, "--webhook-bind-address", listen)
	if err != nil {
		return at, err
	}
	defer func() { err = errors.Join(err, webhook.stop()) }()
	if at.Webhook, err = webhook.measureProcess(ctx, 0); err != nil {
		return at, err
	}
	at.VMIs, err = b.countObjects(ctx, "VirtualMachineInstance")
	return at, err
}

// measureProcess waits until a process that has just become ready has reconciled all VMs, and has it list everything anew.
func (w *watched) measureProcess(ctx context.Context, vms int) (p Process, err error) {
	p.Ready = time.Since(w.begun).Seconds()
	if vms > 0 {
		const reconciles = `controller_runtime_reconcile_total{controller="virtualmachine",`
		if err := w.awaitCondition(ctx, func() bool { return w.sumMetric(reconciles) > 0 }); err != nil {
			return p, err
		}
		p.First = time.Since(w.begun).Seconds()
		if err := w.awaitCondition(ctx, func() bool { return w.sumMetric(reconciles) >= float64(vms) && w.sumMetric("workqueue_depth{") == 0 }); err != nil {
			return p, err
		}
		p.All = time.Since(w.begun).Seconds()
	}
	if err := w.awaitIdle(ctx); err != nil {
		return p, err
	}
	p.Started, p.Requests = w.statusValue("VmHWM"), w.takeRequests()
	for range relists {
		w.forceRelist()
		if err := w.awaitIdle(ctx); err != nil {
			return p, err
		}
		p.Peak = max(p.Peak, w.statusValue("VmHWM"))
	}
	p.Resident = w.statusValue("VmRSS")
	return p, nil
}

// awaitIdle waits until nothing has been in a queue for ten seconds: statuses of profiles follow changes after five.
func (w *watched) awaitIdle(ctx context.Context) error {
	since := time.Now()
	return w.awaitCondition(ctx, func() bool {
		if w.sumMetric("workqueue_depth{") > 0 {
			since = time.Now()
		}
		return time.Since(since) > 10*time.Second
	})
}

const mega = 1e6

func (m MemoryAt) printTo(to io.Writer) {
	fmt.Fprintf(to, "%d VMs, %d VMIs:\twebhook %.0f MB (admitting %.0f)\tcontroller %.0f MB after its start, %.0f after relists, %.0f at rest\t"+
		"ready %.1f s\tfirst %.1f s\tall %.1f s\n",
		m.VMs, m.VMIs, float64(m.Webhook.Peak)/mega, float64(slices.Max(append(m.Admitting, 0)))/mega, float64(m.Controller.Started)/mega,
		float64(m.Controller.Peak)/mega, float64(m.Controller.Resident)/mega, m.Controller.Ready, m.Controller.First, m.Controller.All)
	for _, request := range slices.Sorted(maps.Keys(m.Controller.Requests)) {
		fmt.Fprintf(to, "\t%d\t%s\n", m.Controller.Requests[request], request)
	}
}
