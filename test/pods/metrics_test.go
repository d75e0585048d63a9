package pods

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// scraped is what the processes of a Deployment of Kiln answer at a path: the status, and the values of series that have the tenant's namespace.
func (n *tenant) scraped(deployment, path, token string) (status int, series map[string]float64) {
	n.Helper()
	series = map[string]float64{}
	client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{ // the time of the ServiceMonitor
		DialContext: shared.Dial, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true, //nolint:gosec // as Prometheus does
	}}
	addresses := n.kubectl("--namespace", "kiln-system", "get", "pods", "--selector", "app.kubernetes.io/name="+deployment, "--field-selector",
		"status.phase=Running", "-o", "jsonpath={.items[*].status.podIP}")
	for address := range strings.FieldsSeq(addresses) {
		request, err := http.NewRequestWithContext(n.Context(), http.MethodGet, "https://"+net.JoinHostPort(address, "8443")+path, nil)
		if err != nil {
			n.Fatal(err)
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := client.Do(request)
		if err != nil {
			n.Fatal(err)
		}
		status = response.StatusCode
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			name, value, _ := strings.Cut(lines.Text(), " ")
			if strings.Contains(name, `namespace="`+n.namespace+`"`) {
				if series[name], err = strconv.ParseFloat(value, 64); err != nil {
					n.Fatal(err)
				}
			}
		}
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
	return status, series
}

// TestMetricsOfGuests: as Kiln is installed by default, an account that was given the right reads what KubeVirt's dashboards ask of a guest, and its counters
// move. Without a token, and without the right, nothing is read.
func TestMetricsOfGuests(t *testing.T) {
	n := newTenant(t, "metrics")
	n.blockClaim("block")
	n.apply(answering("counted"))
	n.phase("counted", "Running")
	n.console("counted", serves)
	const guests = "/metrics/guests"
	token := strings.TrimSpace(n.kubectl("create", "token", "default"))
	for _, at := range [][]string{{"kiln-webhook", "/metrics"}, {"kiln-controller", "/metrics", guests}, {"kiln-apiserver", "/metrics", guests}} {
		for _, path := range at[1:] {
			for given, want := range map[string]int{"": http.StatusUnauthorized, "made-up": http.StatusUnauthorized, token: http.StatusForbidden} {
				if status, series := n.scraped(at[0], path, given); status != want || len(series) > 0 {
					t.Errorf("%s of %s: status %d, want %d; %v", path, at[0], status, want, series)
				}
			}
		}
	}
	n.kubectl("create", "clusterrolebinding", "metrics-of-guests", "--clusterrole=kiln-metrics-reader", "--serviceaccount=metrics:default")
	t.Cleanup(func() {
		if out, err := shared.Kubectl(context.WithoutCancel(t.Context()), "delete", "clusterrolebinding", "metrics-of-guests"); err != nil {
			t.Error(err, out)
		}
	})

	vmi := func(metric, labels string) string {
		return fmt.Sprintf(`%s{%sname="counted",namespace="metrics",node="%s"}`, metric, labels, n.nodeOf("counted"))
	}
	counters := []string{
		vmi("kubevirt_vmi_cpu_usage_seconds_total", ""), vmi("kubevirt_vmi_network_receive_bytes_total", `interface="default",`),
		vmi("kubevirt_vmi_network_transmit_packets_total", `interface="default",`), vmi("kubevirt_vmi_storage_read_traffic_bytes_total", `drive="block",`),
	}
	gauges := []string{
		vmi("kubevirt_vmi_memory_resident_bytes", ""), vmi("kubevirt_vmi_memory_domain_bytes", ""), vmi("kubevirt_vmi_memory_usable_bytes", ""),
		vmi("kubevirt_vmi_memory_actual_balloon_bytes", ""),
	}
	var first map[string]float64
	n.eventually("the guest is counted", func() (string, bool) {
		_, first = n.scraped("kiln-apiserver", guests, token)
		for _, one := range append(counters, gauges...) {
			if first[one] <= 0 {
				return fmt.Sprint(one, " is missing in ", first), false
			}
		}
		return "", true
	})
	if has := first[vmi("kubevirt_vmi_memory_domain_bytes", "")]; has != 192<<20 {
		t.Errorf("the guest has %v bytes of memory", has)
	}
	vcpu := 0.0
	for series, value := range first {
		if strings.HasPrefix(series, `kubevirt_vmi_vcpu_seconds_total{id="0",`) {
			vcpu += value
		}
	}
	if vcpu <= 0 {
		t.Errorf("the vCPU is not counted: %v", first)
	}
	n.eventually("the counters move", func() (string, bool) {
		address := n.kubectl("get", "vmi", "counted", "-o", "jsonpath={.status.interfaces[0].ipAddress}")
		if body, err := n.fetch("http://" + net.JoinHostPort(address, "8080")); err != nil {
			return fmt.Sprint(body, err), false
		}
		_, now := n.scraped("kiln-apiserver", guests, token)
		for _, one := range counters[:3] {
			if now[one] <= first[one] {
				return fmt.Sprintf("%s: %v, then %v", one, first[one], now[one]), false
			}
		}
		return "", true
	})
	n.eventually("the VM is told of", func() (string, bool) {
		status, series := n.scraped("kiln-controller", guests, token)
		info, since := 0.0, series[`kubevirt_vm_running_status_last_transition_timestamp_seconds{name="counted",namespace="metrics"}`]
		for name, value := range series {
			if strings.HasPrefix(name, "kubevirt_vm_info{") && strings.Contains(name, `status="running"`) ||
				strings.HasPrefix(name, "kubevirt_vmi_info{") && strings.Contains(name, `vmi_pod="guest-counted"`) {
				info += value
			}
		}
		return fmt.Sprint(status, series), info == 2 && time.Since(time.Unix(int64(since), 0)) < time.Hour &&
			series[`kubevirt_vm_resource_requests{name="counted",namespace="metrics",resource="memory",source="guest_effective",unit="bytes"}`] == 192<<20
	})
}
