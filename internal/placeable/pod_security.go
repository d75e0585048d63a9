package placeable

import (
	"sync"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	corev1 "k8s.io/api/core/v1"
	psa "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// evaluator has the checks of Pod Security, compiled once.
var evaluator = sync.OnceValues(func() (policy.Evaluator, error) { return policy.NewEvaluator(policy.DefaultChecks(), nil) })

// judgePodSecurity returns why Pod Security forbids a pod in its namespace. It knows the labels of the namespace. What the API server has in a file, such as
// another default level or exempt namespaces, it does not know: without a label, it forbids nothing.
func judgePodSecurity(of *corev1.Pod, cluster Cluster) *condition.Cause {
	privileged := psa.LevelVersion{Level: psa.LevelPrivileged, Version: psa.LatestVersion()}
	// Labels that cannot be read stand for 'restricted', as in the API server.
	wanted, _ := psa.PolicyToEvaluate(cluster.NamespaceLabels, psa.Policy{Enforce: privileged, Audit: privileged, Warn: privileged})
	if wanted.Enforce.Level == psa.LevelPrivileged {
		return nil
	}
	checks, err := evaluator()
	if err != nil {
		return nil
	}
	result := policy.AggregateCheckResults(checks.EvaluatePod(wanted.Enforce, &of.ObjectMeta, &of.Spec))
	if result.Allowed {
		return nil
	}
	return &condition.Cause{Reason: v1alpha1.ReasonForbiddenByPodSecurity, Message: "Pod Security forbids the pod at level " +
		quote(string(wanted.Enforce.Level)) + " of the namespace: " + result.ForbiddenDetail() +
		". Remove this from the VM, or let an administrator choose another level"}
}
