package e2e

import (
	"strings"
	"testing"
)

// TestMebibyteOfDisks: what mutating webhooks get has not been through the schema. One mistake is reported, and no replica grows by more than a
// few times the request.
func TestMebibyteOfDisks(t *testing.T) {
	const n, most = 1 << 20 / 3, 96 << 20
	s := newSpaceOn(t, shared) // before the tests that run at the same time
	before, err := shared.WebhookPeaks()
	if err != nil {
		t.Fatal(err)
	}
	disks := strings.TrimSuffix(strings.Repeat("{},", n), ",")
	manifest := `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"big"},"spec":{"runStrategy":"Halted",` +
		`"template":{"spec":{"domain":{"memory":{"guest":"64Mi"},"devices":{"disks":[` + disks + `]}}}}}}`
	for range 4 { // both replicas
		got := s.kubectl(manifest, "create", "--validate=false", "-f", "-")
		if got.err == nil {
			t.Fatal("a VM of 349,525 disks was created")
		}
		for _, want := range []string{"spec.template.spec.domain.devices.disks", "349525", "at most 512"} {
			if !strings.Contains(got.stderr, want) {
				t.Errorf("the refusal lacks '%s': %.1000s", want, got.stderr)
			}
		}
		if len(got.stderr) > 2000 {
			t.Errorf("a refusal of %d bytes", len(got.stderr))
		}
	}
	after, err := shared.WebhookPeaks()
	if err != nil || len(after) != len(before) || len(after) == 0 {
		t.Fatalf("%v, %v: %v", before, after, err)
	}
	for i := range after {
		t.Logf("replica %d: %d MiB before, %d MiB after", i, before[i]>>20, after[i]>>20)
		if after[i]-before[i] > most {
			t.Errorf("replica %d has grown from %d to %d MiB", i, before[i]>>20, after[i]>>20)
		}
	}
}
