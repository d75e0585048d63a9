// Package component knows the arguments of Kubernetes' programs that a bare control plane and a node have in common.
//
// The programs run in one directory and name their files relative to it. etcd's sockets need that: the path of a Unix socket may
// have 107 bytes, less than a test's temporary directory can take.
package component

const (
	// EtcdSocket is a file: etcd demands host:port here, even of a socket, and makes a file of just that name.
	EtcdSocket = "etcd:0"
	peerSocket = "peer:0"
)

// Etcd returns the arguments of an etcd that listens on Unix sockets. So it takes no port, and no other user of this machine can read or write the cluster
// without the API server. It does not call fsync, because the data is not needed after the process.
func Etcd() []string {
	return []string{
		"--name=kiln",
		"--data-dir=data",
		"--unsafe-no-fsync",
		"--listen-client-urls=unix://" + EtcdSocket,
		"--advertise-client-urls=unix://" + EtcdSocket,
		"--listen-peer-urls=unix://" + peerSocket,
		"--initial-advertise-peer-urls=unix://" + peerSocket,
		"--initial-cluster=kiln=unix://" + peerSocket,
		"--log-level=warn",
	}
}

// APIServer reads the files that authority.WriteServerFiles writes. The admission plugins are the default ones, which include both
// kinds of webhook, ValidatingAdmissionPolicy, NamespaceLifecycle and ServiceAccount.
func APIServer(further ...string) []string {
	return append([]string{
		"--etcd-servers=unix://" + EtcdSocket,
		"--tls-cert-file=apiserver.crt",
		"--tls-private-key-file=apiserver.key",
		"--client-ca-file=ca.crt",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=sa.pub",
		"--service-account-signing-key-file=sa.key",
		"--allow-privileged",
		// Aggregation. The authority signs users, too, so the name says who passes a caller on.
		"--requestheader-client-ca-file=ca.crt",
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=front-proxy.crt",
		"--proxy-client-key-file=front-proxy.key",
	}, further...)
}

// ControllerManager returns the arguments of a controller manager without leader election that serves no port.
func ControllerManager(further ...string) []string {
	return append([]string{
		"--leader-elect=false",
		"--use-service-account-credentials",
		"--secure-port=0",
		"--kube-api-qps=200",
		"--kube-api-burst=400",
	}, further...)
}
