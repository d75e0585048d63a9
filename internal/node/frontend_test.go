package node

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestFrontendOfStatus: a launcher renders with status.guest.frontend of the GuestHardware, records it, and refuses an invalid FrontendProfile.
func TestFrontendOfStatus(t *testing.T) {
	t.Parallel()
	valid := config.Default().WithFrontendProfiles([]v1alpha1.FrontendProfile{{
		ObjectMeta: metav1.ObjectMeta{Name: "v7"}, Spec: v1alpha1.FrontendProfileSpec{SMBIOS: &v1alpha1.FrontendSMBIOS{Product: "P-7"}, FreePorts: new(int32(3))},
	}}).Defaults.Frontend
	for _, test := range []struct {
		why     string
		given   *v1alpha1.Frontend
		version string
		ports   int
	}{
		{"none", nil, "3", 8},
		{"a version", valid, "v7", 3},
		{"ports that would take all memory",
			&v1alpha1.Frontend{Version: "v7", FrontendProfileSpec: v1alpha1.FrontendProfileSpec{FreePorts: new(int32(1 << 30))}}, "", 0},
		{"an invalid name", &v1alpha1.Frontend{Version: "2"}, "", 0},
	} {
		vmi := claimedVMI(t, "fronted")
		cluster := newClusterWithHardware(t, vmi)
		var hardware v1alpha1.GuestHardware
		if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(vmi), &hardware); err != nil {
			t.Fatal(err)
		}
		hardware.Status.Guest.Frontend = test.given
		if err := cluster.Status().Update(t.Context(), &hardware); err != nil {
			t.Fatal(err)
		}
		n, _ := newFakeNode(t, cluster)
		vmi.Status.NodeName = n.Name
		_, after := reconcileOnce(t, n, vmi)
		got := hardwareRecord(t, cluster, "fronted")
		switch {
		case test.version == "" && (got != nil || !refusedWith(after, "status.guest: frontend")):
			t.Errorf("%s: record %+v, conditions %+v", test.why, got, after.Status.Conditions)
		case test.version != "" && (got == nil || got.Defaults != test.version || got.FreePorts != test.ports ||
			(got.SMBIOS["product"] == "P-7") != (test.given != nil)):
			t.Errorf("%s: record %+v, conditions %+v", test.why, got, after.Status.Conditions)
		}
	}
}

func refusedWith(vmi *v1.VirtualMachineInstance, text string) bool {
	for _, c := range vmi.Status.Conditions {
		if c.Type == v1.VirtualMachineInstanceSynchronized && c.Reason == v1alpha1.ReasonNotRenderable && strings.Contains(c.Message, text) {
			return true
		}
	}
	return false
}
