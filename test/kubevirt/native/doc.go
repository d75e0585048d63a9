// Package native is a module of its own for the programs of KubeVirt v1.9.0 that run on nodes: virt-handler, virt-launcher, and what their images have beside
// them. They need a C compiler, which the programs of module test/kubevirt do without. Package test/virtlauncher of the main module builds them:
//
//	CGO_ENABLED=1 go -C test/kubevirt/native build -tags libvirt_dlopen -o FOLDER/ kubevirt.io/kubevirt/cmd/virt-launcher
//
// With the tag, which libvirt's Go binding offers, virt-launcher looks for libvirt's library when it starts, so that it is built without the library and its
// headers. KubeVirt's code is as it was released, except for libnbd: see standins/libnbd.
package native
