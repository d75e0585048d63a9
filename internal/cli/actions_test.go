package cli

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const stoppedVM = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: web, namespace: shop}\nstatus: {printableStatus: Stopped}\n"

// subresourcesOf answers calls of subresources of these VMs and VMIs, and keeps each as 'PATH BODY'.
func subresourcesOf(names ...string) (*apiServer, func() []string) {
	var lock sync.Mutex
	var calls []string
	answer := func(w http.ResponseWriter, r *http.Request) bool {
		at, found := strings.CutPrefix(r.URL.Path, "/apis/subresources.kubevirt.io/v1/namespaces/shop/")
		if !found {
			return false
		}
		body, _ := io.ReadAll(r.Body)
		lock.Lock()
		defer lock.Unlock()
		calls = append(calls, strings.TrimSpace(at+" "+string(body)))
		of := strings.Split(at, "/")
		if !slices.Contains(names, of[0]+"/"+of[1]) {
			reply(w, http.StatusNotFound, apierrors.NewNotFound(schema.GroupResource{Group: "kubevirt.io", Resource: strings.TrimSuffix(of[0], "s")}, of[1]).Status())
			return true
		}
		w.WriteHeader(http.StatusAccepted)
		return true
	}
	return &apiServer{answer: answer}, func() []string {
		lock.Lock()
		defer lock.Unlock()
		return calls
	}
}

// TestActions: names as virtctl and kubectl take them, several at once, and virtctl's flags.
func TestActions(t *testing.T) {
	t.Parallel()
	const web, db = "virtualmachines/web/", "virtualmachines/db/"
	for _, c := range []struct {
		args, calls []string
		status      int
	}{
		{[]string{"start", "web"}, []string{web + `start {}`}, 0},
		{[]string{"start", "vm/web", "db", "--paused"}, []string{web + `start {"paused":true}`, db + `start {"paused":true}`}, 0},
		{[]string{"start", "vm", "web", "db"}, []string{web + `start {}`, db + `start {}`}, 0},
		{[]string{"start", "absent", "web"}, []string{"virtualmachines/absent/start {}", web + `start {}`}, 2},
		{[]string{"stop", "web"}, []string{web + `stop {}`}, 0},
		{[]string{"stop", "web", "--force"}, []string{web + `stop {"gracePeriod":0}`}, 0},
		{[]string{"stop", "web", "--force", "--grace-period=0"}, []string{web + `stop {"gracePeriod":0}`}, 0},
		{[]string{"stop", "web", "--grace-period=7"}, []string{web + `stop {"gracePeriod":7}`}, 0},
		{[]string{"restart", "web"}, []string{web + `restart {}`}, 0},
		{[]string{"restart", "web", "--force"}, []string{web + `restart {"gracePeriodSeconds":0}`}, 0},
		{[]string{"restart", "web", "--force", "--grace-period=0"}, []string{web + `restart {"gracePeriodSeconds":0}`}, 0},
		{[]string{"restart", "web", "--grace-period=0", "--dry-run"}, []string{web + `restart {"gracePeriodSeconds":0,"dryRun":["All"]}`}, 0},
		{[]string{"pause", "web", "vmi/db"}, []string{"virtualmachineinstances/web/pause {}", "virtualmachineinstances/db/pause {}"}, 0},
		{[]string{"start"}, nil, 2},
		{[]string{"start", "pod/web"}, nil, 2},
		{[]string{"start", "vm/"}, nil, 2},
		{[]string{"start", "vm/a/b"}, nil, 2},
	} {
		server, calls := subresourcesOf("virtualmachines/web", "virtualmachines/db", "virtualmachineinstances/web", "virtualmachineinstances/db")
		got := call(t, "", append(c.args, server.serve(t, stoppedVM)...)...)
		if cmdutil.ExitStatus(got.err) != c.status || !slices.Equal(calls(), c.calls) {
			t.Errorf("%q: exit status %d, %v %s; calls %q, want %d and %q", c.args, cmdutil.ExitStatus(got.err), got.err, got.errOut, calls(), c.status, c.calls)
		}
	}
}

// TestGuestsThatDoNotRun: console, display and pause of a stopped VM say that it does not run. If the VM does not exist, they say that.
func TestGuestsThatDoNotRun(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"console", "vnc", "pause", "unpause"} {
		server, _ := subresourcesOf()
		flags := server.serve(t, stoppedVM)
		const want = "VirtualMachine 'web' does not run (its status is 'Stopped'): 'kubectl kiln start web' starts it"
		if got := call(t, "", append([]string{command, "vm/web"}, flags...)...); cmdutil.ExitStatus(got.err) != 2 || got.err.Error() != want || got.out != "" {
			t.Errorf("%s: %v %s", command, got.err, got.out)
		}
		got := call(t, "", append([]string{command, "absent"}, flags...)...)
		if cmdutil.ExitStatus(got.err) != 2 || !strings.Contains(got.err.Error(), `"absent" not found`) {
			t.Errorf("%s of a VM that does not exist: %v", command, got.err)
		}
	}
}

// TestRefusedByAWebhook: causes are printed like the causes of files, without the name of the webhook.
func TestRefusedByAWebhook(t *testing.T) {
	t.Parallel()
	refused := func(reason metav1.StatusReason, code int32, causes ...metav1.StatusCause) *apiServer {
		return &apiServer{answer: func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPatch {
				return false
			}
			_, _ = io.Copy(io.Discard, r.Body)
			status := metav1.Status{Status: metav1.StatusFailure, Reason: reason, Code: code, Details: &metav1.StatusDetails{Causes: causes},
				Message: `admission webhook "virtualmachines.mutate.kilnvm.io" denied the request: VirtualMachine.kubevirt.io "c3" is invalid: memory`}
			reply(w, int(code), status)
			return true
		}}
	}
	cause := metav1.StatusCause{Field: "spec.template", Message: "Required value: set it"}
	for want, server := range map[string]*apiServer{
		"VirtualMachine shop/c3 is rejected:\n  spec.template: Required value: set it\n": refused(metav1.StatusReasonInvalid, 422, cause),
		"VirtualMachine.kubevirt.io \"c3\" is invalid: memory\n":                         refused(metav1.StatusReasonForbidden, 403),
	} {
		got := call(t, "", append([]string{"create", "vm", "--name", "c3", "--memory", "1Gi", "--apply"}, server.serve(t, stoppedVM)...)...)
		if cmdutil.ExitStatus(got.err) != 1 || !strings.HasSuffix(got.errOut, want) || strings.Contains(got.errOut, "admission webhook") {
			t.Errorf("%v\n%s, want\n%s", got.err, got.errOut, want)
		}
	}
	var out strings.Builder
	cmdutil.PrintFault(&out, &apierrors.StatusError{ErrStatus: metav1.Status{Message: `admission webhook "x.y" denied the request: it is wrong`}})
	if out.String() != "error: it is wrong\n" {
		t.Error(out.String())
	}
}
