// Package fake stands in for that of kubevirt.io/virt-template-client-go. Tests of virtctl's own import it, which 'go mod tidy' looks at; nothing here
// builds them.
package fake
