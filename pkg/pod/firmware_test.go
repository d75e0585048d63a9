package pod

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestStateClaim: what a pod mounts is what the claim is called, and the claim is the VM's.
func TestStateClaim(t *testing.T) {
	owned := true
	for _, test := range []struct {
		why, spec, class string
		owners           []metav1.OwnerReference
		owner            string // empty if there is no claim
	}{
		{"nothing to keep", efi("persistent: false"), "fast", nil, ""},
		{"nowhere to keep it", efi("persistent: true"), "", nil, ""},
		{"variables", efi("persistent: true"), "fast", nil, "VirtualMachineInstance web"},
		{"a TPM", "domain: {devices: {tpm: {persistent: true}}}", "fast", nil, "VirtualMachineInstance web"},
		{"of a VM", efi("persistent: true"), "fast", []metav1.OwnerReference{{Kind: "Backup", Name: "b"}, {Kind: "VirtualMachine", Name: "vm", Controller: &owned}},
			"VirtualMachine vm"},
	} {
		t.Run(test.why, func(t *testing.T) {
			in := input(t, test.spec)
			in.StateClass, in.VMI.OwnerReferences = test.class, test.owners
			claim := StateClaim(in)
			if test.owner == "" {
				if claim != nil {
					t.Errorf("got %v", claim)
				}
				return
			}
			if diff := cmp.Diff([]string{"/var/lib/kiln/state claim " + claim.Name}, found(t, in)); diff != "" {
				t.Error(diff)
			}
			owner := claim.OwnerReferences[0]
			if got := owner.Kind + " " + owner.Name; len(claim.OwnerReferences) != 1 || got != test.owner || *claim.Spec.StorageClassName != test.class ||
				claim.Namespace != "shop" {
				t.Errorf("owner '%s', %+v", got, claim)
			}
		})
	}
}
