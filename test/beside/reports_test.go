package beside

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"
)

// installReports installs the definitions of OpenReports, from its module.
func installReports(s space) {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/openreports/reports-api")
	dir, err := cmd.Output()
	s.ok(err)
	file := filepath.Join(strings.TrimSpace(string(dir)), "config", "install.yaml")
	if _, stderr, err := s.on.Kubectl(s.Context(), "", "apply", "--server-side", "-f", file); err != nil {
		s.Fatal(err, stderr)
	}
}

// TestReports: the controller writes what the policies say about stored VMs as reports of OpenReports, with the rights of its role, follows changes, and
// deletes the reports when no policy is left.
func TestReports(t *testing.T) {
	s := newSpace(t)
	installReports(s)
	s.vm("denied", v1.RunStrategyHalted, "")
	s.vm("fine", v1.RunStrategyHalted, "")
	name := s.name
	s.policy(name, "Fail") // newer than the VMs
	report := func() (of openreports.Report, found bool) {
		object, err := s.on.Get(s.Context(), s.in("report"), "kiln-guestpolicies")
		if err != nil {
			return of, false
		}
		s.ok(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &of))
		return of, true
	}
	s.eventually("the report names the VM", func() (bool, any) {
		of, _ := report()
		return of.Summary.Pass == 1 && of.Summary.Fail == 1 && len(of.Results) == 1 && of.Results[0].Policy == name &&
			of.Results[0].Subjects[0].Name == "denied" && of.Results[0].Subjects[0].UID == s.machine("denied").UID, of
	})
	stdout, stderr, err := s.on.Kubectl(s.Context(), "", "get", "clusterreport", "kiln-guestpolicies", "-o",
		`jsonpath={.results[?(@.policy=="`+name+`")].message}`)
	if err != nil || stdout != "fail: 1, pass: 1; namespaces: 1" {
		t.Errorf("the ClusterReport says %q %s %v", stdout, stderr, err)
	}
	if _, stderr, err := s.on.Kubectl(s.Context(), "", "delete", "vm", "denied", "-n", s.name); err != nil {
		t.Fatal(err, stderr)
	}
	s.eventually("the report follows", func() (bool, any) {
		of, found := report()
		return found && of.Summary.Fail == 0 && of.Summary.Pass == 1 && len(of.Results) == 0, of
	})
	if _, stderr, err := s.on.Kubectl(context.Background(), "", "delete", "guestpolicy", name); err != nil {
		t.Fatal(err, stderr)
	}
	s.eventually("the report goes with the policy", func() (bool, any) {
		of, found := report()
		return !found, of
	})
}
