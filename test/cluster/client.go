package cluster

import (
	"bytes"
	"cmp"
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

// reader reads and writes as the cluster's administrator, in this process: a run of kubectl takes a tenth of a second of CPU time, and tests that
// wait for something read ten times a second.
type reader struct {
	once   sync.Once
	err    error
	client dynamic.Interface
	found  *restmapper.DeferredDiscoveryRESTMapper
	mapper meta.RESTMapper // of found, and of short names
}

func (r *reader) connect(kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	cached := memory.NewMemCacheClient(found)
	r.found = restmapper.NewDeferredDiscoveryRESTMapper(cached)
	r.mapper = restmapper.NewShortcutExpander(r.found, cached, nil)
	r.client, err = dynamic.NewForConfig(config)
	return err
}

// resource is where objects of a kind are that is written as for kubectl.
func (r *reader) resource(kubeconfig string, in In) (dynamic.ResourceInterface, error) {
	return r.mapped(kubeconfig, in.Namespace, func() (*meta.RESTMapping, error) {
		kind, err := r.kind(in.Kind)
		if err != nil {
			return nil, err
		}
		return r.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	})
}

// home is where an object belongs. The namespace is for an object of a namespaced kind that names none.
func (r *reader) home(kubeconfig, namespace string, object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	return r.mapped(kubeconfig, cmp.Or(object.GetNamespace(), namespace), func() (*meta.RESTMapping, error) {
		kind := object.GroupVersionKind()
		return r.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	})
}

// mapped asks for a mapping again if it was not found, because a definition may have been created after the last discovery.
func (r *reader) mapped(kubeconfig, namespace string, find func() (*meta.RESTMapping, error)) (dynamic.ResourceInterface, error) {
	r.once.Do(func() { r.err = r.connect(kubeconfig) })
	if r.err != nil {
		return nil, r.err
	}
	mapping, err := find()
	if meta.IsNoMatchError(err) {
		r.found.Reset()
		mapping, err = find()
	}
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return r.client.Resource(mapping.Resource), nil
	}
	return r.client.Resource(mapping.Resource).Namespace(cmp.Or(namespace, metav1.NamespaceDefault)), nil
}

func (r *reader) kind(text string) (schema.GroupVersionKind, error) {
	full, short := schema.ParseResourceArg(text)
	if full != nil {
		if kind, err := r.mapper.KindFor(*full); err == nil {
			return kind, nil
		}
	}
	return r.mapper.KindFor(short.WithVersion(""))
}

// In is where something is: a kind in a namespace, for kinds that have one. The kind is written as for kubectl: 'vm', 'lease', 'vm.v1.kubevirt.io'.
type In struct{ Namespace, Kind string }

// Get reads an object as 'kubectl get KIND NAME -o json' does.
func (c *Cluster) Get(ctx context.Context, in In, name string) (*unstructured.Unstructured, error) {
	from, err := c.reader.resource(c.Kubeconfig, in)
	if err != nil {
		return nil, err
	}
	object, err := from.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	object.SetManagedFields(nil)
	return object, nil
}

// List reads the objects that a selector of labels selects, an empty one all.
func (c *Cluster) List(ctx context.Context, in In, selector string) (*unstructured.UnstructuredList, error) {
	from, err := c.reader.resource(c.Kubeconfig, in)
	if err != nil {
		return nil, err
	}
	list, err := from.List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		list.Items[i].SetManagedFields(nil)
	}
	return list, nil
}

// Show is what a template of kubectl's option '-o jsonpath' makes of an object, or of a list.
func Show(object runtime.Object, template string) (string, error) {
	printer, err := printers.NewJSONPathPrinter(template)
	if err != nil {
		return "", err
	}
	printer.AllowMissingKeys(true)
	var out bytes.Buffer
	err = printer.PrintObj(object, &out)
	return out.String(), err
}

// Apply is 'kubectl apply --server-side'.
func (c *Cluster) Apply(ctx context.Context, in In, object *unstructured.Unstructured) error {
	at, err := c.reader.resource(c.Kubeconfig, in)
	if err != nil {
		return err
	}
	_, err = at.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: "kubectl"})
	return err
}

// Delete begins to delete an object. It does not wait until that is gone.
func (c *Cluster) Delete(ctx context.Context, in In, name string) error {
	at, err := c.reader.resource(c.Kubeconfig, in)
	if err != nil {
		return err
	}
	return at.Delete(ctx, name, metav1.DeleteOptions{})
}

// Create creates an object, and returns it as stored.
func (c *Cluster) Create(ctx context.Context, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return c.create(ctx, "", object, metav1.CreateOptions{})
}

// CreateIn is 'kubectl create --namespace'. The namespace is for an object of a namespaced kind that names none.
func (c *Cluster) CreateIn(ctx context.Context, namespace string, object *unstructured.Unstructured) error {
	_, err := c.create(ctx, namespace, object, metav1.CreateOptions{FieldManager: "kubectl-create", FieldValidation: metav1.FieldValidationStrict})
	return err
}

func (c *Cluster) create(
	ctx context.Context, namespace string, object *unstructured.Unstructured, options metav1.CreateOptions,
) (*unstructured.Unstructured, error) {
	at, err := c.reader.home(c.Kubeconfig, namespace, object)
	if err != nil {
		return nil, err
	}
	return at.Create(ctx, object, options)
}

// WouldCreate is 'kubectl create --dry-run=server': what would be stored, or the answer of the API server.
func (c *Cluster) WouldCreate(ctx context.Context, in In, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	at, err := c.reader.resource(c.Kubeconfig, in)
	if err != nil {
		return nil, err
	}
	return at.Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
}

// MakeNamespace creates a namespace.
func (c *Cluster) MakeNamespace(ctx context.Context, name string) error {
	at, err := c.reader.resource(c.Kubeconfig, In{Kind: "namespace"})
	if err != nil {
		return err
	}
	_, err = at.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name},
	}}, metav1.CreateOptions{})
	return err
}

// RemoveNamespace begins to delete a namespace. It does not wait until that is gone.
func (c *Cluster) RemoveNamespace(ctx context.Context, name string) error {
	return c.Delete(ctx, In{Kind: "namespace"}, name)
}

// MergePatch is 'kubectl patch --type=merge', of an object or of one of its subresources.
func (c *Cluster) MergePatch(ctx context.Context, in In, name, patch string, subresources ...string) error {
	at, err := c.reader.resource(c.Kubeconfig, in)
	if err != nil {
		return err
	}
	_, err = at.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	return err
}
