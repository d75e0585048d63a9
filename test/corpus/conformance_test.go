package corpus

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/kilnvm/kiln/internal/clusterconfig"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/test/samples"
)

// recorded is the folder of the recorded answers of the reference implementation, which is no part of the project.
func recorded(t *testing.T) string { return filepath.Join(samples.Shared(t), "conformance") }

// TestLawsOnRecordedGuests tries the laws on the VMIs of the recorded answers, on PROPS of each file at most.
func TestLawsOnRecordedGuests(t *testing.T) {
	if samples.Shared(t) == "" {
		t.Skip("no recorded answers here: set KILN_SHARED to a folder with conformance/")
	}
	clusters := configurations(t)
	g := newGenerator(t, rand.New(rand.NewPCG(number("SEED", 1), 0)))
	for _, file := range []string{"validate-vmi", "mutate", "convert"} {
		t.Run(file, func(t *testing.T) {
			var tally tally
			left := number("PROPS", 2000)
			each(t, file, func(c recordedCase) {
				if left == 0 {
					return
				}
				left--
				s := subject{name: c.ID, raw: c.VMI, in: admit.Input{Cluster: clusters[cmp.Or(c.Config, "all")]}}
				if len(c.VMI) == 0 || s.read(false) != nil {
					tally.illegible++
					return
				}
				tally.try(t, g, s)
			})
			t.Logf("%+v", tally)
			tally.enough(t)
		})
	}
}

type recordedCase struct {
	ID, Config string
	VMI        json.RawMessage
}

// each reads the cases of a file of JSON lines.
func each(t *testing.T, name string, do func(recordedCase)) {
	t.Helper()
	file, err := os.Open(filepath.Join(recorded(t), name+".jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(bufio.NewReader(unzipped))
	for decoder.More() {
		var c recordedCase
		if err := decoder.Decode(&c); err != nil {
			t.Fatal(err)
		}
		do(c)
	}
}

// configurations are the clusters of the cases, by name.
func configurations(t *testing.T) map[string]config.Cluster {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(recorded(t), "configs.json"))
	if err != nil {
		t.Fatal(err)
	}
	var named map[string]struct{ Configuration json.RawMessage }
	if err := json.Unmarshal(raw, &named); err != nil {
		t.Fatal(err)
	}
	clusters := map[string]config.Cluster{}
	for name, c := range named {
		if len(c.Configuration) == 0 {
			continue
		}
		if clusters[name], _, err = clusterconfig.Parse(c.Configuration); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return clusters
}
