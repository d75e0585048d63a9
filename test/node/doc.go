// Package node gives tests real Kubernetes nodes: an API server that calls webhooks behind Services, a scheduler, kubelets that run pods in containers.
//
// The node runs in namespaces of its own (test/controlplane/node), and ends with the process that started it, however that ends. Nothing of it is in
// the network namespace of the machine but one port of 127.0.0.1, which leads to the API server. Dial and Listen lead to everything else.
package node
