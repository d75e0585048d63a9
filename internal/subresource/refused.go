package subresource

import (
	"context"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// unservedSubresource is a subresource of KubeVirt 1.9 that Kiln does not serve. Its route answers 501 with the reason.
type unservedSubresource struct {
	resource, name, verb, reason string
}

const (
	noMigration = "guests are not migrated: a VM starts on another node when it is restarted"
	noSEV       = "launch measurements of AMD SEV are not served: VMIs with launchSecurity.sev.attestation are refused"
	noBackup    = "backups of changed blocks are not served: take a VirtualMachineSnapshot"
	noPlug      = "volumes are added to a VM and not to a VMI: virtctl addvolume and removevolume with the name of a VM change its template"
	noDump      = "memory is not dumped: a launcher holds no claim for it"
	noProfiler  = "the processes of Kiln have no profiler that this API starts"
)

var refusals = []unservedSubresource{
	{machines, "migrate", http.MethodPut, noMigration},
	{machines, "evacuate/cancel", http.MethodPut, noMigration},
	{instances, "evacuate/cancel", http.MethodPut, noMigration},
	{machines, "memorydump", http.MethodPut, noDump},
	{machines, "removememorydump", http.MethodPut, noDump},
	{instances, "addvolume", http.MethodPut, noPlug},
	{instances, "removevolume", http.MethodPut, noPlug},
	{instances, "vnc/screenshot", http.MethodGet, "screenshots are not served: connect by vnc"},
	{instances, "usbredir", http.MethodGet, "USB devices of clients are not redirected to guests"},
	{instances, "vsock", http.MethodGet, "connections by vsock are not forwarded: use portforward"},
	{instances, "sev/fetchcertchain", http.MethodGet, noSEV},
	{instances, "sev/querylaunchmeasurement", http.MethodGet, noSEV},
	{instances, "sev/setupsession", http.MethodPut, noSEV},
	{instances, "sev/injectlaunchsecret", http.MethodPut, noSEV},
	{instances, "backup", http.MethodPut, noBackup},
	{instances, "redefine-checkpoint", http.MethodPut, noBackup},
	{"", "guestfs", http.MethodGet, "Kiln has no image of libguestfs tools: 'virtctl guestfs' takes one by --image"},
	{"", "start-cluster-profiler", http.MethodGet, noProfiler},
	{"", "stop-cluster-profiler", http.MethodGet, noProfiler},
	{"", "dump-cluster-profiler", http.MethodGet, noProfiler},
}

// toRoute returns the route that answers 501.
func (u unservedSubresource) toRoute() route {
	return route{
		resource: u.resource, name: u.name, verb: u.verb, cluster: u.resource == "", unserved: u.reason,
		do: func(*API, context.Context, call) (reply, error) { return reply{}, u.notImplemented() },
	}
}

func (u unservedSubresource) notImplemented() error {
	const code = http.StatusNotImplemented
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: metav1.StatusReason("NotImplemented"),
		Message: fmt.Sprintf("Kiln does not serve '%s' of KubeVirt: %s", u.name, u.reason),
	}}
}
