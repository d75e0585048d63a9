package node

import (
	"context"
	"errors"
	"sync"
	"time"

	cri "k8s.io/cri-api/pkg/apis"
	remote "k8s.io/cri-client/pkg"
)

// answer is how long containerd may take for one request.
const answer = 30 * time.Second

func (s Spec) connectRuntime(ctx context.Context) (cri.RuntimeService, error) {
	return remote.NewRemoteRuntimeService(ctx, "unix://"+s.CRI(), answer, nil, false)
}

// removeSandboxes ends all pods at once, and forgets them: the store is kept, and kubelet would take a minute to notice pods of a node that
// was there before. The runtime must answer and kubelet must not run, who would start the pods again.
func removeSandboxes(ctx context.Context, runtime cri.RuntimeService) error {
	pods, err := runtime.ListPodSandbox(ctx, nil)
	if err != nil {
		return err
	}
	errs := make([]error, len(pods))
	var all sync.WaitGroup
	for i, pod := range pods {
		all.Go(func() {
			errs[i] = errors.Join(runtime.StopPodSandbox(ctx, pod.Id), runtime.RemovePodSandbox(ctx, pod.Id))
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
