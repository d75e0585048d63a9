package certs

import (
	"bytes"
	"context"
	"crypto/x509"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// metrics returns the values of a served certificate's metrics, by name and label.
func metrics(t *testing.T, served *Served) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(served); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				name += " " + label.GetValue()
			}
			all[name] = metric.GetGauge().GetValue()
		}
	}
	return all
}

// ends returns the metric of the certificate's end; 0 if it is absent.
func ends(t *testing.T, served *Served) float64 {
	t.Helper()
	return metrics(t, served)["kiln_webhook_certificate_not_after_seconds"]
}

// serve serves a certificate, and returns what judges it by its own CA.
func serve(t *testing.T, end time.Time) *Served {
	t.Helper()
	serving := Watch(t.TempDir())
	ca, certificate, key := signed(t, end)
	for file, content := range map[string][]byte{keyFile: key, certificateFile: certificate, caFile: ca} {
		if err := replace(filepath.Join(serving.dir, file), content); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serving.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	served := &Served{Address: listen(t, serving), Name: name, Authorities: serving.Authorities(), Now: time.Now, Log: logr.Discard()}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, err := handshake(served.Address, roots); err == nil {
			return served
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// TestServedProblems: what every API server sees makes a replica not ready; what only its own clock says does not. The metric has both.
func TestServedProblems(t *testing.T) {
	end := time.Now().Add(time.Hour)
	elsewhere := filepath.Join(t.TempDir(), caFile)
	other, _, _ := signed(t, end)
	if err := os.WriteFile(elsewhere, other, 0o600); err != nil {
		t.Fatal(err)
	}
	junk := filepath.Join(t.TempDir(), caFile)
	if err := os.WriteFile(junk, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	served := serve(t, end)
	both := filepath.Join(t.TempDir(), caFile)
	own, err := os.ReadFile(served.Authorities)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(both, slices.Concat(other, own), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		why, name, authorities string
		now                    time.Time
		refused                string
		want                   []string
	}{
		{"as it should be", name, served.Authorities, time.Now(), "", nil},
		{"the CA is the second of the bundle, as after a rotation", name, both, time.Now(), "", nil},
		{"the name of another namespace", "kiln-webhook.other.svc", served.Authorities, time.Now(), "kiln-webhook.other.svc", []string{"name"}},
		{"an address that the certificate lacks", "127.0.0.1", served.Authorities, time.Now(), "127.0.0.1", []string{"name"}},
		{"another CA", name, elsewhere, time.Now(), "fits no CA", []string{"authority"}},
		{"no file of CAs", name, served.Authorities + ".none", time.Now(), "", nil},
		{"a file without a CA says nothing", name, junk, time.Now(), "", nil},
		{"ended by this clock", name, served.Authorities, end.Add(time.Minute), "", []string{"ended"}},
		{"early by this clock", name, served.Authorities, end.Add(-24 * time.Hour), "", []string{"early"}},
		{"both kinds: the dates are not why", name, elsewhere, end.Add(time.Minute), "fits no CA", []string{"authority", "ended"}},
	} {
		judge := &Served{Address: served.Address, Name: c.name, Authorities: c.authorities, Now: func() time.Time { return c.now }, Log: logr.Discard()}
		err := judge.Check(nil)
		if (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused) || err != nil && strings.Contains(err.Error(), "clock") {
			t.Errorf("%s: error %v, want one about '%s'", c.why, err, c.refused)
		}
		want := map[string]float64{"kiln_webhook_certificate_not_after_seconds": float64(end.Unix())}
		for _, problem := range []string{"name", "authority", "ended", "early"} {
			want["kiln_webhook_certificate_problem "+problem] = 0
		}
		for _, problem := range c.want {
			want["kiln_webhook_certificate_problem "+problem] = 1
		}
		if diff := cmp.Diff(want, metrics(t, judge)); diff != "" {
			t.Errorf("%s: -want +got\n%s", c.why, diff)
		}
	}
}

// TestServedIsLoggedOnce: readiness is asked every two seconds.
func TestServedIsLoggedOnce(t *testing.T) {
	served := serve(t, time.Now().Add(time.Hour))
	var log bytes.Buffer
	served.Log = logr.FromSlogHandler(slog.NewTextHandler(&log, nil))
	clocks := map[string]time.Time{"right": time.Now(), "fast": time.Now().Add(2 * time.Hour)}
	for _, clock := range []string{"right", "right", "fast", "fast", "right", "right"} {
		served.Now = func() time.Time { return clocks[clock] }
		if err := served.Check(nil); err != nil {
			t.Error(err)
		}
	}
	if lines := strings.Count(log.String(), "\n"); lines != 2 || !strings.Contains(log.String(), "has ended") {
		t.Errorf("%d lines, want one when the problem comes and one when it goes (clocks: %v):\n%s", lines, slices.Sorted(maps.Keys(clocks)), &log)
	}
}
