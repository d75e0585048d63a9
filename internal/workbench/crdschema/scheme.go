package crdschema

import (
	"sync"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clone "kubevirt.io/api/clone/v1beta1"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	snapshot "kubevirt.io/api/snapshot/v1beta1"
)

// Scheme returns the Go types of all kinds that commands read: Kubernetes', KubeVirt's and Kiln's. It is created once, and callers must not change it.
var Scheme = sync.OnceValues(func() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1.AddToScheme, v1beta1.AddToScheme, v1alpha1.AddToScheme,
		snapshot.AddToScheme, clone.AddToScheme} {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	return s, nil
})
