// Package node runs real Kubernetes nodes: kubelet, containerd, kube-proxy and, on the first, a control plane.
//
// A node is a mount, network, PID, IPC and UTS namespace. Three generations of this program make it: the one that was called stays
// outside and owns what no namespace ends (cgroups, loop devices, directories); Init is process 1 inside, whose end ends everything
// that runs there, also when it is killed; Inside mounts, starts and stops.
package node

import (
	"fmt"
	"net"
	"path/filepath"
)

// Tools are the directories and files of the programs.
type Tools struct {
	// Kubernetes is the folder of etcd and Kubernetes' programs, Containers the folder of containerd's programs.
	Kubernetes, Containers string
	// Runc is a file, CNI the directory of the plugins.
	Runc, CNI string
}

// Spec contains everything that process 1 of a node needs to know.
type Spec struct {
	Name string
	// Number counts the nodes from 1. The first has the control plane. All addresses follow from the number.
	Number int
	// Dir is the node's own, in which its programs run. Their logs, certificates, volumes and sockets lie there.
	Dir   string
	Tools Tools
	// Store keeps what containerd has imported.
	Store string
	// Cgroup is the root of all cgroups of pods.
	Cgroup string
	// APIServer are further arguments of the API server.
	APIServer []string
	// Kubelet is more YAML for kubelet's configuration.
	Kubelet string
	// Again reports whether the node was killed before. Its directory and its store are then as they were.
	Again bool
	// Restart starts programs that have ended again, as a machine's supervisor does. Otherwise the node ends with them.
	Restart bool
}

const (
	apiPort      = "6443"
	serviceRange = "10.96.0.0/16"
	podRange     = "10.201.0.0/16"
)

// serviceAPI is the ClusterIP of the service 'kubernetes', the first of serviceRange.
var serviceAPI = net.IPv4(10, 96, 0, 1)

func nodeAddress(number int) net.IP { return net.IPv4(10, 100, 0, byte(number)) }

// Address returns the address at which other nodes, and pods, reach this node.
func (s Spec) Address() string { return nodeAddress(s.Number).String() }

// Pods returns the range of the node's pods, a part of podRange.
func (s Spec) Pods() string { return fmt.Sprintf("10.201.%d.0/24", s.Number) }

// Range returns the range of the pods of all nodes.
func (s Spec) Range() string { return podRange }

// CRI returns the path of containerd's socket. It lies in Dir, which processes outside of the node see, too.
func (s Spec) CRI() string { return s.pathInDir("containerd.sock") }

func (s Spec) pathInDir(name string) string { return filepath.Join(s.Dir, name) }

// isFirst reports whether the node has the control plane.
func (s Spec) isFirst() bool { return s.Number == 1 }

// apiServer is the API server as nodes and pods see it.
func apiServer() string { return "https://" + net.JoinHostPort(nodeAddress(1).String(), apiPort) }
