// Package virttemplate stands in for the package of kubevirt.io/virt-template-client-go with this name.
package virttemplate

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"kubevirt.io/virt-template-api/core"
	"kubevirt.io/virt-template-api/core/subresourcesv1beta1"
	"kubevirt.io/virt-template-api/core/v1beta1"
)

// Interface is the type of clients in virtctl.
type Interface interface{ TemplateV1beta1() Client }

// Client reaches no server.
type Client struct{}

// NewForConfig returns an error: nothing asks for a template.
func NewForConfig(*rest.Config) (Interface, error) { return Client{}, core.ErrStandIn }

// TemplateV1beta1 returns the client itself.
func (c Client) TemplateV1beta1() Client { return c }

// RESTClient returns none.
func (Client) RESTClient() rest.Interface { return nil }

// VirtualMachineTemplates returns a client of no namespace.
func (Client) VirtualMachineTemplates(string) Templates { return Templates{} }

// VirtualMachineTemplateRequests returns a client of no namespace.
func (Client) VirtualMachineTemplateRequests(string) Requests { return Requests{} }

// Templates reaches no server.
type Templates struct{}

// Get returns an error.
func (Templates) Get(context.Context, string, metav1.GetOptions) (*v1beta1.VirtualMachineTemplate, error) {
	return nil, core.ErrStandIn
}

// Process returns an error.
func (Templates) Process(context.Context, string, subresourcesv1beta1.ProcessOptions) (*subresourcesv1beta1.ProcessedVirtualMachineTemplate, error) {
	return nil, core.ErrStandIn
}

// CreateVirtualMachine returns an error.
func (t Templates) CreateVirtualMachine(
	ctx context.Context, name string, options subresourcesv1beta1.ProcessOptions,
) (*subresourcesv1beta1.ProcessedVirtualMachineTemplate, error) {
	return t.Process(ctx, name, options)
}

// Requests reaches no server.
type Requests struct{}

// Create returns an error.
func (Requests) Create(
	context.Context, *v1beta1.VirtualMachineTemplateRequest, metav1.CreateOptions,
) (*v1beta1.VirtualMachineTemplateRequest, error) {
	return nil, core.ErrStandIn
}
