package admission

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/kilnvm/kiln/internal/review"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

const (
	// selfTestTimeout is the time within which a replica must judge a small VM. It is shorter than the shortest timeoutSeconds of manifests/beside-kubevirt, and
	// than the timeoutSeconds of the readiness probe.
	selfTestTimeout = 800 * time.Millisecond
	// selfTestSize is the capacity that the review of the self-test takes, in bytes: the usual size of a review.
	selfTestSize = 6 << 10
)

// SelfTest is a readiness check: it judges a small VM as a request would be judged. A replica that lacks CPU time or capacity for that would answer requests
// too late, and must get none. The VM refers to nothing, so the review calls no API server and no policy: what is slow for all replicas makes none of them not
// ready. The kubelet's thresholds keep a replica from changing with each probe.
type SelfTest struct {
	server    *Server
	namespace string
	slow      atomic.Bool
}

// SelfTest returns the self-test of the server. The namespace is the namespace of the VM, and must exist.
func (s *Server) SelfTest(namespace string) *SelfTest {
	return &SelfTest{server: s, namespace: namespace}
}

// Check is a healthz.Checker.
func (t *SelfTest) Check(*http.Request) error {
	ctx, cancel := context.WithTimeout(context.Background(), selfTestTimeout)
	defer cancel()
	err := t.judgeSmallVM(ctx)
	t.slow.Store(err != nil)
	return err
}

// Slow reports whether the last check failed.
func (t *SelfTest) Slow() bool { return t.slow.Load() }

// judgeSmallVM judges the VM within the time of the context.
func (t *SelfTest) judgeSmallVM(ctx context.Context) error {
	began := time.Now()
	err := t.server.capacity.Acquire(ctx, selfTestSize)
	if err == nil {
		defer t.server.capacity.Release(selfTestSize)
		reviewer := t.server.Reviewer
		reviewer.Policies, reviewer.Judged = nil, nil
		_, err = reviewer.ReviewVM(ctx, smallVM(t.namespace), nil, review.Asker{DryRun: true})
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("a small VM was not judged within %s: %w", time.Since(began).Round(time.Millisecond), err)
	}
	return nil
}

// smallVM returns a VM that refers to nothing.
func smallVM(namespace string) *v1.VirtualMachine {
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "self-test"}}
	vm.Spec.RunStrategy = new(v1.RunStrategyHalted)
	vm.Spec.Template = &v1.VirtualMachineInstanceTemplateSpec{}
	return vm
}
