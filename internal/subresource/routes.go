package subresource

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

// allRoutes returns all routes, in the order of the table in docs/reference/subresources.md.
func allRoutes() []route {
	list := []route{
		{resource: machines, name: "start", verb: http.MethodPut, doc: "Start a VM", options: v1.StartOptions{}, do: (*API).startVM},
		{resource: machines, name: "stop", verb: http.MethodPut, doc: "Stop a VM", options: v1.StopOptions{}, do: (*API).stopVM},
		{resource: machines, name: "restart", verb: http.MethodPut, doc: "Restart a VM", options: v1.RestartOptions{}, do: (*API).restartVM},
		{resource: machines, name: "start", verb: http.MethodGet, doc: "Start a VM; needs the verb update, too", do: requireUpdate("start", (*API).startVM)},
		{resource: machines, name: "stop", verb: http.MethodGet, doc: "Stop a VM; needs the verb update, too", do: requireUpdate("stop", (*API).stopVM)},
		{resource: machines, name: "expand-spec", verb: http.MethodGet, doc: "Return a VM with its instancetype, preference and defaults in its template",
			answer: v1.VirtualMachine{}, do: (*API).expandStored},
		{resource: machines, name: "addvolume", verb: http.MethodPut, doc: "Add a volume and a disk to the template of a VM",
			options: v1.AddVolumeOptions{}, do: (*API).addVolume},
		{resource: machines, name: "removevolume", verb: http.MethodPut, doc: "Remove a volume and its disk from the template of a VM",
			options: v1.RemoveVolumeOptions{}, do: (*API).removeVolume},
		{resource: machines, name: "objectgraph", verb: http.MethodGet, doc: "Return the objects that a VM depends on",
			options: v1.ObjectGraphOptions{}, answer: v1.ObjectGraphNode{}, do: (*API).graphOfVM},
		{resource: instances, name: "objectgraph", verb: http.MethodGet, doc: "Return the objects that a VMI depends on",
			options: v1.ObjectGraphOptions{}, answer: v1.ObjectGraphNode{}, do: (*API).graphOfVMI},
		{resource: instances, name: "pause", verb: http.MethodPut, doc: "Stop the CPUs of a guest", options: v1.PauseOptions{}, do: (*API).pauseGuest},
		{resource: instances, name: "unpause", verb: http.MethodPut, doc: "Let the CPUs of a paused guest run",
			options: v1.UnpauseOptions{}, do: (*API).unpauseGuest},
		{resource: instances, name: "reset", verb: http.MethodPut, doc: "Reset a guest, as its reset button does", do: (*API).resetGuest},
		{resource: instances, name: "softreboot", verb: http.MethodPut, doc: "Ask a guest to reboot, by its agent or by ACPI", do: (*API).softReboot},
		{resource: instances, name: "freeze", verb: http.MethodPut, doc: "Freeze the filesystems of a guest by its agent",
			options: v1.FreezeUnfreezeTimeout{}, do: (*API).freezeGuest},
		{resource: instances, name: "unfreeze", verb: http.MethodPut, doc: "Thaw the filesystems of a guest by its agent", do: (*API).unfreezeGuest},
		{resource: instances, name: "guestosinfo", verb: http.MethodGet, doc: "Return what the guest agent reports about the guest",
			answer: v1.VirtualMachineInstanceGuestAgentInfo{}, do: (*API).guestOSInfo},
		{resource: instances, name: "userlist", verb: http.MethodGet, doc: "Return the users who are logged in, as the guest agent reports",
			answer: v1.VirtualMachineInstanceGuestOSUserList{}, do: (*API).userList},
		{resource: instances, name: "filesystemlist", verb: http.MethodGet, doc: "Return the filesystems of a guest, as its agent reports",
			answer: v1.VirtualMachineInstanceFileSystemList{}, do: (*API).filesystemList},
		{resource: instances, name: "console", verb: http.MethodGet, doc: "Connect with the serial console, by WebSocket", stream: (*API).serveConsole},
		{resource: instances, name: "vnc", verb: http.MethodGet, doc: "Connect with the display, by WebSocket", stream: (*API).serveVNC},
		{resource: instances, name: "portforward", parameters: "/{port:*}", verb: http.MethodGet,
			doc: "Connect with a port of a guest, by WebSocket: PORT, or PORT/tcp, or PORT/udp", stream: (*API).forwardVMI},
		{resource: machines, name: "portforward", parameters: "/{port:*}", verb: http.MethodGet,
			doc: "Connect with a port of the guest of a VM, by WebSocket: PORT, or PORT/tcp, or PORT/udp", stream: (*API).forwardVM},
		{name: "expand-vm-spec", verb: http.MethodPut, doc: "Return the VM of the body with its instancetype, preference and defaults in its template",
			options: v1.VirtualMachine{}, answer: v1.VirtualMachine{}, do: (*API).expandGiven},
		{name: "version", cluster: true, verb: http.MethodGet, doc: "Return the version of Kiln", answer: buildInfo{}, do: (*API).serveVersion},
		{name: "healthz", cluster: true, verb: http.MethodGet, doc: "Report whether this process reaches Kubernetes' API server", do: (*API).checkHealth},
	}
	for _, u := range refusals {
		list = append(list, u.toRoute())
	}
	return list
}

// webServices returns a web service for each version.
func (a *API) webServices() (list []*restful.WebService) {
	for _, version := range Versions {
		service := new(restful.WebService)
		service.Path("/apis/" + version.String()).Doc("actions on VMs and VMIs").Consumes("*/*")
		for _, r := range allRoutes() {
			service.Route(a.buildRoute(service, version, r))
		}
		list = append(list, service)
	}
	return list
}

// pathBelowVersion returns the path of a route below its version.
func (r route) pathBelowVersion() string {
	switch {
	case r.resource != "":
		return "/namespaces/{namespace}/" + r.resource + "/{name}/" + r.name + r.parameters
	case r.cluster:
		return "/" + r.name
	}
	return "/namespaces/{namespace}/" + r.name
}

// buildRoute returns a route as a go-restful route, from which OpenAPI is generated, too.
func (a *API) buildRoute(service *restful.WebService, version schema.GroupVersion, r route) *restful.RouteBuilder {
	operation := operations[r.verb] + operationPart(version.Version) + operationPart(r.resource) + operationPart(r.name)
	doc := r.doc
	if r.unserved != "" {
		doc = "Not served: " + r.unserved
	}
	builder := service.Method(r.verb).Path(r.pathBelowVersion()).Doc(doc).Operation(operation).To(a.handleRoute(r))
	if r.resource != "" || !r.cluster {
		builder.Param(service.PathParameter("namespace", "namespace of the object"))
	}
	if r.resource != "" {
		builder.Param(service.PathParameter("name", "name of the object"))
	}
	if r.parameters != "" {
		builder.Param(service.PathParameter("port", "port of the guest"))
	}
	if r.options != nil {
		builder.Reads(r.options)
	}
	if r.answer != nil {
		builder.Produces("application/json").Returns(http.StatusOK, "OK", r.answer)
	} else {
		builder.Produces("*/*")
	}
	return builder
}

// operations has the first word of an operation's name for each HTTP verb, as in the OpenAPI of Kubernetes.
var operations = map[string]string{http.MethodGet: "read", http.MethodPut: "replace"}

// operationPart returns a path as a part of an operation's name: 'evacuate/cancel' becomes EvacuateCancel.
func operationPart(name string) string {
	parts := strings.FieldsFunc(name, func(r rune) bool { return r == '/' || r == '-' })
	for i := range parts {
		parts[i] = strings.ToUpper(parts[i][:1]) + parts[i][1:]
	}
	return strings.Join(parts, "")
}

// handleRoute returns the function that answers requests for a route.
func (a *API) handleRoute(r route) restful.RouteFunction {
	return func(request *restful.Request, response *restful.Response) {
		c := call{namespace: request.PathParameter("namespace"), name: request.PathParameter("name"), request: request.Request}
		about := ctrl.LoggerFrom(request.Request.Context()).WithValues("namespace", c.namespace, "name", c.name)
		request.Request = request.Request.WithContext(ctrl.LoggerInto(request.Request.Context(), about))
		c.request = request.Request
		if err := r.judgePath(c); err != nil {
			writeAnswer(response.ResponseWriter, request.Request, reply{}, err)
			return
		}
		if r.stream != nil {
			a.serveStream(response.ResponseWriter, request.Request, c, r)
			return
		}
		var answer reply
		body, err := readBody(request.Request, r.largestBody())
		if err == nil && !a.decoding.TryAcquire(int64(len(body))) {
			err = apierrors.NewTooManyRequests("as many bodies are being read as fit into memory", 1)
		} else if err == nil {
			defer a.decoding.Release(int64(len(body)))
		}
		if err == nil {
			c.body = body
			answer, err = r.do(a, request.Request.Context(), c)
		}
		writeAnswer(response.ResponseWriter, request.Request, answer, err)
	}
}

// judgePath refuses a namespace or name that no object can have. The client would refuse it with an error that has no status.
func (r route) judgePath(c call) error {
	if r.cluster {
		return nil
	}
	for _, of := range []struct {
		what, text string
		needed     bool
	}{{"namespace", c.namespace, true}, {"name", c.name, r.resource != ""}} {
		if of.needed && of.text == "" { // a path with '//'
			return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
				Message: fmt.Sprintf("not found: the %s in the path is empty", of.what)}}
		}
		if wrong := content.IsPathSegmentName(of.text); len(wrong) > 0 {
			return apierrors.NewBadRequest(fmt.Sprintf("the %s is '%.80s': it %s", of.what, of.text, wrong[0]))
		}
	}
	return nil
}

// serveStream serves a stream unless too many streams are open.
func (a *API) serveStream(w http.ResponseWriter, r *http.Request, c call, of route) {
	leave, ok := a.Open.reserveStream(c.namespace)
	if !ok {
		writeAnswer(w, r, reply{}, apierrors.NewTooManyRequests("too many streams are open, of all namespaces or of this one", 10))
		return
	}
	defer leave()
	of.stream(a, w, r, c)
}

// largestBody returns the largest size of a body for this route, in bytes.
func (r route) largestBody() int64 {
	if _, vm := r.options.(v1.VirtualMachine); vm {
		return largestVM
	}
	return largestOptions
}

// discoveryResources returns the resources for discovery, as in KubeVirt: subresources without their parents, which do not belong to this group.
func discoveryResources() (list []metav1.APIResource) {
	for _, r := range allRoutes() {
		if r.cluster {
			continue
		}
		name := strings.TrimPrefix(r.resource+"/"+r.name, "/")
		if !slices.ContainsFunc(list, func(have metav1.APIResource) bool { return have.Name == name }) {
			list = append(list, metav1.APIResource{Name: name, Namespaced: true, Verbs: metav1.Verbs{}})
		}
	}
	return list
}

// isStream reports whether a subresource is a stream, which has no time limit.
func isStream(resource, subresource string) bool {
	return slices.ContainsFunc(allRoutes(), func(r route) bool { return r.stream != nil && r.resource == resource && r.name == subresource })
}
