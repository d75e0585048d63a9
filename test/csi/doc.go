// Package csi has the storage of test/pods: a real provisioner, a real snapshotter, and a driver of the tests' own, since the module of the hostpath driver is
// not to be had. Tests build the programs from here:
//
//	go -C test/csi build -o DIR ./driver tool
//
// The driver is held to csi-test's sanity suite, which 'make nightly' runs.
//
// It is a module of its own, because the dependencies of the sidecars are no concern of Kiln's programs.
package csi
