package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/test/poll"
)

// TestReports: where Kiln runs the guests, too, the controller reports stored VMs that violate a policy, as soon as the kinds of OpenReports are served, and
// follows the VMs.
func TestReports(t *testing.T) {
	s := newSpace(t)
	cmd := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/openreports/reports-api")
	dir, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	s.must(s.kubectl(sockets("big"), "create", "-f", "-"))
	s.must(s.kubectl("", "apply", "--server-side", "-f", filepath.Join(strings.TrimSpace(string(dir)), "config", "install.yaml")))
	policy := s.policy("few", fewSockets)
	report := func(path string) string {
		return s.kubectl("", "get", "report", "kiln-guestpolicies", "--ignore-not-found", "-o", "jsonpath="+path).stdout
	}
	ofPolicy := `{range .results[?(@.policy=="` + policy + `")]}{.result} {.resources[0].name};{end}`
	if !poll.Until(3*time.Minute, func() bool { return report(ofPolicy) == "fail big;" }) { // the controller looks for the kinds once a minute
		t.Fatalf("the report names no VM: %s", report("{}"))
	}
	overview := s.must(s.kubectl("", "get", "clusterreport", "kiln-guestpolicies", "-o", `jsonpath={.results[?(@.policy=="`+policy+`")].message}`)).stdout
	if overview != "fail: 1; namespaces: 1" {
		t.Errorf("the ClusterReport says %q", overview)
	}
	s.must(s.kubectl("", "patch", "vm", "big", "--type=merge", "-p", `{"spec": {"template": {"spec": {"domain": {"cpu": {"sockets": 1}}}}}}`))
	s.eventually("the report follows the VM", func() bool { return report("{.summary.pass}") != "" && report(ofPolicy) == "" })
	s.must(s.kubectl("", "delete", "vm", "big"))
	s.eventually("the report goes with the last VM", func() bool { return report("{.kind}") == "" })
}
