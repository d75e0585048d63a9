package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const subresources = "/apis/subresources.kubevirt.io/v1"

// server keeps the requests that it gets, and answers them by a function.
type server struct {
	sync.Mutex
	requests []string
	answer   http.HandlerFunc
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	s.Lock()
	s.requests = append(s.requests, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+strings.TrimSpace(string(body))))
	s.Unlock()
	s.answer(w, r)
}

// taken returns the requests since the last call of it.
func (s *server) taken() []string {
	s.Lock()
	defer s.Unlock()
	taken := s.requests
	s.requests = nil
	return taken
}

// serve starts a server that the program's kubeconfig names.
func serve(t *testing.T, answer http.HandlerFunc) *server {
	t.Helper()
	s := &server{answer: answer}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	file := filepath.Join(t.TempDir(), "config")
	config := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: %q}}],
contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {}}]}`, web.URL)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
	return s
}

// printed runs the program, and returns the lines that it prints.
func printed(t *testing.T, arguments ...string) []string {
	t.Helper()
	var out bytes.Buffer
	if err := runCalls(t.Context(), arguments, &out); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

// TestRequests: each call without a stream sends the request that KubeVirt's API has for it, and one only.
func TestRequests(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodGet {
			fmt.Fprint(w, `{}`)
		}
	})
	const vm, vmi = subresources + "/namespaces/shop/virtualmachines/web/", subresources + "/namespaces/shop/virtualmachineinstances/web/"
	const volume = `{"name":"data","disk":{"name":"","disk":{"bus":"scsi"},"serial":"data"},` +
		`"volumeSource":{"persistentVolumeClaim":{"claimName":"data","hotpluggable":true}}`
	tested := map[string]bool{}
	for _, test := range []struct{ call, want string }{
		{"start", "PUT " + vm + "start {}"},
		{"start-paused", "PUT " + vm + `start {"paused":true}`},
		{"stop", "PUT " + vm + "stop {}"},
		{"stop-grace=0", "PUT " + vm + `stop {"gracePeriod":0}`},
		{"restart", "PUT " + vm + "restart {}"},
		{"force-restart", "PUT " + vm + `restart {"gracePeriodSeconds":0}`},
		{"expand-spec", "GET " + vm + "expand-spec"},
		{"addvolume=data", "PUT " + vm + "addvolume " + volume + "}"},
		{"removevolume=data", "PUT " + vm + `removevolume {"name":"data"}`},
		{"objectgraph", "GET " + vm + "objectgraph {}"},
		{"migrate", "PUT " + vm + "migrate {}"},
		{"memorydump=data", "PUT " + vm + `memorydump {"claimName":"data","phase":""}`},
		{"removememorydump", "PUT " + vm + "removememorydump"},
		{"evacuate-cancel", "PUT " + vm + `evacuate/cancel {"evacuationNodeName":""}`},
		{"pause", "PUT " + vmi + "pause {}"},
		{"unpause", "PUT " + vmi + "unpause {}"},
		{"freeze", "PUT " + vmi + `freeze {"unfreezeTimeout":"0s"}`},
		{"freeze=5s", "PUT " + vmi + `freeze {"unfreezeTimeout":"5s"}`},
		{"unfreeze", "PUT " + vmi + "unfreeze"},
		{"softreboot", "PUT " + vmi + "softreboot"},
		{"reset", "PUT " + vmi + "reset"},
		{"guestosinfo", "GET " + vmi + "guestosinfo"},
		{"userlist", "GET " + vmi + "userlist"},
		{"filesystemlist", "GET " + vmi + "filesystemlist"},
		{"screenshot", "GET " + vmi + "vnc/screenshot?moveCursor=false"},
		{"backup", "PUT " + vmi + "backup {}"},
		{"redefine-checkpoint", "PUT " + vmi + "redefine-checkpoint {}"},
		{"vmi-addvolume=data", "PUT " + vmi + "addvolume " + volume + "}"},
		{"vmi-removevolume=data", "PUT " + vmi + `removevolume {"name":"data"}`},
		{"vmi-objectgraph", "GET " + vmi + "objectgraph {}"},
		{"vmi-evacuate-cancel", "PUT " + vmi + `evacuate/cancel {"evacuationNodeName":""}`},
		{"sev-fetchcertchain", "GET " + vmi + "sev/fetchcertchain"},
		{"sev-querylaunchmeasurement", "GET " + vmi + "sev/querylaunchmeasurement"},
		{"sev-setupsession", "PUT " + vmi + "sev/setupsession {}"},
		{"sev-injectlaunchsecret", "PUT " + vmi + "sev/injectlaunchsecret {}"},
		{"--dry-run start", "PUT " + vm + `start {"dryRun":["All"]}`},
		{"--dry-run addvolume=data", "PUT " + vm + "addvolume " + volume + `,"dryRun":["All"]}`},
		{"--dry-run pause", "PUT " + vmi + `pause {"dryRun":["All"]}`},
	} {
		arguments := strings.Fields(test.call)
		at := len(arguments) - 1
		printed(t, append(append(arguments[:at:at], "shop", "web"), arguments[at])...)
		if diff := cmp.Diff([]string{test.want}, s.taken()); diff != "" {
			t.Errorf("%s: -want +got\n%s", test.call, diff)
		}
		name, _, _ := strings.Cut(arguments[at], "=")
		tested[name] = true
	}
	for name := range calls {
		if _, stream := ofStreams[name]; !stream && !tested[name] && name != "expand-vm-spec" && name != "server-version" { // see TestAnswers
			t.Errorf("%s has no test", name)
		}
	}
}

// TestAnswers: a line has what the server returned, or its refusal with the status.
func TestAnswers(t *testing.T) {
	answers := map[string]string{
		"/apis/subresources.kubevirt.io":                                             `{"preferredVersion":{"groupVersion":"subresources.kubevirt.io/v1"}}`,
		subresources + "/version":                                                    `{"gitVersion":"v1.9.0"}`,
		"/apis/kubevirt.io/v1/namespaces/shop/virtualmachines/web":                   `{"metadata":{"name":"web"},"spec":{"template":null}}`,
		subresources + "/namespaces/shop/expand-vm-spec":                             `{"metadata":{"name":"expanded"},"spec":{"template":null}}`,
		subresources + "/namespaces/shop/virtualmachineinstances/web/guestosinfo":    `{"hostname":"web-1"}`,
		subresources + "/namespaces/shop/virtualmachineinstances/web/userlist":       `{"items":[{"userName":"me"}]}`,
		subresources + "/namespaces/shop/virtualmachineinstances/web/vnc/screenshot": "PNG",
	}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if answer, found := answers[r.URL.Path]; found {
			fmt.Fprint(w, answer)
			return
		}
		w.WriteHeader(http.StatusConflict)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":409,"reason":"Conflict","message":"VM is already running"}`)
	})
	var got []string
	for _, line := range printed(t, "shop", "web", "server-version", "expand-vm-spec", "guestosinfo", "userlist", "screenshot", "start", "objectgraph") {
		var result struct {
			Call, Error string
			Code        int
			Answer      json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &result); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		got = append(got, fmt.Sprintf("%s %q %d %s", result.Call, result.Error, result.Code, result.Answer))
	}
	want := []string{
		`server-version "" 0 {"gitVersion":"v1.9.0"`, `expand-vm-spec "" 0 {"kind":"VirtualMachine","apiVersion":"kubevirt.io/v1","metadata":{"name":"expanded"`,
		`guestosinfo "" 0 {"hostname":"web-1"`, `userlist "" 0 {"metadata":{},"items":[{"userName":"me"`, `screenshot "" 0 "UE5H"`,
		`start "VM is already running" 409 null`, `objectgraph "VM is already running" 409 null`,
	}
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d: %q", len(got), len(want), got)
	}
	for i, line := range want {
		if !strings.HasPrefix(got[i], line) {
			t.Errorf("got %s, want %s...", got[i], line)
		}
	}
	requests, expansion := strings.Join(s.taken(), "\n"), "PUT "+subresources+`/namespaces/shop/expand-vm-spec {"kind":"VirtualMachine"`
	if !strings.Contains(requests, expansion) {
		t.Errorf("no request %s... in\n%s", expansion, requests)
	}
}

// TestArguments: nothing is called when one of the calls cannot be.
func TestArguments(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {})
	for _, arguments := range []string{"", "shop web", "shop web start halt", "shop web start=now", "shop web start addvolume", "--what shop web start"} {
		if err := runCalls(t.Context(), strings.Fields(arguments), io.Discard); err == nil {
			t.Errorf("%q: no error", arguments)
		}
	}
	if requests := s.taken(); requests != nil {
		t.Errorf("requests %q", requests)
	}
	t.Setenv("KUBECONFIG", "")
	if err := runCalls(t.Context(), []string{"shop", "web", "start"}, io.Discard); err == nil {
		t.Error("a call without KUBECONFIG")
	}
}
