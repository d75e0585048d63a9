package cli

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench/rehearsal"
)

// TestRepinPlan: the plan of a rehearsal is followed by 'repin', which writes nothing to a VM that is gone, and refuses files that are no plans.
func TestRepinPlan(t *testing.T) {
	t.Parallel()
	stored := strings.Replace(vm, "namespace: shop", "namespace: shop, uid: u1, resourceVersion: \"5\"", 1)
	_, dump := write(t, size, stored)
	_, change := write(t, more)
	dir := t.TempDir()
	plan, page := filepath.Join(dir, "plan.json"), filepath.Join(dir, "page.html")
	if got := call(t, "", "rehearse", "-f", dump, "--with", change, "--plan", plan, "--html", page); cmdutil.ExitStatus(got.err) != 3 {
		t.Fatalf("%v: %s", got.err, got.errOut)
	}
	read, err := rehearsal.ReadPlan(plan)
	if err != nil || len(read.Items) != 1 || read.Items[0].Verdict != rehearsal.Restart || read.Items[0].ResourceVersion != "5" ||
		read.Items[0].To.Instancetype == "" {
		t.Fatalf("%v: %+v", err, read)
	}
	if html, err := os.ReadFile(page); err != nil || !strings.Contains(string(html), "<bdi>restart</bdi>: 1 VM, for example <bdi>") {
		t.Errorf("the page: %v: %s", err, html)
	}
	wrote := false
	server := &apiServer{answer: func(_ http.ResponseWriter, r *http.Request) bool {
		wrote = wrote || r.Method != http.MethodGet
		return false
	}}
	flags := server.serve(t, size)
	got := call(t, "", append([]string{"repin", "--plan", plan, "--only", "restart"}, flags...)...)
	const want = "shop/web (restart): skipped: it no longer exists\n0 repinned, 1 skipped; 0 left\nskipped VMs need a new rehearsal\n"
	if got.err != nil || got.out != want || wrote {
		t.Errorf("%v: %s%s\nwant\n%s", got.err, got.out, got.errOut, want)
	}
	var answer struct {
		Kind   string
		Counts map[string]int
	}
	got = call(t, "", append([]string{"repin", "--plan", plan, "--only", "restart", "-o", "json"}, flags...)...)
	if err := json.Unmarshal([]byte(got.out), &answer); err != nil || answer.Kind != "RepinnedPlan" || answer.Counts["skipped"] != 1 {
		t.Errorf("%v: %s", err, got.out)
	}
	other := filepath.Join(dir, "other.json")
	for why, content := range map[string]string{
		"another kind": `{"apiVersion": "v1", "kind": "List"}`, "not JSON": "plan", "unknown field": `{"kind": "RehearsalPlan", "more": 1}`,
		"twice": strings.TrimSuffix(planText(t, read), "]}") + "," + itemText(t, read) + "]}",
	} {
		if err := os.WriteFile(other, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := call(t, "", append([]string{"repin", "--plan", other}, flags...)...); cmdutil.ExitStatus(got.err) != 2 ||
			!strings.Contains(got.err.Error(), other) {
			t.Errorf("%s: %v", why, got.err)
		}
	}
	for _, args := range [][]string{{"repin", "vm/web", "--max", "3"}, {"repin", "vm/web", "--plan", plan}, {"repin", "--plan", plan, "--presets"},
		{"repin", "--plan", plan, "--only", "refused"}, {"repin", "--plan", plan, "--max", "-1"}, {"repin"}} {
		if got := call(t, "", append(args, flags...)...); cmdutil.ExitStatus(got.err) != 2 {
			t.Errorf("%q: %v", args, got.err)
		}
	}
}

// planText returns a plan without its changes as JSON, and itemText its first item.
func planText(t *testing.T, plan rehearsal.Plan) string {
	t.Helper()
	plan.Changes = nil
	raw, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func itemText(t *testing.T, plan rehearsal.Plan) string {
	t.Helper()
	raw, err := json.Marshal(plan.Items[0])
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
