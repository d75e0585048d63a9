// Command demo is 'make run': it starts everything, creates a VM with kubectl, shows what each stage made of it, and stays until Ctrl-C. With KUBECONFIG it
// installs Kiln beside the KubeVirt of that cluster instead, and removes it at Ctrl-C.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/guest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := runDemo(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "make run:", err)
		os.Exit(1)
	}
}

// place is where VMIs run: in pods, or on a bare machine.
type place interface {
	// access is what kubectl needs: a kubeconfig, and the folder with kubectl.
	access() (kubeconfig, programs string)
	// provide makes ready what runs VMIs, and the image that the example boots.
	provide(ctx context.Context) error
	// report waits for what the guest says of its hardware.
	report(ctx context.Context, uid string) (guest.Report, error)
	// state says in a sentence how the domain is.
	state(ctx context.Context) (string, error)
	// hint is a command that shows the guest.
	hint() string
	logs() string
	close() error
}

// demo is what was started.
type demo struct {
	place
	// root is the repository, programs the folder with kubectl, and own that with kubectl-kiln.
	root, kubeconfig, programs, own string
}

func runDemo(ctx context.Context) (err error) {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	dir, err := cluster.Dir("kiln-run")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if os.Getenv("KUBECONFIG") != "" && os.Getenv("WEBHOOK_HOST") == "" && os.Getenv("RUNTIME") == "" {
		theirs, err := newBesideKubeVirt(root, dir)
		if err != nil {
			return err
		}
		return theirs.run(ctx)
	}
	d := demo{root: root, own: filepath.Join(dir, "bin")}
	if d.place, err = choosePlace(ctx, root, dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	d.kubeconfig, d.programs = d.access()
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"making ready what runs VMIs, and building a guest from Debian's kernel", d.provide},
		{"loading manifests/catalog and examples/preset.yaml", d.loadCatalog},
		{"kubectl apply -f examples/conflict.yaml, which must be refused", d.showConflict},
		{"kubectl apply -f examples/guest.yaml", d.createVM},
		{"waiting for the guest (it is emulated, some 15 seconds)", d.showStages},
	} {
		fmt.Println(step.what)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w\n%s", step.what, err, d.logs())
		}
	}
	fmt.Printf("\nIt stays up until Ctrl-C. In another terminal:\n  export KUBECONFIG=%s PATH=%s:%s:$PATH\n"+
		"  kubectl get vm,vmi; kubectl kiln render vm/demo; %s\n", d.kubeconfig, d.programs, d.own, d.hint())
	<-ctx.Done()
	fmt.Println("\nstopping")
	return d.deleteVM()
}

// kubectl runs kubectl as the administrator. Both outputs are returned with an error too.
func (d *demo) kubectl(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	return d.runProgram(ctx, filepath.Join(d.programs, "kubectl"), args...)
}

func (d *demo) runProgram(ctx context.Context, program string, args ...string) (stdout, stderr string, err error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+d.kubeconfig)
	var out, failed strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &failed
	err = cmd.Run()
	return out.String(), failed.String(), err
}

// image is the image in examples/guest.yaml.
const image = "demo.example/guest:1"

const namespace = "default"

func (d *demo) loadCatalog(ctx context.Context) error {
	if _, stderr, err := d.kubectl(ctx, "apply", "--server-side", "-k", filepath.Join(d.root, "manifests", "catalog")); err != nil {
		return fmt.Errorf("%w: %s", err, stderr)
	}
	_, err := d.applyExample(ctx, "preset.yaml")
	return err
}

func (d *demo) createVM(ctx context.Context) error {
	_, err := d.applyExample(ctx, "guest.yaml")
	return err
}

// showConflict shows what a user reads who overrides an instancetype.
func (d *demo) showConflict(ctx context.Context) error {
	stderr, err := d.applyExample(ctx, "conflict.yaml")
	if err == nil {
		return errors.New("it was admitted")
	}
	fmt.Printf("  %s\n", strings.ReplaceAll(strings.TrimSpace(stderr), "\n", "\n  "))
	return nil
}

// applyExample applies one of the examples and returns kubectl's standard error.
func (d *demo) applyExample(ctx context.Context, example string) (string, error) {
	_, stderr, err := d.kubectl(ctx, "apply", "-n", namespace, "-f", filepath.Join(d.root, "examples", example))
	if err != nil {
		return stderr, fmt.Errorf("%w: %s", err, stderr)
	}
	return stderr, nil
}

// patience is how long a guest may take to boot on a busy machine.
const patience = 5 * time.Minute

// showStages prints what each stage made of the VM.
func (d *demo) showStages(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	uid, err := d.awaitRunning(ctx)
	if err != nil {
		return err
	}
	report, err := d.report(ctx, uid)
	if err != nil {
		return err
	}
	state, err := d.state(ctx)
	if err != nil {
		return err
	}
	pins, err := d.askFor(ctx, "vm", `{.metadata.annotations.kilnvm\.io/pins}`)
	if err != nil {
		return err
	}
	fmt.Printf("\n1 admit: the VM, as it was applied, with its pins\n  %s\n", pins)
	domain, err := d.askFor(ctx, "vmi", `{.spec.domain.cpu}{"\n  "}{.spec.domain.memory}{"\n  "}{.spec.domain.machine}{"\n  "}{.spec.domain.devices.disks}`)
	if err != nil {
		return err
	}
	fmt.Printf("  its VMI, explicit:\n  %s\n", domain)
	hardware, err := d.askFor(ctx, "guesthardware", `{.spec.hardware.machine}{"\n  "}{.spec.hardware.devices}`)
	if err != nil {
		return err
	}
	fmt.Printf("\n2 frontend: what the guest sees, recorded in its GuestHardware for every later boot\n  %s\n", hardware)
	xml, stderr, err := d.runProgram(ctx, filepath.Join(d.own, "kubectl-kiln"), "render", "vmi/demo", "-n", namespace)
	if err != nil {
		return fmt.Errorf("%w: %s", err, stderr)
	}
	fmt.Printf("\n3 backend: the libvirt domain, %d lines ('kubectl kiln render vmi/demo')\n", strings.Count(xml, "\n"))
	fmt.Printf("\n%s\nthe guest says: %d CPUs, %d MiB, UUID %s, NIC %s, %d disks\n",
		state, len(report.CPUs), report.RAMBytes>>20, report.DMI["product_uuid"], report.NICs[0].MAC, len(report.Disks))
	return nil
}

// awaitRunning waits until the VMI runs and returns its UID.
func (d *demo) awaitRunning(ctx context.Context) (string, error) {
	for {
		out, err := d.askFor(ctx, "vmi", `{.status.phase} {.metadata.uid}{range .status.conditions[*]} {.reason} {.message}{end}`)
		if phase := strings.Fields(out); err == nil && len(phase) > 1 && phase[0] == "Running" {
			return phase[1], nil
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("the VMI does not run: %s %w", out, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (d *demo) askFor(ctx context.Context, kind, template string) (string, error) {
	out, stderr, err := d.kubectl(ctx, "get", kind, "demo", "-n", namespace, "-o", "jsonpath="+template)
	if err != nil {
		return out, fmt.Errorf("%w: %s", err, stderr)
	}
	if strings.TrimSpace(out) == "" {
		return out, fmt.Errorf("%s/demo has nothing at '%s'", kind, template)
	}
	return out, nil
}

// deleteVM deletes the VM while there is a launcher to stop it.
func (d *demo) deleteVM() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var errs []error
	for _, args := range [][]string{
		{"delete", "vm/demo", "vmipreset/watched", "-n", namespace, "--ignore-not-found"},
		{"wait", "--for=delete", "vmi/demo", "-n", namespace, "--timeout=90s"},
	} {
		if _, stderr, err := d.kubectl(ctx, args...); err != nil {
			errs = append(errs, fmt.Errorf("kubectl %s: %w: %s", args[0], err, stderr))
		}
	}
	return errors.Join(errs...)
}
