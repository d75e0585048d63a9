package snapshots

import (
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/snapshots/vmlock"
	"k8s.io/client-go/tools/events"
	clone "kubevirt.io/api/clone/v1beta1"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// names are those of the objects of a list.
func (c *cluster) names(list client.ObjectList) (names []string) {
	c.Helper()
	c.must(c.List(c.Context(), list, client.InNamespace(key.Namespace)))
	switch list := list.(type) {
	case *api.VirtualMachineSnapshotList:
		for _, of := range list.Items {
			names = append(names, of.Name)
		}
	case *api.VirtualMachineSnapshotContentList:
		for _, of := range list.Items {
			names = append(names, of.Name)
		}
	case *api.VirtualMachineRestoreList:
		for _, of := range list.Items {
			names = append(names, of.Name)
		}
	case *v1.VirtualMachineList:
		for _, of := range list.Items {
			if vmlock.IsLocked(&of) {
				names = append(names, of.Name)
			}
		}
	case *clone.VirtualMachineCloneList:
		for _, of := range list.Items {
			names = append(names, of.Name)
		}
	}
	return names
}

func (c *cluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// read returns an object, nil if there is none.
func read[O interface {
	*E
	client.Object
}, E any](c *cluster, name string, into O) O {
	c.Helper()
	found, err := objects.GetOrNil(c.Context(), c.WithWatch, at(name), into)
	c.must(err)
	return found
}

func (c *cluster) vm(name string) *v1.VirtualMachine { return read(c, name, &v1.VirtualMachine{}) }

func (c *cluster) hardware(name string) *v1alpha1.GuestHardware {
	return read(c, name, &v1alpha1.GuestHardware{})
}

// event reports whether an event of a reason was written.
func (c *cluster) event(reason string) bool {
	recorder := c.reconcilers.cluster.Events.(*events.FakeRecorder)
	for {
		select {
		case text := <-recorder.Events:
			if strings.Contains(text, " "+reason+" ") {
				return true
			}
		default:
			return false
		}
	}
}
