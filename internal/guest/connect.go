package guest

import (
	"errors"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Connect returns a client of the two kinds that a launcher reads. It knows their resources: discovery would cost each start some requests.
func Connect(config *rest.Config) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(v1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	for kind, resource := range map[string]string{"GuestPod": "guestpods", "GuestPodList": "guestpods"} {
		mapper.AddSpecific(v1alpha1.GroupVersion.WithKind(kind), v1alpha1.GroupVersion.WithResource(resource),
			v1alpha1.GroupVersion.WithResource("guestpod"), meta.RESTScopeNamespace)
	}
	mapper.AddSpecific(v1.VirtualMachineInstanceGroupVersionKind, v1.GroupVersion.WithResource("virtualmachineinstances"),
		v1.GroupVersion.WithResource("virtualmachineinstance"), meta.RESTScopeNamespace)
	return client.NewWithWatch(config, client.Options{Scheme: scheme, Mapper: mapper})
}
