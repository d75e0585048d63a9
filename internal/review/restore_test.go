package review

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/snapshot"
)

// TestPinsOfARestore: only the account that restores brings a VM back to other pins, only together with the mark of a restore, and only to revisions that
// exist.
func TestPinsOfARestore(t *testing.T) {
	now, current := configured(t, "Haswell")
	_, older := configured(t, "Nehalem")
	now = now.InstalledIn(config.Installation{Kiln: "machines"})
	pinsTo := func(name string) string { return `{"presets":[],"configuration":"` + name + `"}` }
	const restorer = "system:serviceaccount:machines:kiln-controller"
	for why, test := range map[string]struct {
		account, mark, to, want string
		refused                 bool
	}{
		"a restore":              {account: restorer, mark: "r-1", to: older.GetName(), want: older.GetName()},
		"without a mark":         {account: restorer, to: older.GetName(), refused: true},
		"by its owner":           {account: "alice", mark: "r-1", to: older.GetName(), refused: true},
		"by KubeVirt":            {account: "system:serviceaccount:kubevirt:kubevirt-controller", mark: "r-1", to: older.GetName(), refused: true},
		"to what does not exist": {account: restorer, mark: "r-1", to: "gone-" + current.GetName()},
	} {
		r := Reviewer{Resolver: resolve.Resolver{Cached: reading(t, current, older)}, Configuration: func() config.Cluster { return now }}
		was, is := machine(t, pinsTo(current.GetName())), machine(t, pinsTo(test.to))
		if test.mark != "" {
			is.Annotations[snapshot.Mark] = test.mark
		}
		reviewed, err := r.ReviewVM(t.Context(), is, was, Asker{Name: test.account})
		if err != nil || reviewed.Allowed() == test.refused {
			t.Errorf("%s: %v, refused: %v", why, err, reviewed.Errors)
			continue
		}
		if test.refused {
			continue
		}
		stored, _ := reviewed.Stored()
		if diff := cmp.Diff(test.want, pin.Read(stored).Configuration); diff != "" {
			t.Errorf("%s: pinned to another configuration: %s", why, diff)
		}
		if lost := stored.Annotations[v1alpha1.AnnotationLostPins]; lost != "" && (test.want != "" || lost != test.to) || lost == "" && test.want == "" {
			t.Errorf("%s: lost pins '%s'", why, lost)
		}
	}
}
