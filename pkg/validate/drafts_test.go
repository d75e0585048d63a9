package validate_test

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/validate"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// TestDrafts: a guest whose instancetype or preference is not known is refused by those rules alone that neither can mend.
func TestDrafts(t *testing.T) {
	const moreSockets = "spec: {domain: {cpu: {sockets: 5, maxSockets: 4}}}"
	for _, test := range []struct {
		why, written, explicit   string
		instancetype, preference bool
		want                     []string
	}{
		{"a rule that either mends, in the guest with its defaults", "", moreSockets, true, false, nil},
		{"the same, mended by the preference", "", moreSockets, false, true, nil},
		{"the same, where both are known", "", moreSockets, false, false, []string{"cpu/sockets"}},
		{"what is written is wrong whatever comes", moreSockets, "", true, true, []string{"cpu/sockets"}},
		{"a rule that an instancetype alone mends", "", "spec: {domain: {memory: {guest: '0'}}}", false, true, []string{"memory/guest"}},
		{"a rule that a preference alone mends", "", "spec: {domain: {firmware: {uuid: none}}}", true, false, []string{"firmware/uuid"}},
		{"memory may still come", "spec: {domain: {memory: null}}", "", true, false, nil},
		{"an architecture may still come, and with it a machine", "spec: {architecture: '', domain: {machine: {type: virt}}}", "", true, false, nil},
		{"a machine that does not fit the architecture that is written", "spec: {domain: {machine: {type: virt}}}", "", true, true, []string{"machine/type"}},
		{"a ceiling that cannot be used", "", "spec: {domain: {memory: {guest: 1025Mi, maxGuest: 2Gi}}}", false, true, []string{"memory/growth"}},
		{"one mistake in both is told once", moreSockets, moreSockets, false, false, []string{"cpu/sockets"}},
	} {
		t.Run(test.why, func(t *testing.T) {
			limits := config.Default().Limits
			liveUpdate(&limits)
			draft := validate.Draft{
				Written:  object[v1.VirtualMachineInstance](t, legalVMI, test.written),
				Explicit: object[v1.VirtualMachineInstance](t, legalVMI, test.explicit),
			}
			draft.May.Instancetype, draft.May.Preference = test.instancetype, test.preference
			var got []string
			for _, err := range validate.Known(draft, limits, nil) {
				got = append(got, err.Origin)
			}
			if diff := cmp.Diff(test.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMost: nobody reads a thousand errors. Those that say the same of one field count once.
func TestMost(t *testing.T) {
	for _, test := range []struct{ mistakes, want int }{
		{validate.MostErrors - 1, validate.MostErrors - 1},
		{validate.MostErrors, validate.MostErrors},
		{validate.MostErrors + 1, validate.MostErrors},
	} {
		features := strings.TrimSuffix(strings.Repeat("{name: ''}, ", test.mistakes), ", ")
		guest := object[v1.VirtualMachineInstance](t, legalVMI, "spec: {domain: {cpu: {features: ["+features+"]}}}")
		errs := validate.Guest(guest, config.Default().Limits, nil)
		if len(errs) != test.want {
			t.Errorf("%d mistakes: got %d errors, want %d", test.mistakes, len(errs), test.want)
		}
		if i := slices.IndexFunc(errs, func(err *field.Error) bool { return err.Origin != "cpu/feature-name" }); i >= 0 {
			t.Errorf("%d mistakes: %v", test.mistakes, errs[i])
		}
	}
}

// TestErrorsAreNotSquared: a request of a few kilobytes, whose networks and interfaces all have one name, does not take hundreds of
// mebibytes.
func TestErrorsAreNotSquared(t *testing.T) {
	const many = validate.MostErrors / 2 * 9 / 10 // fewer than end the judgement at the rule of names
	guest := object[v1.VirtualMachineInstance](t, legalVMI)
	claim := v1.NetworkSource{ResourceClaim: &v1.ClaimRequest{ClaimName: "c", RequestName: "r"}}
	for range many {
		guest.Spec.Networks = append(guest.Spec.Networks, v1.Network{Name: "a", NetworkSource: claim})
		guest.Spec.Domain.Devices.Interfaces = append(guest.Spec.Domain.Devices.Interfaces, v1.Interface{Name: "a"})
	}
	limits := config.Default().Limits
	networkClaims(&limits)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	errs := validate.Guest(guest, limits, nil)
	runtime.ReadMemStats(&after)
	if taken := (after.TotalAlloc - before.TotalAlloc) >> 20; taken > 16 {
		t.Errorf("%d networks and interfaces of one name took %d MiB", many, taken)
	}
	if !slices.ContainsFunc(errs, func(err *field.Error) bool { return err.Origin == "networks/claim-binding" }) {
		t.Error("no interface was judged")
	}
}
