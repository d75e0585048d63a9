package subresource

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/internal/launcherserver"
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/internal/stream"
	"github.com/kilnvm/kiln/pkg/pod"
	"github.com/kilnvm/kiln/test/poll"
	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/server"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

const serviceName = "kiln-apiserver.kiln-system.svc"

// signed returns the certificate of a client, and its authority, as the rotation signs them.
func signed(t *testing.T, name string) (tls.Certificate, string) {
	t.Helper()
	usages := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	r := rotator.CertRotator{CAName: "ca", DNSName: name, ExtKeyUsages: &usages}
	begin, end := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	ca, err := r.CreateCACert(begin, end)
	if err != nil {
		t.Fatal(err)
	}
	certificate, key, err := r.CreateCertPEM(ca, begin, end)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	return pair, string(ca.CertPEM)
}

// actions is a guest that does what it is asked for, and notes it.
type actions struct {
	mutex   sync.Mutex
	did     []string
	fails   error
	answers hypervisor.AgentAnswers
	counted hypervisor.Statistics
}

func (a *actions) note(what string) error {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.did = append(a.did, what)
	return a.fails
}

func (a *actions) noted() []string {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return append([]string(nil), a.did...)
}

func (a *actions) Suspend(context.Context, hypervisor.Owner) error { return a.note("suspend") }
func (a *actions) Resume(context.Context, hypervisor.Owner) error  { return a.note("resume") }
func (a *actions) Reset(context.Context, hypervisor.Owner) error   { return a.note("reset") }
func (a *actions) Reboot(context.Context, hypervisor.Owner) error  { return a.note("reboot") }
func (a *actions) Freeze(context.Context, hypervisor.Owner) error  { return a.note("freeze") }
func (a *actions) Thaw(context.Context, hypervisor.Owner) error    { return a.note("thaw") }
func (a *actions) Statistics(context.Context, hypervisor.Owner) (hypervisor.Statistics, error) {
	return a.counted, a.note("statistics")
}
func (a *actions) Agent(context.Context, hypervisor.Owner) (hypervisor.AgentAnswers, error) {
	return a.answers, a.note("agent")
}

// stage is a launcher that serves, and an API that calls it.
type stage struct {
	api     *API
	vmi     *v1.VirtualMachineInstance
	guest   *actions
	server  *launcherserver.Server
	clients *v1alpha1.GuestPodClients
	url     string
	console string
}

// newStage starts a launcher with a console that answers each line with its letters in upper case.
func newStage(t *testing.T, change func(*v1alpha1.GuestPod)) *stage {
	t.Helper()
	certificate, authorities := signed(t, serviceName)
	s := &stage{guest: &actions{}, clients: &v1alpha1.GuestPodClients{Authorities: authorities, Name: serviceName}}
	var err error
	s.server, err = launcherserver.New(s.guest, func() *v1alpha1.GuestPodClients { return s.clients })
	if err != nil {
		t.Fatal(err)
	}
	s.console = filepath.Join(t.TempDir(), "c")
	echo(t, s.console)
	s.server.Serve(launcherserver.Guest{Owner: hypervisor.Owner{UID: "vmi"}, Console: s.console, Display: s.console})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() {
		if err := s.server.Run(ctx, listener); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(func() { end(); work.Wait() })

	s.vmi = &v1.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "vmi"},
		Status: v1.VirtualMachineInstanceStatus{Phase: v1.Running, Conditions: []v1.VirtualMachineInstanceCondition{
			{Type: v1.VirtualMachineInstanceAgentConnected, Status: corev1.ConditionTrue},
		}},
	}
	introduced := &v1alpha1.GuestPod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: v1alpha1.GuestPodSpec{VMIUID: "vmi", PodUID: "pod"},
		Status: v1alpha1.GuestPodStatus{ServerCertificate: s.server.Certificate()},
	}
	if change != nil {
		change(introduced)
	}
	running := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: pod.Name("web"), UID: types.UID("pod")},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "127.0.0.1"},
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(v1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(s.vmi, introduced, running).Build()
	launchers := &Launchers{Live: live, Port: listener.Addr().(*net.TCPAddr).Port, Certificate: func() (*tls.Certificate, error) { return &certificate, nil }}
	s.api = New(live, review.Reviewer{}, launchers)
	served := httptest.NewServer(s.api.served())
	t.Cleanup(served.Close)
	s.url = served.URL + "/apis/subresources.kubevirt.io/v1/namespaces/shop/virtualmachineinstances/web/"
	return s
}

// served serves the routes as the server does, but without authentication. A container of go-restful itself would clean paths by redirects before.
func (a *API) served() http.Handler {
	handler := server.NewAPIServerHandler("test", serializer.NewCodecFactory(statusScheme()), func(routes http.Handler) http.Handler { return routes }, nil)
	for _, service := range a.webServices() {
		handler.GoRestfulContainer.Add(service)
	}
	return handler
}

// echo is a console at a socket.
func echo(t *testing.T, path string) {
	t.Helper()
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				buffer := make([]byte, 1024)
				for {
					n, err := conn.Read(buffer)
					if err != nil {
						return
					}
					if _, err := conn.Write([]byte(strings.ToUpper(string(buffer[:n])))); err != nil {
						return
					}
				}
			}()
		}
	}()
}

// put sends a request, and returns status code and text.
func (s *stage) send(t *testing.T, verb, path, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequest(verb, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// TestActions: what each request leads to in the launcher, and what is answered.
func TestActions(t *testing.T) {
	for _, c := range []struct {
		path, body string
		paused     bool
		code       int
		did        []string
	}{
		{"pause", "{}", false, 200, []string{"suspend"}},
		{"pause", `{"dryRun":["All"]}`, false, 200, nil},
		{"pause", `{"dryRun":["Some"]}`, false, 400, nil},
		{"pause", `{"` + strings.Repeat("k", 1025) + `":1}`, false, 200, []string{"suspend"}}, // no YAML: its keys have 1,024 characters at most
		{"pause", `dryRun: [All]`, false, 200, nil},
		{"pause", "", true, 409, nil},
		{"unpause", "", false, 409, nil},
		{"unpause", "", true, 200, []string{"resume"}},
		{"reset", "", false, 200, []string{"reset"}},
		{"softreboot", "", false, 200, []string{"reboot"}},
		{"softreboot", "", true, 409, nil},
		{"freeze", `{"unfreezeTimeout":"1h"}`, false, 200, []string{"freeze"}},
		{"freeze", `{"unfreezeTimeout":"soon"}`, false, 400, nil},
		{"unfreeze", "", false, 200, []string{"thaw"}},
	} {
		s := newStage(t, nil)
		if c.paused {
			s.vmi.Status.Conditions = append(s.vmi.Status.Conditions,
				v1.VirtualMachineInstanceCondition{Type: v1.VirtualMachineInstancePaused, Status: corev1.ConditionTrue})
			if err := s.api.Live.Update(t.Context(), s.vmi); err != nil {
				t.Fatal(err)
			}
		}
		code, text := s.send(t, http.MethodPut, c.path, c.body)
		if code != c.code {
			t.Errorf("%s %s: status %d, want %d: %s", c.path, c.body, code, c.code, text)
		}
		if code == 200 && text != "" {
			t.Errorf("%s: the body is '%s', want none, as KubeVirt's", c.path, text)
		}
		if diff := cmp.Diff(c.did, s.guest.noted()); diff != "" {
			t.Errorf("%s %s: -want +got\n%s", c.path, c.body, diff)
		}
	}
}

// TestNothingKeepsAGuestFromPoweringOff: a guest that is being stopped is not paused, frozen, reset or rebooted. It may be let go on.
func TestNothingKeepsAGuestFromPoweringOff(t *testing.T) {
	for path, code := range map[string]int{"pause": 409, "freeze": 409, "reset": 409, "softreboot": 409, "unfreeze": 200, "unpause": 200} {
		s := newStage(t, nil)
		s.vmi.Finalizers = []string{"example.com/hold"}
		if path == "unpause" {
			s.vmi.Status.Conditions = append(s.vmi.Status.Conditions,
				v1.VirtualMachineInstanceCondition{Type: v1.VirtualMachineInstancePaused, Status: corev1.ConditionTrue})
		}
		if err := errors.Join(s.api.Live.Update(t.Context(), s.vmi), s.api.Live.Delete(t.Context(), s.vmi)); err != nil {
			t.Fatal(err)
		}
		got, text := s.send(t, http.MethodPut, path, "{}")
		if refused := strings.Contains(text, "VMI is being stopped"); got != code || refused != (code == 409) || refused == (len(s.guest.noted()) > 0) {
			t.Errorf("%s: status %d, want %d: %s; the guest did %v", path, got, code, text, s.guest.noted())
		}
	}
}

// TestFreezeEnds: what nobody thaws in time is thawed.
func TestFreezeEnds(t *testing.T) {
	s := newStage(t, nil)
	if code, text := s.send(t, http.MethodPut, "freeze", `{"unfreezeTimeout":"10ms"}`); code != 200 {
		t.Fatalf("status %d: %s", code, text)
	}
	if !poll.Until(time.Minute, func() bool { return len(s.guest.noted()) >= 2 }) {
		t.Fatalf("the guest did %v, want freeze and thaw", s.guest.noted())
	}
	if diff := cmp.Diff([]string{"freeze", "thaw"}, s.guest.noted()); diff != "" {
		t.Error(diff)
	}
}

// TestFreezeEndsAfterAFailedThaw: a guest that does not thaw when it is asked to is still thawed when its freeze ends.
func TestFreezeEndsAfterAFailedThaw(t *testing.T) {
	s := newStage(t, nil)
	if code, text := s.send(t, http.MethodPut, "freeze", `{"unfreezeTimeout":"300ms"}`); code != 200 {
		t.Fatalf("status %d: %s", code, text)
	}
	fail := func(err error) {
		s.guest.mutex.Lock()
		defer s.guest.mutex.Unlock()
		s.guest.fails = err
	}
	fail(errors.New("the agent is busy"))
	if code, text := s.send(t, http.MethodPut, "unfreeze", ""); code == 200 {
		t.Fatalf("status %d: %s", code, text)
	}
	fail(nil)
	if !poll.Until(time.Minute, func() bool { return len(s.guest.noted()) >= 3 }) {
		t.Fatalf("the guest did %v, want freeze and two thaws", s.guest.noted())
	}
}

// TestFacts: an agent's answer is cut, and has KubeVirt's form.
func TestFacts(t *testing.T) {
	s := newStage(t, nil)
	s.guest.answers = hypervisor.AgentAnswers{Version: "9.2.0\x1b[31m", Timezone: strings.Repeat("z", 10_000)}
	for range 1000 {
		s.guest.answers.Users = append(s.guest.answers.Users, hypervisor.AgentUser{Name: "root\n", LoginTime: 1.5})
	}
	code, text := s.send(t, http.MethodGet, "guestosinfo", "")
	info := v1.VirtualMachineInstanceGuestAgentInfo{}
	if err := json.Unmarshal([]byte(text), &info); err != nil || code != 200 {
		t.Fatalf("status %d, %v: %s", code, err, text)
	}
	if info.GAVersion != "9.2.0[31m" || len(info.Timezone) != v1alpha1.LongestAgentText || len(info.UserList) != 256 || info.UserList[0].UserName != "root" {
		t.Errorf("guestosinfo is not bounded: version %q, timezone of %d, %d users", info.GAVersion, len(info.Timezone), len(info.UserList))
	}
	code, text = s.send(t, http.MethodGet, "userlist", "")
	users := v1.VirtualMachineInstanceGuestOSUserList{}
	if err := json.Unmarshal([]byte(text), &users); err != nil || code != 200 || len(users.Items) != 256 {
		t.Errorf("userlist: status %d, %v, %d users", code, err, len(users.Items))
	}
	s.guest.fails = errors.New("the agent is silent")
	if code, text := s.send(t, http.MethodGet, "filesystemlist", ""); code != 500 || !strings.Contains(text, "the agent is silent") {
		t.Errorf("filesystemlist of a silent agent: status %d: %s", code, text)
	}
}

// dial connects with a stream.
func (s *stage) dial(t *testing.T, path string) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	dialer := websocket.Dialer{Subprotocols: []string{stream.Subprotocol}, HandshakeTimeout: 10 * time.Second}
	return dialer.Dial("ws"+strings.TrimPrefix(s.url, "http")+path, http.Header{"X-Remote-User": {"admin"}, "Authorization": {"Bearer secret"}})
}

// say sends a text and returns as many bytes of what comes.
func say(t *testing.T, conn *websocket.Conn, text string) string {
	t.Helper()
	if err := conn.WriteMessage(websocket.BinaryMessage, []byte(text)); err != nil {
		t.Fatal(err)
	}
	got := ""
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	for len(got) < len(text) {
		_, part, err := conn.ReadMessage()
		if err != nil {
			t.Fatalf("after '%s': %v", got, err)
		}
		got += string(part)
	}
	return got
}

// TestConsole: a console carries bytes both ways, and the next client takes it over.
func TestConsole(t *testing.T) {
	s := newStage(t, nil)
	first, _, err := s.dial(t, "console")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if got := say(t, first, "login"); got != "LOGIN" {
		t.Errorf("the console says '%s'", got)
	}
	second, _, err := s.dial(t, "console")
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if got := say(t, second, "root"); got != "ROOT" {
		t.Errorf("the console says '%s' to the second client", got)
	}
	_ = first.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, _, err := first.ReadMessage(); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the first client was not disconnected: %v", err)
	}
	display, _, err := s.dial(t, "vnc")
	if err != nil {
		t.Fatal(err)
	}
	defer display.Close()
	if _, response, err := s.dial(t, "vnc?preserveSession=true"); err == nil || response.StatusCode != http.StatusConflict {
		t.Errorf("a client that preserves the session got %v", response)
	}
}

// TestStrangers: who is not the one cannot call, and who is called is the one.
func TestStrangers(t *testing.T) {
	for _, c := range []struct {
		why    string
		change func(*testing.T, *stage)
		pod    func(*v1alpha1.GuestPod)
		code   int
		want   string
	}{
		{"another authority signed the client", func(t *testing.T, s *stage) { _, s.clients.Authorities = signed(t, serviceName) }, nil, 500, "cannot be reached"},
		{"the client has another name", func(_ *testing.T, s *stage) { s.clients.Name = "other.kiln-system.svc" }, nil, 500, "cannot be reached"},
		{"the launcher serves nobody", func(_ *testing.T, s *stage) { s.clients = nil }, nil, 500, "cannot be reached"},
		{"another launcher answers at the address", nil, func(g *v1alpha1.GuestPod) { g.Status.ServerCertificate = "sha256:00" }, 500,
			"not the one in the launcher's GuestPod"},
		{"the launcher reports no certificate", nil, func(g *v1alpha1.GuestPod) { g.Status.ServerCertificate = "" }, 409, "serves no console"},
		{"the GuestPod is of an earlier VMI", nil, func(g *v1alpha1.GuestPod) { g.Spec.VMIUID = "before" }, 409, "earlier VMI"},
		{"another tenant's launcher answers by a relay", func(_ *testing.T, s *stage) {
			s.server.Serve(launcherserver.Guest{Owner: hypervisor.Owner{UID: "another"}, Console: s.console})
		}, nil, 409, "the guest of another VMI"},
		{"the pod is another one", nil, func(g *v1alpha1.GuestPod) { g.Spec.PodUID = "before" }, 409, "its pod is gone"},
	} {
		s := newStage(t, c.pod)
		if c.change != nil {
			c.change(t, s)
		}
		code, text := s.send(t, http.MethodPut, "pause", "")
		if code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("%s: status %d, want %d with '%s': %s", c.why, code, c.code, c.want, text)
		}
		if did := s.guest.noted(); len(did) > 0 {
			t.Errorf("%s: the guest did %v", c.why, did)
		}
		if _, response, err := s.dial(t, "console"); err == nil || response.StatusCode != c.code {
			t.Errorf("%s: the console answers %v, %v", c.why, response, err)
		}
	}
}

// TestHostileLauncher: a launcher is its tenant's. It can neither send a caller elsewhere, nor fill this process.
func TestHostileLauncher(t *testing.T) {
	s := newStage(t, nil)
	launchers := s.api.Guests.(*Launchers)
	statistics := ""
	hostile := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name := range r.Header {
			if strings.HasPrefix(name, "X-Remote") || name == "Authorization" || strings.HasPrefix(name, "X-Forwarded") {
				t.Errorf("the launcher gets header %s", name)
			}
		}
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("Location", "https://elsewhere")
		switch r.URL.Path {
		case "/console":
			w.WriteHeader(http.StatusFound)
		case "/guestosinfo":
			for range 100 {
				_, _ = w.Write(make([]byte, 1<<20))
			}
		case "/statistics":
			_, _ = io.WriteString(w, statistics)
		default:
			http.Error(w, strings.Repeat("\x1b]0;", 100_000), http.StatusTeapot)
		}
	}))
	hostile.StartTLS()
	defer hostile.Close()
	launchers.Port = hostile.Listener.Addr().(*net.TCPAddr).Port
	guest := &v1alpha1.GuestPod{}
	if err := launchers.Live.Get(t.Context(), client.ObjectKeyFromObject(s.vmi), guest); err != nil {
		t.Fatal(err)
	}
	guest.Status.ServerCertificate = launcherserver.DigestOf(hostile.Certificate())
	if err := s.api.Live.Update(t.Context(), guest); err != nil {
		t.Fatal(err)
	}
	_, response, err := s.dial(t, "console")
	if err == nil || response.StatusCode != 500 || response.Header.Get("Location")+response.Header.Get("Set-Cookie") != "" {
		t.Errorf("a redirection is answered with %v, %v", response, err)
	}
	if code, text := s.send(t, http.MethodGet, "guestosinfo", ""); code != 409 || !strings.Contains(text, "answers more than") {
		t.Errorf("an endless answer: status %d: %.200s", code, text)
	}
	for _, statistics = range []string{
		`{"cpu":{"time":NaN}}`, `{"cpu":{"time":-1}}`, `{"cpu":{"time":1e300}}`, `{"cpu":{"time":0.5}}`, `{"cpu":{"time":"1"}}`, `{"cpu":`, `[]`,
		`{"disks":{` + strings.Repeat(`"":{},`, mostStatistics+1) + `"":{}}}`, `{"cpu":{"time":1}}` + strings.Repeat(" ", largestStatistics),
	} {
		if counted, err := launchers.Statistics(t.Context(), s.vmi); apierrors.ReasonForError(err) != metav1.StatusReasonConflict {
			t.Errorf("%.60s is read as %v, %v", statistics, counted, err)
		}
	}
	if code, text := s.send(t, http.MethodPut, "reset", ""); code != 500 || len(text) > 2*longestWords || strings.Contains(text, "\x1b") {
		t.Errorf("a hostile error: status %d, %d bytes", code, len(text))
	}
}

// TestLauncherThatStays: a stream ends with its caller, whatever the launcher does with its side.
func TestLauncherThatStays(t *testing.T) {
	s := newStage(t, nil)
	launchers := s.api.Guests.(*Launchers)
	held := make(chan struct{})
	hostile := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n")
		<-held // it ignores that the other side has closed
	}))
	hostile.StartTLS()
	defer hostile.Close()
	defer close(held)
	launchers.Port = hostile.Listener.Addr().(*net.TCPAddr).Port
	guest := &v1alpha1.GuestPod{}
	if err := launchers.Live.Get(t.Context(), client.ObjectKeyFromObject(s.vmi), guest); err != nil {
		t.Fatal(err)
	}
	guest.Status.ServerCertificate = launcherserver.DigestOf(hostile.Certificate())
	if err := s.api.Live.Update(t.Context(), guest); err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	caller, err := net.Dial("tcp", at.Host)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(caller, "GET "+at.Path+"console HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Key: eA==\r\nSec-WebSocket-Version: 13\r\n\r\n")
	answer := make([]byte, len("HTTP/1.1 101"))
	if _, err := io.ReadFull(caller, answer); err != nil || string(answer) != "HTTP/1.1 101" {
		t.Fatalf("%s, %v", answer, err)
	}
	caller.Close()
	s.waitForNoStreams(t)
}

// waitForNoStreams waits until the API server has no open stream.
func (s *stage) waitForNoStreams(t *testing.T) {
	t.Helper()
	open := func() int {
		s.api.Open.mutex.Lock()
		defer s.api.Open.mutex.Unlock()
		return s.api.Open.all
	}
	if !poll.Until(time.Minute, func() bool { return open() == 0 }) {
		t.Fatalf("%d streams are open after their callers have gone", open())
	}
}

// TestTooManyStreams: one namespace leaves room for others.
func TestTooManyStreams(t *testing.T) {
	streams := NewStreams()
	for range mostStreamsOfNamespace {
		if _, ok := streams.reserveStream("greedy"); !ok {
			t.Fatal("a stream within the bound is refused")
		}
	}
	if _, ok := streams.reserveStream("greedy"); ok {
		t.Error("a namespace has more streams than it may")
	}
	leave, ok := streams.reserveStream("modest")
	if !ok {
		t.Fatal("another namespace has none")
	}
	leave()
	if streams.byNamespace["modest"] != 0 || streams.all != mostStreamsOfNamespace {
		t.Errorf("%d of modest, %d in all", streams.byNamespace["modest"], streams.all)
	}
}

// TestStatusOf: errors keep their status codes.
func TestStatusOf(t *testing.T) {
	recorded := httptest.NewRecorder()
	writeAnswer(recorded, httptest.NewRequest(http.MethodGet, "/x", nil), reply{}, apierrors.NewConflict(v1.Resource("virtualmachine"), "web", errors.New("why")))
	status := metav1.Status{}
	err := json.Unmarshal(recorded.Body.Bytes(), &status)
	if err != nil || recorded.Code != 409 || status.Kind != "Status" || status.Reason != metav1.StatusReasonConflict {
		t.Errorf("%d %s: %v", recorded.Code, recorded.Body, err)
	}
}

// TestStatistics: the caller gets the counters of the guest, and never the counters of another VMI's guest.
func TestStatistics(t *testing.T) {
	s := newStage(t, nil)
	s.guest.counted = hypervisor.Statistics{CPU: hypervisor.Values{"time": 1 << 63}, VCPUs: map[string]hypervisor.Values{"0": {"time": 2}}}
	launchers := s.api.Guests.(*Launchers)
	counted, err := launchers.Statistics(t.Context(), s.vmi)
	if diff := cmp.Diff(s.guest.counted, counted); err != nil || diff != "" {
		t.Errorf("%v, -want +got\n%s", err, diff)
	}
	s.server.Serve(launcherserver.Guest{Owner: hypervisor.Owner{UID: "another"}})
	if counted, err := launchers.Statistics(t.Context(), s.vmi); err == nil {
		t.Errorf("the guest of another VMI is counted: %v", counted)
	}
}
