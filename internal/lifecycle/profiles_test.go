package lifecycle

import (
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/pin"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// guestProfile selects every VMI of the namespace.
func guestProfile(hostname string, extends ...v1alpha1.ProfileReference) *v1alpha1.GuestProfile {
	p := &v1alpha1.GuestProfile{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: key.Namespace}}
	p.Spec.Selector, p.Spec.Extends = &metav1.LabelSelector{}, extends
	p.Spec.Template.Spec = runtime.RawExtension{Raw: []byte(`{"hostname":"` + hostname + `"}`)}
	return p
}

// TestProfilesArePinnedAtFirstSight: a VM is pinned to the profiles of its first reconcile; with hardware 'latest', it is pinned anew at each start. A VM that
// was pinned before there were profiles has none.
func TestProfilesArePinnedAtFirstSight(t *testing.T) {
	for _, test := range []struct {
		name, hardware, pins string
		profiles             int
		moves                bool
	}{
		{"new", "", "", 1, false},
		{"latest", "latest", "", 1, true},
		{"pinned before", "", `{"presets":[]}`, 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			vm := newVM(v1.RunStrategyAlways)
			vm.Annotations = map[string]string{v1alpha1.AnnotationHardware: test.hardware}
			if test.pins != "" {
				vm.Annotations[v1alpha1.AnnotationPins] = test.pins
			}
			p := guestProfile("first")
			c := newCluster(t, vm, p)
			c.reconcileRepeatedly()
			first := pin.Read(c.vmi())
			if len(first.Profiles) != test.profiles || !first.Equal(pin.Read(c.vm())) {
				t.Fatalf("the VMI has pins %+v, its VM %+v", first, pin.Read(c.vm()))
			}
			for _, name := range first.Profiles {
				if err := c.Get(t.Context(), client.ObjectKey{Namespace: key.Namespace, Name: name}, &appsv1.ControllerRevision{}); err != nil {
					t.Error(err)
				}
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
				t.Fatal(err)
			}
			p.Spec = guestProfile("second").Spec
			if err := c.Update(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			c.shutDownGuest()
			c.reconcileRepeatedly()
			if got := pin.Read(c.vmi()); got.Equal(first) == test.moves || !got.Equal(pin.Read(c.vm())) {
				t.Errorf("the next VMI has pins %+v, its VM %+v, the first had %+v", got, pin.Read(c.vm()), first)
			}
		})
	}
}

// TestProfileWithoutItsBase: a VM is not pinned to a profile without the profile that it extends. Admission refuses its VMI.
func TestProfileWithoutItsBase(t *testing.T) {
	c := newCluster(t, newVM(v1.RunStrategyHalted), guestProfile("a", v1alpha1.ProfileReference{Name: "nothing"}))
	c.reconcileRepeatedly()
	if got := pin.Read(c.vm()); got.PinsProfiles() || c.vm().Annotations[v1alpha1.AnnotationIdentity] == "" {
		t.Errorf("pins %+v, identity '%s'; want no pins, and an identity", got, c.vm().Annotations[v1alpha1.AnnotationIdentity])
	}
}
