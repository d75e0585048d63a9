package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// The children run in one directory and name their files relative to it. etcd's sockets need that:
// the path of a Unix socket may have 107 bytes, less than a test's temporary directory can take.
const (
	adminKubeconfig = "../admin.kubeconfig"
	// etcd demands host:port here, even of a socket, and makes a file of just that name.
	etcdSocket = "etcd:0"
	peerSocket = "peer:0"
)

// etcdArgs: on Unix sockets, so that it takes no port, and no other user of this machine can read
// or write the cluster past the API server. Without fsync, since the data ends with the process.
func etcdArgs() []string {
	return []string{
		"--name=kiln",
		"--data-dir=data",
		"--unsafe-no-fsync",
		"--listen-client-urls=unix://" + etcdSocket,
		"--advertise-client-urls=unix://" + etcdSocket,
		"--listen-peer-urls=unix://" + peerSocket,
		"--initial-advertise-peer-urls=unix://" + peerSocket,
		"--initial-cluster=kiln=unix://" + peerSocket,
		"--log-level=warn",
	}
}

// apiServerArgs: the admission plugins are the default ones, which include both kinds of webhook,
// ValidatingAdmissionPolicy, NamespaceLifecycle and ServiceAccount.
func apiServerArgs(port int) []string {
	return []string{
		"--etcd-servers=unix://" + etcdSocket,
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(port),
		"--permit-port-sharing", // see reservePort
		"--tls-cert-file=apiserver.crt",
		"--tls-private-key-file=apiserver.key",
		"--client-ca-file=ca.crt",
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=sa.pub",
		"--service-account-signing-key-file=sa.key",
		"--service-cluster-ip-range=10.0.0.0/24",
		"--endpoint-reconciler-type=none", // nobody reaches it by the service 'kubernetes'
		"--allow-privileged",
	}
}

const (
	auditLog    = "audit.log"
	auditPolicy = "audit.yaml"
)

// audit writes the policy by which the API server records who asked for what, and returns the arguments that name it. The end of a watch
// comes too late for whoever reads the log while it runs, so that its start is recorded too.
func (c *controlPlane) audit() ([]string, error) {
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
	return []string{
		"--kubeconfig=" + adminKubeconfig,
		"--controllers=garbage-collector-controller,namespace-controller,serviceaccount-controller",
		"--leader-elect=false",
		"--use-service-account-credentials",
		"--secure-port=0",
		"--kube-api-qps=200",
		"--kube-api-burst=400",
	}
}
