// Package virtctl runs the documented command lines of 'virtctl create vm' with virtctl itself and with 'kubectl kiln', and compares the specs.
// Folder calls has a program by which tests call subresources with KubeVirt's own client, and answers has KubeVirt's own answers to VMIs, for the column of
// KubeVirt in docs/reference/runtimes.md. Other tests build virtctl from here, too:
//
//	go -C test/virtctl build -o FILE -ldflags '-X kubevirt.io/client-go/version.gitVersion=v1.9.0' kubevirt.io/kubevirt/cmd/virtctl
//
// It is a module of its own, because the dependencies of KubeVirt are no concern of Kiln's programs.
package virtctl
