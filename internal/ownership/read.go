package ownership

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ReadHardware returns the GuestHardware of a name, also if another VM owns it; nil if it does not exist.
func ReadHardware(ctx context.Context, reader client.Reader, key types.NamespacedName) (*v1alpha1.GuestHardware, error) {
	hardware, err := objects.GetOrNil(ctx, reader, key, &v1alpha1.GuestHardware{})
	if err != nil {
		return nil, fmt.Errorf("reading GuestHardware '%s': %w", key.Name, err)
	}
	return hardware, nil
}
