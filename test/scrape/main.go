// Command scrape starts Kiln with its API server of subresources, has users create VMs, be refused and wait, and prints what /metrics of each process and of
// the API server answered before and after, as JSON. test/promtool reads it. It is a command, because test/promtool's module has Prometheus' dependencies,
// and this module has the dependencies of a cluster.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/kilnvm/kiln/test/cluster"
)

// Answer is what /metrics of one process answered.
type Answer struct{ Job, Pod, Namespace, Text string }

// objects are what happens between the scrapes: a machine that starts, one that waits, a mistake, and a violation of a policy.
const (
	catalog = `
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineInstancetype
metadata: {name: small, namespace: default}
spec: {cpu: {guest: 1}, memory: {guest: 128Mi}}
---
apiVersion: kilnvm.io/v1alpha1
kind: GuestPolicy
metadata: {name: sizes}
spec:
  validationActions: [Warn]
  matchConstraints: {resources: [virtualmachines]}
  validations: [{expression: "object.metadata.name != 'starts'", message: "a machine that is counted"}]
`
	starts = `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: starts, namespace: default}
spec: {runStrategy: Always, instancetype: {kind: VirtualMachineInstancetype, name: small}, template: {spec: {domain: {devices: {}}}}}
`
	wrong = `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: wrong, namespace: default}
spec: {runStrategy: Halted, template: {spec: {domain: {cpu: {sockets: 4, maxSockets: 2}, devices: {}}}}}
`
	waits = `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: waits, namespace: default}
spec: {runStrategy: Always, instancetype: {kind: VirtualMachineInstancetype, name: later}, template: {spec: {domain: {devices: {}}}}}
`
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	scrapes, err := scrapeThrice(ctx)
	stop()
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(scrapes)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "scrape:", err)
		os.Exit(1)
	}
}

// scrapeThrice returns three scrapes: before anything happened, and two after it.
func scrapeThrice(ctx context.Context) (scrapes [][]Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, 8*time.Minute)
	defer cancel()
	dir, err := cluster.Dir("kiln-scrape")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	root, err := os.Getwd() // 'go run' stays where it was called
	if err != nil {
		return nil, err
	}
	on, err := cluster.Start(ctx, cluster.Options{Root: root, Dir: dir, Replicas: 2, Overlay: "overlays/apiserver"})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, on.Close()) }()
	for _, before := range []func(context.Context, *cluster.Cluster) error{doNothing, causeEvents, doNothing} {
		if err := before(ctx, on); err != nil {
			return nil, err
		}
		answers, err := scrapeAll(ctx, on)
		if err != nil {
			return nil, err
		}
		scrapes = append(scrapes, answers)
	}
	return scrapes, nil
}

func doNothing(context.Context, *cluster.Cluster) error { return nil }

// scrapeAll reads the metrics of all processes, with the labels that Prometheus would add, and the metrics of the API server.
func scrapeAll(ctx context.Context, on *cluster.Cluster) (all []Answer, err error) {
	for job, urls := range on.Metrics() {
		for i, url := range urls {
			text, err := getURL(ctx, url)
			if err != nil {
				return nil, err
			}
			all = append(all, Answer{Job: job, Pod: fmt.Sprintf("%s-%d", job, i), Namespace: on.Namespace, Text: text})
		}
	}
	text, stderr, err := on.Kubectl(ctx, "", "get", "--raw", "/metrics")
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, stderr)
	}
	return append(all, Answer{Job: "apiserver", Text: text}), nil
}

// causeEvents creates VMs as users that are admitted, refused, or wait.
func causeEvents(ctx context.Context, on *cluster.Cluster) error {
	if stderr, err := createObjects(ctx, on, catalog); err != nil {
		return fmt.Errorf("%w: %s", err, stderr)
	}
	// A policy is in force once a watch has brought it to each replica.
	if err := retryUntil(ctx, func() error { return createWarnedVM(ctx, on) }); err != nil {
		return err
	}
	if stderr, err := createObjects(ctx, on, wrong); err == nil || !strings.Contains(stderr, "maxSockets") {
		return fmt.Errorf("a mistake is not refused: %w: %s", err, stderr)
	}
	if stderr, err := createObjects(ctx, on, waits); err != nil {
		return fmt.Errorf("%w: %s", err, stderr)
	}
	return retryUntil(ctx, func() error { return areCounted(ctx, on) })
}

// createObjects creates objects; the text has the warnings and the error.
func createObjects(ctx context.Context, on *cluster.Cluster, manifest string) (string, error) {
	_, stderr, err := on.Kubectl(ctx, manifest, "create", "-f", "-")
	return stderr, err
}

// createWarnedVM creates the VM that the policy warns of. As long as it does not, the VM is removed.
func createWarnedVM(ctx context.Context, on *cluster.Cluster) error {
	stderr, err := createObjects(ctx, on, starts)
	if err != nil || strings.Contains(stderr, "a machine that is counted") {
		return err
	}
	_, _, err = on.Kubectl(ctx, "", "delete", "vm", "starts")
	return errors.Join(errors.New("the policy does not judge yet"), err)
}

// areCounted reports whether the controller that leads counts what was created.
func areCounted(ctx context.Context, on *cluster.Cluster) error {
	text := ""
	for _, url := range on.Metrics()["kiln-controller"] {
		answer, err := getURL(ctx, url)
		if err != nil {
			return err
		}
		text += answer
	}
	for _, want := range []string{`kiln_virtualmachineinstances{phase="Pending"} 1`, "kiln_virtualmachines_unpinned 1", `kiln_guest_cpus{offered="nowhere"} 0`} {
		if !strings.Contains(text, want) {
			return fmt.Errorf("no replica of the controller says '%s'", want)
		}
	}
	return nil
}

// retryUntil tries until it succeeds or the context ends.
func retryUntil(ctx context.Context, ready func() error) error {
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func getURL(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s", url, response.Status)
	}
	return string(body), err
}
