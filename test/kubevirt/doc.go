// Package kubevirt is a module of its own, because the dependencies of KubeVirt are no concern of Kiln's programs. Its packages are what tests need of KubeVirt
// v1.9.0:
//
//   - virtctl compares the VMs that 'virtctl create vm' and 'kubectl kiln create vm' print;
//   - calls is a program by which tests call subresources with KubeVirt's own client;
//   - answers is a program that says what KubeVirt makes of VMIs, for the column of KubeVirt in docs/reference/runtimes.md;
//   - convert is a program that defines guests as virt-launcher does;
//   - objects is a program that prints what virt-operator installs.
//
// Tests build KubeVirt's programs from here, too (test/cluster), virt-api and virt-controller for test/beside:
//
//	go -C test/kubevirt build -o FILE -ldflags '-X kubevirt.io/client-go/version.gitVersion=v1.9.0' kubevirt.io/kubevirt/cmd/virtctl
package kubevirt
