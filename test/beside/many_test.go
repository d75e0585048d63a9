package beside

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/nightly"
	"golang.org/x/sync/errgroup"
	v1 "kubevirt.io/api/core/v1"
)

// TestMany: Kiln is added to a cluster with VMS=200 VMs, half of which run, and removed again. Adding restarts nothing, changes no spec, and pins all. Removing
// leaves nothing that KubeVirt misses: the VMs stop, start and are deleted as before. In between it measures creates per second: with only KubeVirt's webhooks,
// and with Kiln's, too.
func TestMany(t *testing.T) {
	nightly.Only(t)
	vms := nightly.Number(t, "VMS", 200)
	dir, err := cluster.Dir("kiln-many")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	on, err := start(t.Context(), dir, cluster.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := on.Close(); err != nil {
			t.Error(err)
		}
	})
	m := many{newSpaceOn(t, on), vms}
	m.create(small)
	m.create(virtio)
	m.made()
	alone := m.rate()
	vmsBefore, vmisBefore := m.vmsNow(), m.vmisNow()
	began := time.Now()
	m.ok(on.AddKiln(t.Context()))
	m.pinned()
	t.Logf("%d VMs are pinned %s after Kiln was begun to be added", vms, time.Since(began).Round(time.Second))
	m.unchanged("adding", vmsBefore, vmisBefore)
	with := m.rate()
	t.Logf("creates per second: %.1f with KubeVirt alone, %.1f beside Kiln: %.2f of it", alone, with, with/alone)
	m.ok(on.RemoveKiln(t.Context()))
	m.unchanged("removing", vmsBefore, vmisBefore)
	m.clean()
	m.goesOn()
}

// many is a namespace with many VMs.
type many struct {
	space
	vms int
}

// each does something of each VM, some at a time.
func (m many) each(what func(name string, i int) error) {
	m.Helper()
	group := errgroup.Group{}
	group.SetLimit(8)
	for i := range m.vms {
		group.Go(func() error { return what(fmt.Sprintf("vm%03d", i), i) })
	}
	m.ok(group.Wait())
}

// made makes the VMs, and waits until every second one runs.
func (m many) made() {
	m.Helper()
	m.each(func(name string, i int) error {
		vm := m.parsed(strings.Replace(sized, "name: sized", "name: "+name, 1))
		vm.SetNamespace(m.name)
		if i%2 == 1 {
			vm.Object["spec"].(map[string]any)["runStrategy"] = string(v1.RunStrategyHalted)
		}
		_, err := m.on.Create(m.Context(), vm)
		return err
	})
	for i := range m.vms {
		name := fmt.Sprintf("vm%03d", i)
		m.eventually(name+" is as asked for", func() (bool, any) {
			vm := m.machine(name)
			return vm.Status.InstancetypeRef != nil && vm.Status.Created == (i%2 == 0) && vm.Status.Ready == (i%2 == 0) && vm.Status.PrintableStatus != "", vm.Status
		})
	}
}

// rate is how many VMs are admitted per second, by eight clients: dry runs, so that no controller has a part in it.
func (m many) rate() float64 {
	m.Helper()
	const creates = 400
	object := m.parsed(manifest("rate", v1.RunStrategyHalted, ""))
	group := errgroup.Group{}
	group.SetLimit(8)
	began := time.Now()
	for range creates {
		group.Go(func() error {
			_, err := m.on.WouldCreate(m.Context(), m.in("vm"), object)
			return err
		})
	}
	m.ok(group.Wait())
	return creates / time.Since(began).Seconds()
}

func (m many) vmsNow() map[string]*v1.VirtualMachine {
	m.Helper()
	list, err := m.on.List(m.Context(), m.in("vm"), "")
	m.ok(err)
	found := map[string]*v1.VirtualMachine{}
	for i := range list.Items {
		found[list.Items[i].GetName()] = as[v1.VirtualMachine](m.space, &list.Items[i])
	}
	return found
}

func (m many) vmisNow() map[string]*v1.VirtualMachineInstance {
	m.Helper()
	list, err := m.on.List(m.Context(), m.in("vmi"), "")
	m.ok(err)
	found := map[string]*v1.VirtualMachineInstance{}
	for i := range list.Items {
		found[list.Items[i].GetName()] = as[v1.VirtualMachineInstance](m.space, &list.Items[i])
	}
	return found
}

// pinned waits until all VMs are.
func (m many) pinned() {
	m.Helper()
	m.eventually("all VMs are pinned", func() (bool, any) {
		left := 0
		for _, vm := range m.vmsNow() {
			if vm.Annotations[v1alpha1.AnnotationPins] == "" || vm.Annotations[v1alpha1.AnnotationIdentity] == "" {
				left++
			}
		}
		return left == 0, left
	})
}

// unchanged compares specs, what is expanded, and guests.
func (m many) unchanged(what string, vms map[string]*v1.VirtualMachine, vmis map[string]*v1.VirtualMachineInstance) {
	m.Helper()
	now, guests := m.vmsNow(), m.vmisNow()
	for name, was := range vms {
		is := now[name]
		if is == nil || !reflect.DeepEqual(was.Spec, is.Spec) {
			m.Errorf("%s Kiln has changed the spec of %s", what, name)
			continue
		}
		if !reflect.DeepEqual(was.Status.InstancetypeRef, is.Status.InstancetypeRef) || !reflect.DeepEqual(was.Status.PreferenceRef, is.Status.PreferenceRef) {
			m.Errorf("%s Kiln has changed what %s is expanded of: %v, was %v", what, name, is.Status.InstancetypeRef, was.Status.InstancetypeRef)
		}
		ref := is.Status.InstancetypeRef.ControllerRevisionRef
		if _, err := m.on.Get(m.Context(), m.in("controllerrevision"), ref.Name); err != nil {
			m.Errorf("after %s Kiln, %s: %v", what, name, err)
		}
	}
	for name, was := range vmis {
		if is := guests[name]; is == nil || is.UID != was.UID || !reflect.DeepEqual(was.Spec, is.Spec) {
			m.Errorf("%s Kiln has changed the guest of %s, or restarted it", what, name)
		}
	}
	if len(now) != len(vms) || len(guests) != len(vmis) {
		m.Errorf("after %s Kiln: %d VMs and %d VMIs, there were %d and %d", what, len(now), len(guests), len(vms), len(vmis))
	}
}

// clean looks for what is left of Kiln: webhooks, policies, finalizers.
func (m many) clean() {
	m.Helper()
	for _, kind := range []string{
		"mutatingwebhookconfiguration", "validatingwebhookconfiguration", "validatingadmissionpolicy", "validatingadmissionpolicybinding",
		"clusterrole", "clusterrolebinding",
	} {
		list, err := m.on.List(m.Context(), cluster.In{Kind: kind}, "")
		m.ok(err)
		for _, object := range list.Items {
			if strings.HasPrefix(object.GetName(), "kiln") {
				m.Errorf("%s '%s' is left", kind, object.GetName())
			}
		}
	}
	for name, vm := range m.vmsNow() {
		for _, finalizer := range vm.Finalizers {
			if strings.HasPrefix(finalizer, v1alpha1.Prefix) {
				m.Errorf("%s has finalizer %s", name, finalizer)
			}
		}
	}
}

// goesOn stops, starts and deletes VMs after Kiln.
func (m many) goesOn() {
	m.Helper()
	m.must("stop", "vm000")
	m.gone("vm000")
	m.must("start", "vm000")
	m.runs("vm000")
	m.must("start", "vm001")
	m.runs("vm001")
	m.ok(m.on.Delete(m.Context(), m.in("vm"), "vm002"))
	m.eventually("vm002 is gone", func() (bool, any) {
		_, err := m.on.Get(m.Context(), m.in("vm"), "vm002")
		return err != nil, err
	})
	if refused := m.on.Refused(); len(refused) > 0 {
		m.Errorf("nodes' components were refused: %v", refused)
	}
}
