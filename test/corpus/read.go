package corpus

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/clusterconfig"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/yaml"
)

// namespace of every object that names none and has one.
const namespace = "default"

// maxLines of an input: a case that needs more has more than one point.
const maxLines = 40

// scheme knows what resolution reads typed.
var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := errors.Join(appsv1.AddToScheme(s), v1.AddToScheme(s)); err != nil {
		panic(err)
	}
	return s
}()

// kinds that cluster.yaml may hold besides KubeVirt, by name: each is decoded strictly, since a field with a typing error
// would make the case prove something else.
var kinds = map[string]func() any{
	instancetype.Kinds.Namespaced:           func() any { return new(v1beta1.VirtualMachineInstancetype) },
	instancetype.Kinds.Cluster:              func() any { return new(v1beta1.VirtualMachineClusterInstancetype) },
	instancetype.PreferenceKinds.Namespaced: func() any { return new(v1beta1.VirtualMachinePreference) },
	instancetype.PreferenceKinds.Cluster:    func() any { return new(v1beta1.VirtualMachineClusterPreference) },
	"VirtualMachineInstancePreset":          func() any { return new(v1.VirtualMachineInstancePreset) },
	v1alpha1.KindGuestProfile:               func() any { return new(v1alpha1.GuestProfile) },
	v1alpha1.KindClusterGuestProfile:        func() any { return new(v1alpha1.ClusterGuestProfile) },
	"DataSource":                            func() any { return new(cdi.DataSource) },
	"ControllerRevision":                    func() any { return new(appsv1.ControllerRevision) },
	"Deployment":                            func() any { return new(appsv1.Deployment) }, // virt-controller: KubeVirt runs guests
}

func readCase(dir string) (Case, error) {
	c, err := readCluster(dir)
	if err != nil {
		return c, err
	}
	if c.host, err = readOptional(dir, "host.yaml"); err != nil {
		return c, err
	}
	return c, c.readGuest()
}

// readGuest reads the object that the user applies.
func (c *Case) readGuest() error {
	vm, err := readOptional(c.Dir, "vm.yaml")
	if err != nil {
		return err
	}
	vmi, err := readOptional(c.Dir, "vmi.yaml")
	switch {
	case err != nil:
		return err
	case (vm == nil) == (vmi == nil):
		return errors.New("want one of vm.yaml and vmi.yaml")
	}
	if c.applied = append(vm, vmi...); !bytes.HasPrefix(c.applied, []byte("# ")) {
		return errors.New("the first line of the input must be a comment that says the point")
	}
	if vm != nil {
		c.VM = &v1.VirtualMachine{}
		c.VM.Namespace = namespace
		return decodeStrict(vm, c.VM)
	}
	c.VMI = &v1.VirtualMachineInstance{}
	c.VMI.Namespace = namespace
	return decodeStrict(vmi, c.VMI)
}

// readOptional reads a file that may be absent.
func readOptional(dir, name string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if lines := bytes.Count(data, []byte("\n")); lines > maxLines {
		return nil, fmt.Errorf("%s has %d lines, more than %d: one point a case", name, lines, maxLines)
	}
	return data, err
}

// decodeStrict decodes YAML; a field that does not exist is an error.
func decodeStrict(data []byte, into any) error {
	if data == nil {
		return nil
	}
	return yaml.UnmarshalStrict(data, into)
}

// readCluster reads what the cluster of a case has.
func readCluster(dir string) (Case, error) {
	c := Case{Name: filepath.Base(dir), Dir: dir, Cluster: config.Default()}
	cluster, err := readOptional(dir, "cluster.yaml")
	if err == nil {
		err = c.addAll(cluster)
	}
	for _, object := range c.Objects {
		c.Cluster.Limits.KubeVirtGuests = c.Cluster.Limits.KubeVirtGuests || object.GetKind() == "Deployment"
	}
	return c, err
}

func (c *Case) addAll(data []byte) error {
	for _, document := range strings.Split("\n"+string(data), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			return err
		}
		if len(object.Object) == 0 {
			continue
		}
		if err := c.addObject(object, []byte(document)); err != nil {
			return fmt.Errorf("cluster.yaml: %s '%s': %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

func (c *Case) addObject(object *unstructured.Unstructured, document []byte) (err error) {
	if object.GetKind() == "KubeVirt" {
		c.Cluster, _, err = clusterconfig.Parse(document)
		return err
	}
	typed := kinds[object.GetKind()]
	if typed == nil {
		return errors.New("cases have no objects of this kind")
	}
	if object.GetNamespace() == "" && !strings.Contains(object.GetKind(), "Cluster") {
		object.SetNamespace(namespace)
	}
	c.Objects = append(c.Objects, object)
	return yaml.UnmarshalStrict(document, typed())
}
