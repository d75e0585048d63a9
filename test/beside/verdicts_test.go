package beside

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/test/nightly"
	"github.com/kilnvm/kiln/test/samples"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// verdict is the API server's answer to a create.
type verdict struct {
	allowed bool
	message string
}

// judged is a guest that is judged twice: with only KubeVirt, and beside Kiln.
type judged struct {
	name   string
	object *unstructured.Unstructured
}

// recordedGuests is how many guests of the corpus are judged.
const recordedGuests = 500

// verdicts returns the verdicts about all guests that are compared, besides the verdicts of have.
func verdicts(s space, have map[string]verdict) map[string]verdict {
	s.Helper()
	found := maps.Clone(have)
	if found == nil {
		found = map[string]verdict{}
	}
	all := guests(s)
	answers := make([]verdict, len(all))
	group, ctx := errgroup.WithContext(s.Context())
	group.SetLimit(8)
	for i, guest := range all {
		group.Go(func() error {
			_, err := s.on.WouldCreate(ctx, s.in(strings.ToLower(guest.object.GetKind())), guest.object)
			answers[i] = verdict{allowed: err == nil}
			if err != nil {
				answers[i].message = err.Error()
			}
			return nil
		})
	}
	s.ok(group.Wait())
	for i, guest := range all {
		found[guest.name] = answers[i]
	}
	return found
}

// deviations are where Kiln's verdict differs from KubeVirt's on purpose: what a refusal has, of Kiln or of KubeVirt, and the entry of
// docs/reference/deviations.md that explains it.
var deviations = []struct{ message, entry string }{
	{"spec.domain.memory.guest: Invalid value: \"-1Gi\": must be greater than 0", "**Memory of nothing.**"},
	{"spec.domain.memory.guest: Invalid value: \"0\": must be greater than 0", "**Memory of nothing.**"},
	{"must not be greater than maxGuest", "`memory.guest` above `maxGuest`"},
	{"is private to this VMI and cannot be shared", "volume that is made for one VMI"},
	{"spec.domain.features.hypervPassthrough.enabled: Required value", "**`hypervPassthrough` without `enabled`.**"},
	{"spec.domain.clock.timer.hpet.tickPolicy: Unsupported value", "**Words that libvirt does not know.**"},
	{"spec.domain.features.apic.endOfInterrupt: Forbidden", "end-of-interrupt and timers of PCs on s390x and"},
	{"has only PCI bus '00' and function '0'", "**PCI addresses that no guest has.**"},
	{"no device has function 0 of this slot", "**PCI addresses that no guest has.**"},
	{"KubeVirt runs the guest, and makes no PCI bridge", "where KubeVirt runs the guest, a slot behind a bridge"},
	{"is a multicast address", "multicast MACs"},
	{"a volume of type memoryDump cannot be a disk", "**A memory dump is no disk.**"},
	{"acpiIndex: Invalid value", "ACPI index"},
	{"architecture 's390x' has no NUMA nodes", "**What a mainframe lacks.**"},
	{"Bus type virtio is invalid for CD-ROM device", "**CD-ROMs on arm64 and s390x.**"},
	{"spec.subdomain: Invalid value", "a subdomain of several labels"},
	{"spec.domain.clock.timezone: Forbidden: cannot be combined with utc", "both offsets at once"},
	{"containerDisk.image: Required value", "**Volumes that no pod mounts.**"},
	{"has no huge pages of this size", "**Huge pages of no architecture.**"},
	{"spec.terminationGracePeriodSeconds: Invalid value: -1", "**Less time than nothing.**"},
	{"must be the resource of a device plugin", "**Resources of device plugins.**"},
}

// TestVerdicts: beside Kiln, the same guests are admitted as by KubeVirt without Kiln, except for the listed deviations.
func TestVerdicts(t *testing.T) {
	withKiln(t)
	s := before.space
	s.T = t
	now := verdicts(s, nil)
	counted, met := map[string]int{}, map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		was, is := before.verdicts[name], now[name]
		kind, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(name, "ours "), "published "), " ")
		counted[kind]++
		if was.allowed == is.allowed {
			continue
		}
		i := slices.IndexFunc(deviations, func(d struct{ message, entry string }) bool {
			return strings.Contains(was.message+is.message, d.message)
		})
		if i < 0 {
			t.Errorf("%s:\n  KubeVirt: %t %s\n  beside Kiln: %t %s", name, was.allowed, was.message, is.allowed, is.message)
			continue
		}
		met[deviations[i].message]++
	}
	t.Logf("%v verdicts; deviations: %v", counted, met)
	page, err := os.ReadFile("../../docs/reference/deviations.md")
	s.ok(err)
	for _, d := range deviations {
		if !strings.Contains(string(page), d.entry) {
			t.Errorf("docs/reference/deviations.md has no entry with '%s'", d.entry)
		}
		if met[d.message] == 0 && samples.Shared(t) != "" && os.Getenv("NIGHTLY") == "" {
			t.Errorf("no guest differs by '%s': take the line away", d.message)
		}
	}
	allowed := 0
	for _, v := range now {
		if v.allowed {
			allowed++
		}
	}
	least := 25 // the guests of examples/ and of our catalog
	if samples.Shared(t) != "" {
		least = 50
	}
	if refused := len(now) - allowed; allowed < least || samples.Shared(t) != "" && refused < least {
		t.Errorf("%d guests are admitted, %d refused: too few of either to tell anything", allowed, refused)
	}
}

// TestMatrix says that the whole matrix is judged by 'make nightly'.
func TestMatrix(t *testing.T) {
	nightly.Only(t)
	withKiln(t)
	if n := len(all); n < 3000 && samples.Shared(t) != "" {
		t.Errorf("%d guests were judged", n)
	}
}
