package pod

// passt opens a socket for each port that it forwards, of TCP and of UDP, when it starts. The container runtime sets the limit of open files of a container.

// MostPort is the highest port of TCP and UDP.
const MostPort = 1<<16 - 1

const (
	// leastPorts are the well-known ports. A guest for which passt can forward fewer is refused, so that its owner lists the ports.
	leastPorts = 1024
	// filesOfConnections are left for the connections of the guest.
	filesOfConnections = 2048
)

// LastForwardedPort returns the highest port that passt forwards to a guest whose interface lists no ports. openFiles is the number of files that the process
// may open, or 0 if it is not known: then the result is MostPort. The result is 0 if openFiles is not enough for leastPorts.
func LastForwardedPort(openFiles uint64) uint {
	switch {
	case openFiles == 0 || openFiles >= 2*MostPort:
		return MostPort
	case openFiles < 2*leastPorts+filesOfConnections:
		return 0
	}
	return uint(openFiles-filesOfConnections) / 2
}
