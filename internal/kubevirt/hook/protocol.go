package hook

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

// The messages of both protocols contain only texts, bytes and messages, which have one form on the wire. Therefore this package reads and writes them
// by field number, without generated types. KubeVirt: pkg/hooks/info/api_info.proto, pkg/hooks/v1alpha{1,2,3}/*.proto, pkg/hooks/plugins/v1alpha1/api.proto.

// entry is a field of a message.
type entry struct {
	number protowire.Number
	value  []byte
}

// message is a message of protocol buffers.
type message []entry

// lastValue returns the value of the last field with a number, as protocol buffers require, or nil without such a field.
func (m message) lastValue(number protowire.Number) (out []byte) {
	for _, e := range m {
		if e.number == number {
			out = e.value
		}
	}
	return out
}

func (m message) encodeMessage() (out []byte) {
	for _, e := range m {
		out = protowire.AppendBytes(protowire.AppendTag(out, e.number, protowire.BytesType), e.value)
	}
	return out
}

// decodeMessage skips fields of other forms, which later versions may add.
func decodeMessage(wire []byte) (out message, err error) {
	for len(wire) > 0 {
		number, kind, n := protowire.ConsumeTag(wire)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		wire = wire[n:]
		if kind == protowire.BytesType {
			value, n := protowire.ConsumeBytes(wire)
			if n < 0 {
				return nil, protowire.ParseError(n)
			}
			out, wire = append(out, entry{number, value}), wire[n:]
			continue
		}
		if n = protowire.ConsumeFieldValue(number, kind, wire); n < 0 {
			return nil, protowire.ParseError(n)
		}
		wire = wire[n:]
	}
	return out, nil
}

// codec is the gRPC codec for messages.
type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(*message)
	if !ok {
		return nil, fmt.Errorf("%T is no message", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(m.encodeMessage())}, nil
}

func (codec) Unmarshal(wire mem.BufferSlice, v any) (err error) {
	m, ok := v.(*message)
	if !ok {
		return fmt.Errorf("%T is no message", v)
	}
	*m, err = decodeMessage(wire.Materialize())
	return err
}

// method implements an RPC.
type method func(message) (message, error)

// newService returns a service whose methods take and return messages.
func newService(name string, methods map[string]method) *grpc.ServiceDesc {
	out := &grpc.ServiceDesc{ServiceName: name}
	for name, answer := range methods {
		out.Methods = append(out.Methods, grpc.MethodDesc{MethodName: name,
			Handler: func(_ any, _ context.Context, read func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				var request message
				if err := read(&request); err != nil {
					return nil, err
				}
				response, err := answer(request)
				return &response, err
			}})
	}
	return out
}

// Names of services, methods and hook points.
const (
	infoService     = "kubevirt.hooks.info.Info"
	callbacks       = "kubevirt.hooks.%s.Callbacks"
	pluginService   = "kubevirt.hooks.plugins.v1alpha1.DomainHookService"
	onDefineDomain  = "OnDefineDomain"
	shutdown        = "Shutdown"
	mutateDomain    = "MutateDomain"
	sidecarName     = "kiln"
	libvirtDomain   = "libvirt"
	contextOfBoot   = "Boot"
	latestCallbacks = "v1alpha3"
)

// versions of the callbacks of hook sidecars. Virt-launcher takes the latest that it knows.
var versions = []string{latestCallbacks, "v1alpha2", "v1alpha1"}

// registerServices registers the services of both protocols. It calls ended when virt-launcher ends.
func (h *Hook) registerServices(server *grpc.Server, ended func()) {
	server.RegisterService(newService(infoService, map[string]method{"Info": describeSidecar}), nil)
	for _, version := range versions {
		methods := map[string]method{onDefineDomain: h.onDefineDomain}
		if version == latestCallbacks {
			methods[shutdown] = func(message) (message, error) { ended(); return nil, nil }
		}
		server.RegisterService(newService(fmt.Sprintf(callbacks, version), methods), nil)
	}
	server.RegisterService(newService(pluginService, map[string]method{mutateDomain: h.mutateDomain}), nil)
}

// describeSidecar lists the hook points that virt-launcher calls. Field 1 is the name of the sidecar, 3 are hook points, whose field 1 is a name, and 4 are
// versions.
func describeSidecar(message) (message, error) {
	out := message{{1, []byte(sidecarName)}}
	for _, point := range []string{onDefineDomain, shutdown} {
		out = append(out, entry{3, message{{1, []byte(point)}}.encodeMessage()})
	}
	for _, version := range versions {
		out = append(out, entry{4, []byte(version)})
	}
	return out, nil
}

// onDefineDomain implements OnDefineDomain of hook sidecars. Field 1 is the domain, 2 the VMI.
func (h *Hook) onDefineDomain(request message) (message, error) {
	return h.changeDomain(request.lastValue(1), request.lastValue(2))
}

// mutateDomain implements MutateDomain of plugins. Field 1 is the kind of domain, 2 the domain, 3 the VMI, and 4 the context, whose field 1
// says what the domain is for.
func (h *Hook) mutateDomain(request message) (message, error) {
	if kind := string(request.lastValue(1)); kind != libvirtDomain {
		return nil, status.Errorf(codes.InvalidArgument, "domain_type '%.64s' is unknown, want '%s'", kind, libvirtDomain)
	}
	circumstances, err := decodeMessage(request.lastValue(4))
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "sidecar_context: %v", err)
	}
	if of := string(circumstances.lastValue(1)); of != contextOfBoot {
		return message{{1, request.lastValue(2)}}, nil
	}
	return h.changeDomain(request.lastValue(2), request.lastValue(3))
}

func (h *Hook) changeDomain(xml, vmi []byte) (message, error) {
	out, err := h.domainWithRecord(xml, vmi)
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return message{{1, out}}, nil
}
