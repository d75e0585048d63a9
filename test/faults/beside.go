package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/load/creates"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	v1 "kubevirt.io/api/core/v1"
)

const (
	// span is how long a webhook is disturbed.
	span = 20 * time.Second
	// late is after how long a slow webhook answers.
	late = 4900 * time.Millisecond
	// finds is the time within which Kiln's controller must have found the VMs that Kiln would have refused.
	finds = 2 * time.Minute
	// everyWrong is the number of VMs of which Kiln refuses one. KubeVirt admits it.
	everyWrong = 5
)

// slowFault is one row: what is done to the webhooks of Kiln, or of virt-api with KubeVirt alone, until the context ends.
type slowFault struct {
	name string
	kiln func(context.Context, *cluster.Beside)
	// virt is the same for virt-api; nil if there is no such thing, since one process of virt-api runs.
	virt func(context.Context, *cluster.Beside)
	// denies tells that a GuestPolicy with action Deny exists.
	denies bool
}

// disturbed disturbs replicas until the context ends.
func disturbed(to cluster.Disturbance, numbers ...int) func(context.Context, *cluster.Beside) {
	return func(ctx context.Context, on *cluster.Beside) {
		on.DisturbWebhook(to, numbers...)
		<-ctx.Done()
		on.DisturbWebhook(cluster.Disturbance{}, numbers...)
	}
}

func disturbedVirtAPI(to cluster.Disturbance) func(context.Context, *cluster.Beside) {
	return func(ctx context.Context, on *cluster.Beside) {
		on.DisturbVirtAPI(to)
		<-ctx.Done()
		on.DisturbVirtAPI(cluster.Disturbance{})
	}
}

func throttled(share float64, numbers ...int) func(context.Context, *cluster.Beside) {
	return func(ctx context.Context, on *cluster.Beside) { on.ThrottleWebhook(ctx, share, numbers...) }
}

var (
	slowAnswers = cluster.Disturbance{Delay: late}
	noPackets   = cluster.Disturbance{Silent: true}
)

var slowFaults = []slowFault{
	{name: "none", kiln: waits, virt: waits},
	{name: "answers after 4.9 s", kiln: disturbed(slowAnswers, 0, 1), virt: disturbedVirtAPI(slowAnswers)},
	{name: "answers after 4.9 s, a policy denies", kiln: disturbed(slowAnswers, 0, 1), denies: true},
	{name: "packets dropped", kiln: disturbed(noPackets, 0, 1), virt: disturbedVirtAPI(noPackets)},
	{name: "one of two replicas answers after 4.9 s", kiln: disturbed(slowAnswers, 0)},
	{name: "one of two replicas has a hundredth of its CPU", kiln: throttled(0.01, 0)},
	{name: "a tenth of its CPU", kiln: throttled(0.1, 0, 1), virt: func(ctx context.Context, on *cluster.Beside) { on.ThrottleVirtAPI(ctx, 0.1) }},
	{name: "stopped", kiln: stopsKiln, virt: stopsVirtAPI},
}

func waits(ctx context.Context, _ *cluster.Beside) { <-ctx.Done() }

func stopsKiln(ctx context.Context, on *cluster.Beside) {
	printError(on.StopKiln())
	<-ctx.Done()
	printError(on.StartKiln(context.WithoutCancel(ctx)))
}

func stopsVirtAPI(ctx context.Context, on *cluster.Beside) {
	printError(on.StopVirtAPI())
	<-ctx.Done()
	printError(on.StartVirtAPI(context.WithoutCancel(ctx)))
}

func printError(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// chosenSlow returns the faults of the flags.
func (o options) chosenSlow() (some []slowFault) {
	for _, f := range slowFaults {
		if o.only.MatchString(f.name) && (o.beside == "kiln" || f.virt != nil) {
			some = append(some, f)
		}
	}
	return some
}

// besideStage is a cluster with KubeVirt, with or without Kiln.
type besideStage struct {
	options
	on      *cluster.Beside
	config  *rest.Config
	client  kubernetes.Interface
	dynamic dynamic.Interface
}

// tryBeside tries the faults one after another on one cluster.
func tryBeside(ctx context.Context, o options) error {
	if o.beside != "kiln" && o.beside != "alone" {
		return fmt.Errorf("-kubevirt is '%s', must be 'kiln' or 'alone'", o.beside)
	}
	if len(o.chosenSlow()) == 0 {
		return nil
	}
	root, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	dir, err := cluster.Dir("kiln-faults")
	if err != nil {
		return err
	}
	s := &besideStage{options: o}
	s.on, err = cluster.StartKubeVirt(ctx, cluster.Options{Root: root, Dir: dir, Guests: "kubevirt", Replicas: 2, Progress: os.Stderr})
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	err = s.tryAll(ctx)
	if err = errors.Join(err, s.on.Close()); err != nil {
		return fmt.Errorf("%w\nlogs: %s", err, dir)
	}
	return os.RemoveAll(dir)
}

func (s *besideStage) tryAll(ctx context.Context) (err error) {
	if s.config, err = clientcmd.BuildConfigFromFlags("", s.on.Kubeconfig); err != nil {
		return err
	}
	s.config.QPS = -1
	if s.client, err = kubernetes.NewForConfig(s.config); err != nil {
		return err
	}
	if s.dynamic, err = dynamic.NewForConfig(s.config); err != nil {
		return err
	}
	if s.beside == "kiln" {
		if err := s.on.AddKiln(ctx); err != nil {
			return err
		}
		probing, end := context.WithCancel(ctx)
		defer end()
		s.on.ProbeWebhook(probing)
	}
	fmt.Println("fault | created | failed | median before | median | slowest | refused by Kiln | admitted unjudged | found | found after")
	fmt.Println("---|---|---|---|---|---|---|---|---|---")
	bad := 0
	for i, f := range s.chosenSlow() {
		r, err := s.try(ctx, i, f)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		r.print(f)
		if r.found < r.unjudged || s.beside == "kiln" && !f.denies && r.failed > 0 || f.denies && r.unjudged > 0 {
			bad++
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d faults did more than they may", bad)
	}
	return nil
}

// slowResult is the result of a row.
type slowResult struct {
	created, failed, refused, unjudged, found int
	before, during, slowest, foundAfter       time.Duration
	errs                                      map[string]int
}

// try creates VMs, disturbs the webhooks meanwhile, and waits until the VMs that nobody judged are found.
func (s *besideStage) try(ctx context.Context, number int, f slowFault) (*slowResult, error) {
	fmt.Fprintln(os.Stderr, "fault:", f.name)
	space := fmt.Sprintf("slow-%d", number)
	if _, err := s.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: space}}, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	if f.denies {
		if err := s.deny(ctx); err != nil {
			return nil, err
		}
	}
	creating, enough := context.WithCancel(ctx)
	defer enough()
	var result creates.Result
	done := make(chan error, 1)
	go func() {
		var err error
		result, err = creates.Run(creating, s.config, creates.Plan{Clients: clients, Rate: s.rate, Timeout: time.Minute, VM: someWrong(space)})
		done <- err
	}()
	time.Sleep(s.calm)
	began := time.Now()
	disturb := f.kiln
	if s.beside == "alone" {
		disturb = f.virt
	}
	spanned, cancel := context.WithTimeout(ctx, span)
	defer cancel()
	disturb(spanned, s.on)
	ended := time.Now()
	time.Sleep(s.calm)
	enough()
	if err := <-done; err != nil {
		return nil, err
	}
	r := judgeCreates(result, began, ended, s.beside == "kiln")
	if s.beside == "kiln" {
		if err := s.awaitFound(ctx, space, r); err != nil {
			return nil, err
		}
	}
	if f.denies {
		if _, stderr, err := s.on.Kubectl(ctx, "", "delete", "guestpolicy", "faults"); err != nil {
			return nil, fmt.Errorf("%w: %s", err, stderr)
		}
	}
	return r, s.client.CoreV1().Namespaces().Delete(ctx, space, metav1.DeleteOptions{})
}

// deny creates a GuestPolicy that denies no VM of the load, and waits until it is enforced.
func (s *besideStage) deny(ctx context.Context) error {
	const policy = `{"apiVersion": "kilnvm.io/v1alpha1", "kind": "GuestPolicy", "metadata": {"name": "faults"},
"spec": {"validations": [{"expression": "object.metadata.name != 'denied'"}]}}`
	if _, stderr, err := s.on.Kubectl(ctx, policy, "apply", "-f", "-"); err != nil {
		return fmt.Errorf("%w: %s", err, stderr)
	}
	_, stderr, err := s.on.Kubectl(ctx, "", "wait", "guestpolicy/faults", "--for=condition=Enforced", "--timeout=2m")
	if err != nil {
		return fmt.Errorf("%w: %s", err, stderr)
	}
	return nil
}

// isWrong reports whether Kiln refuses VM number i, which KubeVirt admits.
func isWrong(i int) bool { return i%everyWrong == 0 }

func someWrong(space string) func(i int) *v1.VirtualMachine {
	return func(i int) *v1.VirtualMachine {
		vm := creates.Kind{Namespace: space, Strategy: v1.RunStrategyHalted}.VM(fmt.Sprintf("vm-%d", i))
		vm.Spec.Template.Spec.Domain.Memory = &v1.Memory{Guest: new(resource.MustParse("1Gi"))}
		if isWrong(i) {
			vm.Spec.Template.ObjectMeta.Annotations = map[string]string{v1alpha1.AnnotationNUMACells: "2"} // only Kiln's launcher gives a guest two
		}
		return vm
	}
}

// judgeCreates counts the creates. A VM that Kiln refuses, and that exists, was admitted without judgement.
func judgeCreates(all creates.Result, began, ended time.Time, kiln bool) *slowResult {
	r := &slowResult{errs: map[string]int{}}
	var before, during []time.Duration
	for _, c := range all.Creates {
		switch {
		case c.Err != nil && isWrong(c.Number) && strings.Contains(c.Err.Error(), v1alpha1.AnnotationNUMACells):
			r.refused++
		case c.Err != nil:
			r.failed++
			r.errs[withoutNames(c.Err)]++
		default:
			r.created++
			if isWrong(c.Number) && kiln {
				r.unjudged++
			}
		}
		r.slowest = max(r.slowest, c.Latency)
		if c.Due.Before(began) {
			before = append(before, c.Latency)
		} else if c.Due.Before(ended) {
			during = append(during, c.Latency)
		}
	}
	r.before, r.during = median(before), median(during)
	return r
}

func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// awaitFound waits until as many VMs as were admitted without judgement have the annotation of VMs that admission would refuse.
func (s *besideStage) awaitFound(ctx context.Context, space string, r *slowResult) error {
	began := time.Now()
	waited := retryUntil(ctx, finds, func() error {
		list, err := s.dynamic.Resource(machines).Namespace(space).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		r.found = 0
		for i := range list.Items {
			if list.Items[i].GetAnnotations()[v1alpha1.AnnotationRefused] != "" {
				r.found++
			}
		}
		if r.found < r.unjudged {
			return fmt.Errorf("%d of %d VMs are found", r.found, r.unjudged)
		}
		return nil
	})
	r.foundAfter = time.Since(began)
	if waited != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return nil
}

func (r *slowResult) print(f slowFault) {
	fmt.Printf("%s | %d | %d | %.2f s | %.2f s | %.2f s | %d | %d | %d | %.1f s\n", f.name, r.created, r.failed, r.before.Seconds(), r.during.Seconds(),
		r.slowest.Seconds(), r.refused, r.unjudged, r.found, r.foundAfter.Seconds())
	for _, text := range slices.SortedFunc(maps.Keys(r.errs), func(a, b string) int { return cmp.Compare(r.errs[b], r.errs[a]) }) {
		fmt.Printf("  %d x %s\n", r.errs[text], text)
	}
}
