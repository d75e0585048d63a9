package command

import (
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	v1 "kubevirt.io/api/core/v1"
)

// The controller watches all VMs, and its cache keeps little of them: Slim removes the spec of each template and metadata.managedFields, which are most of a
// VM's JSON. client-go decodes these values before Slim can remove them. The informer of VMs has a decoder that skips them.

// informers makes the informers of a cache.
type informers struct {
	// access returns how the cache reaches the API server. The manager that knows it is made after the options of its cache.
	access func() *rest.Config
	scheme *runtime.Scheme
}

// new is cache.Options.NewInformer.
func (i *informers) new(from toolscache.ListerWatcher, of runtime.Object, resync time.Duration, by toolscache.Indexers) toolscache.SharedIndexInformer {
	if _, is := of.(*v1.VirtualMachine); is {
		if vms, err := i.vms(); err == nil { // otherwise the error is the one that the usual source has, too
			from = vms
		}
	}
	return toolscache.NewSharedIndexInformer(from, of, resync, by)
}

// vms returns the source of an informer of all VMs. It has a connection of its own.
func (i *informers) vms() (toolscache.ListerWatcher, error) {
	own := rest.CopyConfig(i.access())
	own.Dial = dialBatches
	own.GroupVersion, own.APIPath, own.ContentType = &v1.GroupVersion, "/apis", runtime.ContentTypeJSON
	own.NegotiatedSerializer = slimSerializer{serializer.WithoutConversionCodecFactory{CodecFactory: serializer.NewCodecFactory(i.scheme)}}
	connection, err := rest.RESTClientFor(own)
	if err != nil {
		return nil, err
	}
	return toolscache.NewListWatchFromClient(connection, "virtualmachines", metav1.NamespaceAll, fields.Everything()), nil
}

// slimSerializer decodes VMs without what Slim removes, and other objects as a whole.
type slimSerializer struct{ runtime.NegotiatedSerializer }

func (s slimSerializer) DecoderToVersion(whole runtime.Decoder, version runtime.GroupVersioner) runtime.Decoder {
	return slimDecoder{s.NegotiatedSerializer.DecoderToVersion(whole, version)}
}

type slimDecoder struct{ runtime.Decoder }

// Decode decodes the object of a watch event: then into is nil. client-go's decoder decodes what is not a VM, and returns the errors.
func (d slimDecoder) Decode(raw []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if into == nil {
		if vm := decodeVM(raw); vm != nil {
			kind := v1.VirtualMachineGroupVersionKind // the caller may write to its copy
			return vm, &kind, nil
		}
	}
	return d.Decoder.Decode(raw, defaults, into)
}

// withoutSpec are the options of the decoder of the API server's clients, whose names are case-sensitive, without the values that Slim removes.
var withoutSpec = json.JoinOptions(jsonv1.DefaultOptionsV1(), json.MatchCaseInsensitiveNames(false), jsonv1.ReportErrorsWithLegacySemantics(false),
	json.WithUnmarshalers(json.JoinUnmarshalers(
		json.UnmarshalFromFunc(func(from *jsontext.Decoder, _ *v1.VirtualMachineInstanceSpec) error { return from.SkipValue() }),
		json.UnmarshalFromFunc(func(from *jsontext.Decoder, _ *metav1.ManagedFieldsEntry) error { return from.SkipValue() }),
	)))

// decodeVM returns a VM without the spec of its template, nil if this is no VM or cannot be read. Like client-go's decoder it leaves apiVersion and kind out.
func decodeVM(raw []byte) *v1.VirtualMachine {
	vm := &v1.VirtualMachine{}
	if err := json.Unmarshal(raw, vm, withoutSpec); err != nil {
		return nil
	}
	if vm.GroupVersionKind() != v1.VirtualMachineGroupVersionKind {
		return nil
	}
	vm.TypeMeta, vm.ManagedFields = metav1.TypeMeta{}, nil
	return vm
}
