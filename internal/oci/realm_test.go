package oci

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kilnvm/kiln/test/registry"
)

// TestCredentialsStayEncrypted: a registry on HTTPS names a token service. Over HTTP nothing reaches it, least of all docker's credentials; over HTTPS it is
// asked, also on another host.
func TestCredentialsStayEncrypted(t *testing.T) {
	var asked, withCredentials atomic.Int32
	service := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if _, password, given := r.BasicAuth(); given && password == "secret" {
			withCredentials.Add(1)
		}
		fmt.Fprint(w, `{"token":"t"}`)
	})
	plain, encrypted := httptest.NewServer(service), httptest.NewTLSServer(service)
	t.Cleanup(plain.Close)
	t.Cleanup(encrypted.Close)
	for _, test := range []struct {
		realm string
		asked bool
	}{
		{plain.URL + "/token", false},
		{strings.Replace(plain.URL, "http:", "HTTP:", 1) + "/token", false},
		{encrypted.URL + "/token", true},
	} {
		asked.Store(0)
		withCredentials.Store(0)
		server := registry.Start(t, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") == "Bearer t" {
					next.ServeHTTP(w, r)
					return
				}
				w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s",service="s"`, test.realm))
				w.WriteHeader(http.StatusUnauthorized)
			})
		})
		dir := t.TempDir()
		t.Setenv("DOCKER_CONFIG", dir)
		// user:secret
		login := fmt.Sprintf(`{"auths":{%q:{"auth":"dXNlcjpzZWNyZXQ="}}}`, server.Host)
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(login), 0o600); err != nil {
			t.Fatal(err)
		}
		client, err := New(Options{CAFile: server.Authority})
		if err != nil {
			t.Fatal(err)
		}
		trusting, is := client.http.Client.Transport.(onlyHTTPS)
		if !is {
			t.Fatal("the client may send unencrypted")
		}
		if test.asked {
			client.http.Client = &http.Client{Transport: onlyHTTPS{eitherAuthority{trusting.below, encrypted}}}
		}
		_, err = client.Tags(t.Context(), "oci://"+server.Host+"/catalogs/general:1.0.0", 1)
		switch {
		case test.asked && (err != nil || withCredentials.Load() == 0):
			t.Errorf("%s: %v, asked %d times", test.realm, err, asked.Load())
		case !test.asked && (err == nil || !strings.Contains(err.Error(), "unencrypted") || asked.Load() > 0):
			t.Errorf("%s: %v, asked %d times, with credentials %d times; want a refusal before anything is sent", test.realm, err, asked.Load(), withCredentials.Load())
		}
	}
}

// eitherAuthority sends what is for the token service by the client that trusts its authority, and all else by another one.
type eitherAuthority struct {
	below  http.RoundTripper
	server *httptest.Server
}

func (a eitherAuthority) RoundTrip(request *http.Request) (*http.Response, error) {
	if "https://"+request.URL.Host == a.server.URL {
		return a.server.Client().Transport.RoundTrip(request)
	}
	return a.below.RoundTrip(request)
}
