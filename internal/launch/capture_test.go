package launch

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/record"
)

// TestCaptureCommand: the record that the launcher made before the start, and the one that is read back from what runs, are one.
func TestCaptureCommand(t *testing.T) {
	t.Parallel()
	vmi := claimed(t, "captured")
	cluster := holding(t, vmi)
	n := node(t, daemon(t), cluster, cluster)
	started, err := record.Parse(run(t, n, vmi).Annotations[v1alpha1.AnnotationFrontend])
	if err != nil || started == nil {
		t.Fatalf("the guest was not recorded: %v", err)
	}
	capture := func(memory string) (record.Record, error) {
		vmi := claimed(t, "captured")
		vmi.UID = "another" // the guest's identity is what runs, not what would be derived
		vmi.Kind, vmi.APIVersion = "VirtualMachineInstance", "kubevirt.io/v1"
		raw, err := json.Marshal(vmi)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "vmi.json")
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(raw), `"64Mi"`, memory)), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		command := Command()
		command.SetArgs([]string{"capture", "-f", file, "--libvirt", n.Libvirt.socket, "--kvm", "never", "--node", "here"})
		command.SetOut(&out)
		command.SetContext(t.Context())
		if err := command.Execute(); err != nil {
			return record.Record{}, err
		}
		var record record.Record
		return record, json.Unmarshal(out.Bytes(), &record)
	}
	record, err := capture(`"64Mi"`)
	if err != nil {
		t.Fatal(err)
	}
	record.Digest = started.Digest // the generation ID is another: whoever takes the guest over is not the one that started it
	if diff := cmp.Diff(*started, record); diff != "" {
		t.Errorf("record (-started with +captured):\n%s", diff)
	}
	if _, err := capture(`"128Mi"`); err == nil || !strings.Contains(err.Error(), "spec.domain.memory") {
		t.Errorf("a spec that does not match what runs: %v", err)
	}
}
