package command

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"
)

// flags returns a flag set with all flags of a Process.
func flags(p *Process) *pflag.FlagSet {
	all := pflag.NewFlagSet("process", pflag.ContinueOnError)
	p.AddAccess(all)
	p.AddNamespaces(all)
	p.AddServing(all)
	p.AddElection(all)
	return all
}

func TestFlags(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "vms")
	t.Setenv("KUBEVIRT_NAMESPACE", "virt")
	t.Setenv("KUBECONFIG", "")
	for _, test := range []struct {
		why, args, wrong string
		want             Process
	}{
		{"a pod needs none", "", "", Process{Namespace: "vms", KubeVirtNamespace: "virt", Health: ":8081", Metrics: "0", Elect: true}},
		{
			"flags go before the environment", "--namespace=others --kubevirt-namespace=kv", "",
			Process{Namespace: "others", KubeVirtNamespace: "kv", Health: ":8081", Metrics: "0", Elect: true},
		},
		{"one replica alone elects nobody", "--leader-elect=false", "", Process{Namespace: "vms", KubeVirtNamespace: "virt", Health: ":8081", Metrics: "0"}},
		{
			"all of them", "--kubeconfig=k --log-level=debug --metrics-bind-address=:1 --health-probe-bind-address=:2 --leader-elect-resource-namespace=leases", "",
			Process{
				Kubeconfig: "k", LogLevel: slog.LevelDebug, Namespace: "vms", KubeVirtNamespace: "virt", Metrics: ":1", Health: ":2", Elect: true, Leases: "leases",
			},
		},
		{"no level", "--log-level=loud", "--log-level", Process{}},
	} {
		got := Process{Health: ":8081", Metrics: "0", Elect: true}
		err := flags(&got).Parse(strings.Fields(test.args))
		if (err != nil) != (test.wrong != "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
			t.Errorf("%s: error %v, want one about '%s'", test.why, err, test.wrong)
		}
		if err == nil && got != test.want {
			t.Errorf("%s:\ngot  %+v\nwant %+v", test.why, got, test.want)
		}
	}
}

// TestNamespaceIsNeeded: by a default, accounts of a tenant's namespace could be taken for Kiln's own.
func TestNamespaceIsNeeded(t *testing.T) {
	p := Process{Kubeconfig: "none"}
	if _, err := p.NewEngine(t.Context(), "", ctrl.Options{}); err == nil || !strings.Contains(err.Error(), "--namespace must name") {
		t.Errorf("error %v, want one about --namespace", err)
	}
}
