// Package subresource serves the API group subresources.kubevirt.io: actions on VMs and VMIs that do not change a field, such as start, pause and console.
// Paths, bodies, answers and status codes are KubeVirt's, so that virtctl and KubeVirt's Go client work. A separate process (cmd/apiserver) serves the group
// behind Kubernetes' API server, which authenticates and authorizes callers. This package decides what a request changes in the current VM and VMI, and
// whether it has to call the launcher of the guest.
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

// Versions are the versions of the group, the preferred one first. They are identical, as in KubeVirt.
var Versions = []schema.GroupVersion{{Group: Group, Version: "v1"}, {Group: Group, Version: "v1alpha3"}}

// API answers requests for the subresources.
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
	// decoding bounds the bodies that are decoded at once, in bytes, because a decoded body takes many times its size.
	decoding *semaphore.Weighted
}

// mostDecoding is the largest sum of the bodies that are decoded at once, in bytes.
const mostDecoding = 4 << 20

// New returns an API. Server sets its Authorizer.
func New(live client.Client, reviewer review.Reviewer, guests Guests) *API {
	return &API{Live: live, Reviewer: reviewer, Guests: guests, Open: NewStreams(), decoding: semaphore.NewWeighted(mostDecoding)}
}

// Guests calls the launcher of a guest. Launchers implements it; tests use a fake.
type Guests interface {
	// Put requests an action. Get reads a report into answer. Their errors have the status code to answer with.
	Put(ctx context.Context, vmi *v1.VirtualMachineInstance, path string, body any) error
	Get(ctx context.Context, vmi *v1.VirtualMachineInstance, path string, answer any) error
	// Stream connects a caller with a console or display until either side ends it.
	Stream(w http.ResponseWriter, r *http.Request, vmi *v1.VirtualMachineInstance, path string)
	// Address returns the IP address of the guest's pod.
	Address(ctx context.Context, vmi *v1.VirtualMachineInstance) (string, error)
}

// The resources of the group. They have no objects of their own: they are named like the resources of kubevirt.io.
const (
	machines  = "virtualmachines"
	instances = "virtualmachineinstances"
)

// route is one subresource with the verb that calls it.
type route struct {
	// resource is machines or instances. It is empty for a path that is not a subresource: then name is a path below the namespace or, with cluster, below the
	// version.
	resource, name string
	cluster        bool
	// verb is the HTTP method. parameters is the path after name.
	verb       string
	parameters string
	// doc says what the route does. unserved is the reason why it answers 501; empty for a route that is served.
	doc, unserved string
	// options and answer are values of the Go types of the body and of the answer, for OpenAPI; nil for an empty one.
	options, answer any
	// do answers a request. A route with stream takes the connection over instead.
	do     func(*API, context.Context, call) (reply, error)
	stream func(*API, http.ResponseWriter, *http.Request, call)
}

// call is a request with the namespace and the name in its path.
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

// KubeVirt's answers without a body: 202 if a controller will carry out the request, 200 if it is carried out.
var (
	accepted = reply{code: http.StatusAccepted}
	done     = reply{code: http.StatusOK}
)

// objectReply returns an answer with an object.
func objectReply(object any) reply { return reply{code: http.StatusOK, object: object} }
