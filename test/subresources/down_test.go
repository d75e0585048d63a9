package subresources

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/certs"
	"github.com/kilnvm/kiln/test/poll"
	v1 "kubevirt.io/api/core/v1"
)

// The tests of this file take away what all tests share. They are not parallel: Go runs them while none of those that are.

// TestNamespacesWaitForTheAPIServer: while the API server of subresources is down, the one thing besides its own calls that does not go on is the end of
// namespaces, and Kubernetes names the group that it waits for. Admission goes on.
func TestNamespacesWaitForTheAPIServer(t *testing.T) {
	s := spaceOf(t)
	s.make("before", v1.RunStrategyHalted)
	if err := shared.StopAPIServer(); err != nil {
		t.Fatal(err)
	}
	down := true
	back := func() {
		if down {
			down = false
			if err := shared.StartAPIServer(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Cleanup(back)
	s.eventually("Kubernetes' API server knows, and has the metric of the alert", func() bool {
		const value = `jsonpath={.status.conditions[?(@.type=="Available")].status}`
		return s.kubectl("", "get", "apiservice", certs.APIServices[0], "-o", value) == "False" &&
			strings.Contains(s.kubectl("", "get", "--raw", "/metrics"), `aggregator_unavailable_apiservice{name="`+certs.APIServices[0]+`"} 1`)
	})
	s.expect(http.MethodPut, "vm/before/start", "", http.StatusServiceUnavailable, "")

	other := spaceOf(t)
	s.kubectl("", "delete", "namespace", s.name, "--wait=false")
	condition := func() string {
		return s.kubectl("", "get", "namespace", s.name, "-o",
			`jsonpath={.status.phase} {.status.conditions[?(@.type=="NamespaceDeletionDiscoveryFailure")].status} {.status.conditions[*].message}`)
	}
	s.eventually("the condition names the group", func() bool {
		now := condition()
		return strings.HasPrefix(now, "Terminating True") && strings.Contains(now, "subresources.kubevirt.io")
	})
	other.make("meanwhile", v1.RunStrategyHalted)
	if pins := other.vm("meanwhile").Annotations["kilnvm.io/pins"]; pins == "" {
		t.Error("a VM of meanwhile has no pins: admission did not judge it")
	}
	other.kubectl("", "patch", "vm", "meanwhile", "--type=merge", `-p={"spec":{"runStrategy":"Always"}}`)
	other.vmi("meanwhile", nil)
	if now := condition(); !strings.HasPrefix(now, "Terminating True") {
		t.Errorf("the namespace is '%s' while nobody answers for the group", now)
	}

	back()
	// The controller of namespaces tries again after ever longer times.
	if !poll.Until(4*time.Minute, func() bool {
		return s.kubectl("", "get", "namespace", s.name, "--ignore-not-found", "-o", "name") == ""
	}) {
		t.Fatalf("the namespace stays although the API server is back: %s", condition())
	}
	other.expect(http.MethodPut, "vm/meanwhile/stop", "", http.StatusAccepted, "")
}

// TestCertificateIsSignedAnew: a Secret that somebody empties is signed by a new authority. APIServices trust it, and the process serves the new certificate
// without a restart.
func TestCertificateIsSignedAnew(t *testing.T) {
	s := spaceOf(t)
	s.make("web", v1.RunStrategyHalted)
	secret := func() string {
		return s.kubectl("", "get", "secret", "--namespace", shared.Namespace, certs.APIServerSecret, "-o", `jsonpath={.data.tls\.crt}`)
	}
	bundles := func() string {
		return s.kubectl("", "get", "apiservice", certs.APIServices[0], certs.APIServices[1], "-o", "jsonpath={.items[*].spec.caBundle}")
	}
	signed, trusted := secret(), bundles()
	if signed == "" || trusted == "" {
		t.Fatalf("before: a certificate of %d bytes, authorities of %d", len(signed), len(trusted))
	}
	s.kubectl("", "patch", "secret", "--namespace", shared.Namespace, certs.APIServerSecret, "--type=merge", `-p={"data":null}`)
	s.eventually("another certificate is signed", func() bool { now := secret(); return now != "" && now != signed })
	s.eventually("both APIServices trust another authority", func() bool {
		for now := range strings.SplitSeq(bundles(), " ") {
			if now == "" || strings.Contains(trusted, now) {
				return false
			}
		}
		return true
	})
	// The library that serves reads the files each minute at the latest. Kubernetes' API server takes the APIService out until then.
	succeeded := 0
	for end := time.Now().Add(3 * time.Minute); succeeded < 5; time.Sleep(500 * time.Millisecond) {
		if succeeded++; s.call(http.MethodPut, "vm/web/start", `{"dryRun":["All"]}`).code != http.StatusAccepted {
			succeeded = 0
		}
		if time.Now().After(end) {
			t.Fatalf("no call succeeds: %s", s.call(http.MethodPut, "vm/web/start", `{"dryRun":["All"]}`).text)
		}
	}
	s.expect(http.MethodPut, "vm/web/start", "", http.StatusAccepted, "")
	s.vmi("web", nil)
}
