// Package subresource serves the API group subresources.kubevirt.io: what is done to a VM or VMI that is no change of its fields, as KubeVirt serves it.
// Paths, bodies, answers and status codes are KubeVirt's, so that virtctl and KubeVirt's Go client work.
//
// A process of its own serves it (cmd/apiserver), behind Kubernetes' API server, which is asked who a caller is and what they may do. What is left to this
// package: what a request means for the VM and its VMI as they are, and whether the launcher of the guest has to be called for it.
package subresource

import (
	"context"
	"net/http"

	"github.com/kilnvm/kiln/internal/review"
	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Group is the API group.
const Group = v1.SubresourceGroupName

// Versions are those of the group, preferred first. All are the same, as in KubeVirt.
var Versions = []schema.GroupVersion{{Group: Group, Version: "v1"}, {Group: Group, Version: "v1alpha3"}}

// API answers requests.
type API struct {
	// Live reads and writes past any cache: a VM that was stopped a moment ago must not seem to run.
	Live client.Client
	// Reviewer makes VMs explicit, for expand-spec.
	Reviewer review.Reviewer
	// Authorizer decides what a caller may do beyond what the path and the verb of a request say.
	Authorizer authorizer.Authorizer
	// Guests calls launchers.
	Guests Guests
	// Open counts and bounds streams.
	Open *Streams
	// decoding bounds the bodies that are being read, in bytes: each takes many times its size.
	decoding *semaphore.Weighted
}

// mostDecoding bounds the bodies that are read at once, in bytes.
const mostDecoding = 4 << 20

// New returns an API. Server sets its Authorizer.
func New(live client.Client, reviewer review.Reviewer, guests Guests) *API {
	return &API{Live: live, Reviewer: reviewer, Guests: guests, Open: NewStreams(), decoding: semaphore.NewWeighted(mostDecoding)}
}

// Guests calls the launcher of a guest. Launchers implements it; tests use a fake.
type Guests interface {
	// Put asks for an action, and Get for facts, which are written into answer. The errors have the status codes to answer.
	Put(ctx context.Context, vmi *v1.VirtualMachineInstance, path string, body any) error
	Get(ctx context.Context, vmi *v1.VirtualMachineInstance, path string, answer any) error
	// Stream connects a caller with a console or display until either side ends it.
	Stream(w http.ResponseWriter, r *http.Request, vmi *v1.VirtualMachineInstance, path string)
	// Address returns the IP address of the guest's pod.
	Address(ctx context.Context, vmi *v1.VirtualMachineInstance) (string, error)
}

// Resources of the group. They have no objects of their own: their names are those of kubevirt.io.
const (
	machines  = "virtualmachines"
	instances = "virtualmachineinstances"
)

// route is one subresource with the verb that calls it.
type route struct {
	// resource is machines or instances. It is empty for paths that are no subresource: then name is one below the namespace or, with cluster, below the
	// version.
	resource, name string
	cluster        bool
	// verb is that of HTTP, parameters what follows name in the path.
	verb       string
	parameters string
	// doc says what the route does. unserved is instead the reason for which it answers 501.
	doc, unserved string
	// options is the body as its Go type, for OpenAPI; nil without one. answer is that of the answer.
	options, answer any
	// do answers, unless stream takes the connection over.
	do     func(*API, context.Context, call) (reply, error)
	stream func(*API, http.ResponseWriter, *http.Request, call)
}

// call is a request.
type call struct {
	namespace, name string
	body            []byte
	request         *http.Request
}

// reply is an answer: a status code and, unless it is nil, an object as JSON.
type reply struct {
	code   int
	object any
}

// What KubeVirt answers without a body: 202 where a controller does what was asked for, 200 where it is done.
var (
	accepted = reply{code: http.StatusAccepted}
	done     = reply{code: http.StatusOK}
)

// found answers with an object.
func found(object any) reply { return reply{code: http.StatusOK, object: object} }
