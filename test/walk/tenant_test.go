package walk

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// request to the API server.
type request struct {
	method, path, contentType, accept string
	query                             url.Values
	body                              []byte
}

func (r request) String() string {
	return fmt.Sprintf("%s %s?%s %s %.2000s", r.method, r.path, r.query.Encode(), r.contentType, r.body)
}

// answer of the API server. Headers hold the warnings.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// caller sends requests as somebody.
type caller struct {
	*world
	client *http.Client
	host   string
}

func (w *world) caller(config *rest.Config) caller {
	w.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		w.Fatal(err)
	}
	return caller{w, client, config.Host}
}

func (w *world) config() *rest.Config {
	w.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", w.on.Kubeconfig)
	if err != nil {
		w.Fatal(err)
	}
	return config
}

func (w *world) administrator() caller { return w.caller(w.config()) }

// patience with an answer. A watch is left after a moment.
const (
	patience = time.Minute
	aMoment  = 200 * time.Millisecond
)

func (c caller) send(r request) answer {
	c.Helper()
	wait := patience
	if r.query.Has("watch") {
		wait = aMoment
	}
	ctx, cancel := context.WithTimeout(c.Context(), wait)
	defer cancel()
	sent, err := http.NewRequestWithContext(ctx, r.method, c.host+r.path+"?"+r.query.Encode(), bytes.NewReader(r.body))
	if err != nil {
		c.Fatal(err)
	}
	if r.contentType != "" {
		sent.Header.Set("Content-Type", r.contentType)
	}
	if r.accept != "" {
		sent.Header.Set("Accept", r.accept)
	}
	got, err := c.client.Do(sent)
	if err != nil {
		if r.query.Has("watch") {
			return answer{}
		}
		c.Fatalf("%s: %v", r, err)
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	if err != nil && !r.query.Has("watch") {
		c.Fatalf("%s: %v", r, err)
	}
	return answer{got.StatusCode, got.Header, body}
}

// tenant walks, and keeps what it read and should not have read.
type tenant struct {
	caller
	// own is the namespace in which the tenant may write.
	own      string
	canary   canary
	findings []string
	// faults are answers in which Kiln blames itself, a few of them. They tell and change nothing, and none of them should be.
	faults []string
	// statuses of all answers, and of those to writes of Kiln's kinds.
	statuses, writes tally
}

// tenant is an account with the role edit in one namespace, and with nothing else.
func (w *world) tenant(name, namespace string) *tenant {
	w.Helper()
	w.kubectl("", "create", "serviceaccount", name, "-n", homeSpace)
	account := "--serviceaccount=" + homeSpace + ":" + name
	w.kubectl(edit, "apply", "-n", namespace, "-f", "-")
	w.kubectl("", "create", "rolebinding", name+"-edit", "-n", namespace, "--role=edit", account)
	w.kubectl("", "create", "rolebinding", name+"-kiln-edit", "-n", namespace, "--clusterrole=kiln-edit", account)
	config := rest.AnonymousClientConfig(w.config())
	config.BearerToken = strings.TrimSpace(w.kubectl("", "create", "token", name, "-n", homeSpace))
	return &tenant{caller: w.caller(config), own: namespace, canary: canary(w.canary), statuses: tally{}, writes: tally{}}
}

// mostFaults is how many faults of one walk are reported.
const mostFaults = 5

// canary is a text in objects of others. No answer to the tenant may contain it.
type canary string

// in reports whether a text holds the canary, also as it stands in the data of a secret.
func (c canary) in(text []byte) bool {
	for shift := range 3 { // where in its three bytes a canary begins that is part of something encoded
		encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("_", shift) + string(c)))
		// The first and the last characters hold bits of the neighbours.
		if bytes.Contains(text, []byte(encoded[4*min(shift, 1):len(encoded)-4])) {
			return true
		}
	}
	return bytes.Contains(text, []byte(c))
}

// ask sends a request and looks at the answer.
func (a *tenant) ask(r request) answer {
	a.Helper()
	got := a.send(r)
	a.statuses[got.status]++
	header, err := json.Marshal(got.header)
	if err != nil {
		a.Fatal(err)
	}
	for _, text := range [][]byte{got.body, header} {
		if a.canary.in(text) && !a.canary.in(r.body) {
			a.findings = append(a.findings, fmt.Sprintf("told: %s\n%.3000s", r, text))
		}
	}
	switch blamed := got.status >= http.StatusInternalServerError && bytes.Contains(got.body, []byte("kiln")); {
	case blamed && bytes.Contains(got.body, []byte("panic")):
		a.findings = append(a.findings, fmt.Sprintf("panic: %s\n%.3000s", r, got.body))
	case blamed && len(a.faults) < mostFaults:
		a.faults = append(a.faults, fmt.Sprintf("%s\n%.1000s", r, got.body))
	}
	return got
}

// readEverything reads all that the tenant may read, once more: controllers may have written there since.
func (a *tenant) readEverything() {
	a.Helper()
	for _, r := range a.served {
		if !strings.Contains(r.name, "/") && slices.Contains(r.verbs, "list") {
			for _, namespace := range []string{"", a.own} {
				a.ask(request{method: http.MethodGet, path: r.path(namespace, "")})
			}
		}
	}
}

// TestCanary: the canary is found wherever it is, and in nothing else.
func TestCanary(t *testing.T) {
	const secret = canary("canary-0123456789abcdef")
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	for text, want := range map[string]bool{
		"":                                    false,
		"canary-0123456789abcde":              false,
		"a " + string(secret) + " b":          true,
		encode(string(secret)):                true,
		encode("a" + string(secret)):          true,
		encode("ab" + string(secret) + "cd"):  true,
		encode("abc" + string(secret)):        true,
		encode("canary"):                      false,
		encode("another text of some length"): false,
	} {
		if got := secret.in([]byte(text)); got != want {
			t.Errorf("'%s': %t, want %t", text, got, want)
		}
	}
}
