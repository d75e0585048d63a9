// Package virtctl runs the documented command lines of 'virtctl create vm' with virtctl's own code and with 'kubectl kiln', and compares the specs.
// Folder answers has KubeVirt's own answers to VMIs, for the column of KubeVirt in docs/reference/runtimes.md.
// It is a module of its own, because the dependencies of KubeVirt are no concern of Kiln's programs.
package virtctl
