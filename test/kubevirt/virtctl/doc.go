// Package virtctl runs the documented command lines of 'virtctl create vm' with virtctl itself and with 'kubectl kiln', and compares the specs.
package virtctl
