package lifecycle

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/pkg/config"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

// setFrontendProfile makes a FrontendProfile part of the current configuration; none if the name is empty.
func (c *testCluster) setFrontendProfile(name string) {
	var all []v1alpha1.FrontendProfile
	if name != "" {
		all = append(all, v1alpha1.FrontendProfile{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	now := config.Default().WithFrontendProfiles(all)
	c.controller.Configuration = func() config.Cluster { return now }
}

// recordedFrontend returns the frontend values in the record that the launcher reads; empty for Kiln's own values.
func (c *testCluster) recordedFrontend() string {
	c.Helper()
	c.setPhase(v1.Scheduled)
	c.reconcileRepeatedly()
	found := c.hardware()
	if found == nil || found.Status.Guest == nil || found.Status.Guest.UID != c.vmi().UID {
		c.Fatalf("the launcher finds no hardware for its guest: %+v", found)
	}
	if found.Status.Guest.Frontend == nil {
		return ""
	}
	return found.Status.Guest.Frontend.Version
}

// TestPinnedFrontend: a VM starts with the version that it was admitted with, however long ago that was, until it is pinned anew.
func TestPinnedFrontend(t *testing.T) {
	for _, first := range []string{"", "v1"} {
		c := newCluster(t, newVM(v1.RunStrategyHalted))
		c.setFrontendProfile(first)
		c.reconcileRepeatedly() // it is pinned, and never booted
		c.setFrontendProfile("v2")
		c.setRunStrategy(v1.RunStrategyAlways)
		c.reconcileRepeatedly()
		if got := c.recordedFrontend(); got != first {
			t.Errorf("the first boot has version '%s', want '%s'", got, first)
		}
		c.setPhase(v1.Running)
		c.reconcileRepeatedly()
		c.setFrontendProfile("")
		c.shutDownGuest()
		c.reconcileRepeatedly()
		if got := c.recordedFrontend(); got != first {
			t.Errorf("the second boot has version '%s', want '%s'", got, first)
		}
		c.setFrontendProfile("v3")
		vm := c.vm()
		vm.Annotations[v1alpha1.AnnotationPins] = `{"presets":[]}` // as after 'repin': the webhook, which is not here, would pin anew
		if err := c.Update(t.Context(), vm); err != nil {
			t.Fatal(err)
		}
		c.setPhase(v1.Running)
		c.reconcileRepeatedly()
		c.shutDownGuest()
		c.reconcileRepeatedly()
		if got := c.recordedFrontend(); got != "v3" {
			t.Errorf("after a repin the boot has version '%s'", got)
		}
	}
}

// TestFrontendOfBareVMI: a VMI without a VM keeps the version that was current when its hardware was assigned, whatever its owner writes later.
func TestFrontendOfBareVMI(t *testing.T) {
	vmi := &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "bare"}}
	c := newCluster(t, vmi)
	c.setFrontendProfile("v4")
	if got := c.recordedFrontend(); got != "v4" {
		t.Errorf("version '%s'", got)
	}
	c.setFrontendProfile("v5")
	edited := c.vmi()
	edited.Annotations = map[string]string{v1alpha1.AnnotationPins: `{"configuration":""}`, "kilnvm.io/frontend": "v5"}
	if err := c.Update(t.Context(), edited); err != nil {
		t.Fatal(err)
	}
	if got := c.recordedFrontend(); got != "v4" {
		t.Errorf("version '%s' after its owner has written annotations", got)
	}
}

// TestForgedFrontendPin: a VMI that names a revision that does not exist, or that Kiln has not written, gets no hardware, and a condition says why.
func TestForgedFrontendPin(t *testing.T) {
	forged := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "configuration-aaaaaaaaaaaaaaaaaaaaaaaaaa"}}
	forged.Data.Raw = []byte(`{"apiVersion":"kilnvm.io/v1alpha1","kind":"ClusterConfiguration","metadata":{"name":"configuration"},` +
		`"spec":{"frontend":{"version":"v1","smbios":{"manufacturer":"Forged"}}}}`)
	for why, name := range map[string]string{"missing": "configuration-bbbbbbbbbbbbbbbbbbbbbbbbbb", "forged": forged.Name} {
		vmi := &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "bare"}}
		pin.Write(vmi, v1alpha1.Pins{Configuration: name})
		c := newCluster(t, vmi, forged.DeepCopy())
		c.setFrontendProfile("v9")
		c.setPhase(v1.Scheduled)
		if _, err := c.records.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err == nil {
			t.Errorf("%s: it is not tried again", why)
		}
		reported := ""
		for _, condition := range c.vmi().Status.Conditions {
			if condition.Type == v1.VirtualMachineInstanceSynchronized && condition.Status == corev1.ConditionFalse {
				reported = condition.Reason + ": " + condition.Message
			}
		}
		if c.hardware() != nil || !strings.Contains(reported, v1alpha1.ReasonFailedPin) || !strings.Contains(reported, name) {
			t.Errorf("%s: hardware %+v, condition '%s'", why, c.hardware(), reported)
		}
	}
}
