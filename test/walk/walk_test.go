// Package walk sends random requests of a tenant to everything that the API server serves. It fails if an answer contains data of
// others, an object of others changes, or a process ends.
package walk

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/poll"
)

// number of an environment variable, or the default.
func number(name string, otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return otherwise
}

// TestTenantWalks: WALK requests of a tenant, 1,000 by default. SEED chooses them; what controllers do meanwhile differs from
// run to run.
func TestTenantWalks(t *testing.T) {
	seed, wanted := number("SEED", rand.Uint64()), int(number("WALK", 1000))
	t.Logf("SEED=%d WALK=%d", seed, wanted)
	w := newWorld(t)
	alice, insider := w.tenant("alice", tenantSpace), w.tenant("mallory", decoySpace)
	processes := w.processes()
	before := w.settled()

	w.limitPods()
	alice.holes()
	alice.forgeRecords()
	w.forgedAreAnswered()
	alice.walk(seed, wanted)
	alice.readEverything()
	for _, finding := range alice.findings {
		t.Error(finding)
	}
	t.Logf("answers by status: %v; of writes of Kiln's kinds: %v", alice.statuses, alice.writes)
	for _, fault := range alice.faults {
		t.Log("a fault of Kiln's, by its own account: " + fault)
	}
	if few := alice.writes.share(http.StatusOK, http.StatusCreated); few < leastAccepted {
		t.Errorf("%.0f %% of the writes of Kiln's kinds were let in, less than %.0f %%: the walk shows too little", 100*few, 100*leastAccepted)
	}
	for _, change := range changes(before, w.settled()) {
		t.Error("not the tenant's: " + change)
	}
	w.works()
	w.staysWithin()
	for _, change := range changes(processes, w.processes()) {
		t.Error("process: " + change)
	}
	if t.Failed() {
		return // what follows would tell the same again
	}

	// The same walk with rights on other tenants' objects must be found out.
	insider.walk(seed, max(wanted/5, 200))
	if len(insider.findings) == 0 {
		t.Error("nobody noticed that an insider was told what is not the tenant's")
	}
	if len(changes(before, w.settled())) == 0 {
		t.Error("nobody noticed that an insider changed what is not the tenant's")
	}
}

// leastAccepted is the share of writes of Kiln's kinds that must be let in: what is refused at the door reaches no controller. Seeds differ: 6 % and 21 % were
// seen.
const leastAccepted = 0.03

// Namespaces of the tenant; of others, whose objects hold canaries; and of the decoy, which is nobody's.
const (
	tenantSpace = "walk-tenant"
	otherSpace  = "walk-other"
	decoySpace  = "walk-decoy"
	homeSpace   = "walk-home" // of accounts, so that no walk deletes its own
)

// world is a cluster with a machine and with what is not the tenant's.
type world struct {
	*testing.T
	on *cluster.Cluster
	// canary is in all that is not the tenant's.
	canary string
	// machine is the label by which guests choose the launcher, and volumes the folder that it serves.
	machine, volumes string
	// revision, uid and uuid are of another's VM and its guest: names that are no secrets, to be referred to.
	revision, uid, uuid string
	served              []resource
}

// startTimeout bounds the start, which takes a minute when the programs must be built.
const startTimeout = 10 * time.Minute

func newWorld(t *testing.T) *world {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := cluster.Dir("kiln-walk")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	w := &world{T: t, canary: fmt.Sprintf("canary-%x", rand.Uint64()), machine: "walked"}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	// A gate that nobody knows is no gate, and no business of tenants.
	configuration := "developerConfiguration: {featureGates: [HostDisk, " + w.canary + "]}\n"
	if w.on, err = cluster.Start(ctx, cluster.Options{Root: root, Dir: dir, Configuration: configuration}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(w.on.Logs())
		}
		if err := w.on.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := w.on.Catalog(ctx); err != nil {
		t.Fatal(err)
	}
	w.startMachine()
	w.settle()
	w.served = w.discover()
	return w
}

// kubectl runs as the administrator.
func (w *world) kubectl(input string, args ...string) string {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 2*time.Minute)
	defer cancel()
	out, stderr, err := w.on.Kubectl(ctx, input, args...)
	if err != nil {
		w.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, stderr)
	}
	return out
}

// eventually waits for what a controller does.
func (w *world) eventually(what string, done func() bool) {
	w.Helper()
	if !soon(done) {
		w.Fatalf("did not come to pass: %s", what)
	}
}

func soon(done func() bool) bool {
	return poll.Until(2*time.Minute, done)
}

// tally counts answers by status.
type tally map[int]int

func (n tally) share(statuses ...int) float64 {
	all, those := 0, 0
	for status, count := range n {
		all += count
		if slices.Contains(statuses, status) {
			those += count
		}
	}
	return float64(those) / float64(max(all, 1))
}
