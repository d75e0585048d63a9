package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// auditSizes is the cluster whose stored VMs are audited. Half of the policies are violated by each VM.
type auditSizes struct {
	VMs        int `json:"vms"`
	Namespaces int `json:"namespaces"`
	Policies   int `json:"policies"`
}

// AuditAt are the figures of an audit of all VMs by all policies. Sizes are in bytes, times in seconds.
type AuditAt struct {
	VMs      int `json:"vms"`
	Policies int `json:"policies"`
	Results  int `json:"results"`
	// Controller is the time from the create of the last policy until the controller's metric counts all results, and ControllerPeak its VmHWM then. Started is
	// VmHWM before, with the caches of all VMs.
	Controller        float64 `json:"controller"`
	ControllerStarted int64   `json:"controllerStarted"`
	ControllerPeak    int64   `json:"controllerPeak"`
	// CommandLine and CommandLinePeak are the time and the largest resident set of 'kubectl kiln policy audit -A -o json'.
	CommandLine     float64 `json:"commandLine"`
	CommandLinePeak int64   `json:"commandLinePeak"`
}

// measureAudit fills a cluster, and has the controller and the command line evaluate policies on all VMs.
func measureAudit(ctx context.Context, o options, r *Results) (err error) {
	b, err := variant{name: "audit", overlay: "overlays/rotation"}.startBench(ctx, o.Root)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	spaces, err := b.createCatalogAndNamespaces(ctx, o.Audit.Namespaces)
	if err != nil {
		return err
	}
	filled := o
	filled.Memory.Every = o.Audit.VMs + 1 // only the first VM has a VMI
	if err := b.fillCluster(ctx, filled, filling{spaces, 0, o.Audit.VMs}); err != nil {
		return err
	}
	if err := b.reportStatuses(ctx, o.Audit.VMs); err != nil {
		return err
	}
	at := AuditAt{VMs: o.Audit.VMs, Policies: o.Audit.Policies, Results: o.Audit.VMs * o.Audit.Policies}
	if err := at.measureController(ctx, b, o.Audit.Policies); err != nil {
		return err
	}
	if err := at.measureCommandLine(ctx, b); err != nil {
		return err
	}
	r.Audit = &at
	return nil
}

// measureController starts a controller, and creates the policies when its queues are empty.
func (a *AuditAt) measureController(ctx context.Context, b *bench, policies int) (err error) {
	controller, err := b.startWatched(ctx, "controller", "--runtime=node")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, controller.stop()) }()
	const reconciles = `controller_runtime_reconcile_total{controller="virtualmachine",`
	if err := controller.awaitCondition(ctx, func() bool { return controller.sumMetric(reconciles) >= float64(a.VMs) }); err != nil {
		return err
	}
	if err := controller.awaitIdle(ctx); err != nil {
		return err
	}
	a.ControllerStarted = controller.statusValue("VmHWM")
	if err := b.createPolicies(ctx, policies); err != nil {
		return err
	}
	begun := time.Now()
	audited := func() bool { return controller.sumMetric("kiln_guest_policy_results{") >= float64(a.Results) }
	if err := controller.awaitCondition(ctx, audited); err != nil {
		return err
	}
	a.Controller, a.ControllerPeak = time.Since(begun).Seconds(), controller.statusValue("VmHWM")
	return nil
}

// createPolicies creates policies that only warn. Each second one is violated by all VMs.
func (b *bench) createPolicies(ctx context.Context, number int) error {
	c, err := b.newClient()
	if err != nil {
		return err
	}
	if err := v1alpha1.AddToScheme(c.Scheme()); err != nil {
		return err
	}
	for i := range number {
		of := &v1alpha1.GuestPolicy{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("load-%02d", i)}}
		of.Spec.ValidationActions = []v1alpha1.GuestPolicyAction{v1alpha1.PolicyWarn}
		of.Spec.Validations = []v1alpha1.GuestPolicyValidation{{Message: "too many disks",
			Expression: fmt.Sprintf("guest.spec.domain.devices.disks.size() <= %d", 1+i%2)}}
		if err := c.Create(ctx, of); err != nil {
			return err
		}
	}
	return nil
}

// measureCommandLine audits all VMs with the plugin of kubectl. Its exit status is 1, because there are violations.
func (a *AuditAt) measureCommandLine(ctx context.Context, b *bench) error {
	cmd := exec.CommandContext(ctx, b.Program("kubectl-kiln"), "policy", "audit", "-A", "-o", "json", "--kubeconfig", b.Kubeconfig)
	cmd.Stdout, cmd.Stderr = io.Discard, os.Stderr
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool { // a developer may have set the collector of Go, and users have not
		return strings.HasPrefix(variable, "GOGC=") || strings.HasPrefix(variable, "GOMEMLIMIT=")
	})
	begun := time.Now()
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		return fmt.Errorf("policy audit: want exit status 1 for violations: %w", err)
	}
	a.CommandLine = time.Since(begun).Seconds()
	if usage, is := exit.SysUsage().(*syscall.Rusage); is {
		a.CommandLinePeak = usage.Maxrss << 10
	}
	return nil
}

func (a *AuditAt) printTo(to io.Writer) {
	fmt.Fprintf(to, "audit of %d VMs by %d policies, %d results:\tcontroller %.1f s, %.0f MB (%.0f before)\tcommand line %.1f s, %.0f MB\n",
		a.VMs, a.Policies, a.Results, a.Controller, float64(a.ControllerPeak)/mega, float64(a.ControllerStarted)/mega, a.CommandLine,
		float64(a.CommandLinePeak)/mega)
}
