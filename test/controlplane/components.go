package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/kilnvm/kiln/test/controlplane/component"
)

const adminKubeconfig = "../admin.kubeconfig"

func apiServerArgs(port int) []string {
	return component.APIServer(
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--secure-port="+strconv.Itoa(port),
		"--permit-port-sharing", // see reservePort
		"--authorization-mode=RBAC",
		"--service-cluster-ip-range=10.0.0.0/24",
		"--endpoint-reconciler-type=none", // nobody reaches it by the service 'kubernetes'
	)
}

const (
	auditLog    = "audit.log"
	auditPolicy = "audit.yaml"
)

// writeAuditPolicy writes the policy by which the API server records the requests and their users, and returns the arguments that name it. The start of a watch
// is recorded too, because its end comes too late for a test that reads the log meanwhile.
func (c *controlPlane) writeAuditPolicy() ([]string, error) {
	if c.audited == "" {
		return nil, nil
	}
	policy := fmt.Sprintf(`{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "omitManagedFields": true,
		"rules": [{"level": "Metadata", "userGroups": [%q]}]}`, c.audited)
	return []string{"--audit-policy-file=" + auditPolicy, "--audit-log-path=" + auditLog},
		os.WriteFile(filepath.Join(c.state, auditPolicy), []byte(policy), 0o600)
}

// controllerManagerArgs: what makes deletion work, and the accounts that every namespace has. No
// other controller runs, so no Deployment, Job or Pod does anything here.
func controllerManagerArgs() []string {
	return component.ControllerManager(
		"--kubeconfig="+adminKubeconfig,
		"--controllers=garbage-collector-controller,namespace-controller,serviceaccount-controller,clusterrole-aggregation-controller",
	)
}
