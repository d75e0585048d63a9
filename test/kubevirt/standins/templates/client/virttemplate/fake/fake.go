// Package fake stands in for the package of kubevirt.io/virt-template-client-go with this name. virtctl's own tests import it, and 'go mod tidy' reads them;
// nothing here builds them.
package fake
