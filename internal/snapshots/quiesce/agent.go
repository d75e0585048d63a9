package quiesce

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	v1 "kubevirt.io/api/core/v1"
)

// Agent freezes and thaws the file systems of a guest.
type Agent interface {
	// Freeze has the guest agent freeze all file systems. The guest's launcher thaws them after the limit, because the caller may die before it does.
	Freeze(ctx context.Context, guest types.NamespacedName, limit time.Duration) error
	// Thaw ends a freeze. It does nothing to a guest that is not frozen.
	Thaw(ctx context.Context, guest types.NamespacedName) error
}

// SubresourceAgent is an Agent that sends requests to Kiln's API server of subresources, through Kubernetes' API server.
type SubresourceAgent struct{ client rest.Interface }

// NewSubresourceAgent returns an agent with the rights of a client.
func NewSubresourceAgent(config *rest.Config, client *http.Client) (*SubresourceAgent, error) {
	own := rest.CopyConfig(config)
	own.APIPath, own.GroupVersion = "/apis", &schema.GroupVersion{Group: v1.SubresourceGroupName, Version: v1.GroupVersion.Version}
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"}) // errors are of this version
	own.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	own.ContentConfig.ContentType, own.ContentConfig.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	made, err := rest.RESTClientForConfigAndClient(own, client)
	return &SubresourceAgent{made}, err
}

// Freeze implements Agent.
func (a *SubresourceAgent) Freeze(ctx context.Context, guest types.NamespacedName, limit time.Duration) error {
	body, err := json.Marshal(v1.FreezeUnfreezeTimeout{UnfreezeTimeout: &metav1.Duration{Duration: limit}})
	if err != nil {
		return err
	}
	return a.putSubresource(ctx, guest, "freeze", body)
}

// Thaw implements Agent.
func (a *SubresourceAgent) Thaw(ctx context.Context, guest types.NamespacedName) error {
	return a.putSubresource(ctx, guest, "unfreeze", nil)
}

// putSubresource sends a request once. It does not retry, because the caller decides what a missing answer means.
func (a *SubresourceAgent) putSubresource(ctx context.Context, guest types.NamespacedName, subresource string, body []byte) error {
	return a.client.Put().Namespace(guest.Namespace).Resource("virtualmachineinstances").Name(guest.Name).SubResource(subresource).
		MaxRetries(0).Body(body).Do(ctx).Error()
}
