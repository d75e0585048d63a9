package beside

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/test/cluster"
)

// Reasons for rights that are needed, and that no request of these tests shows, or not in every run.
const (
	late       = "read from the API server when the cache has not seen it yet, which is a matter of time"
	withHook   = "TestElsewhere needs it, which only 'make nightly' runs"
	repeated   = "an event that is sent again within minutes becomes a series of the first one"
	inferred   = "the source of a volume recommends an instancetype; test/e2e has such volumes"
	unserved   = "nobody serves the kind here; the controller asks once what is served"
	collected  = "the collector marks what is unused every five minutes, admission takes marks away, and after ten minutes it deletes"
	profiled   = "these tests have no such profile; test/e2e has, and the controllers are the same"
	asks       = "nobody reads the metrics of these processes; test/pods does"
	remounted  = "these programs are no pods; test/install uses it"
	lastPolicy = "it goes with the last policy of the cluster, and other tests have policies"
)

// unseen are these rights.
var unseen = map[string]string{
	"kiln-controller: delete openreports.io clusterreports":                            lastPolicy,
	"kiln-controller: create authentication.k8s.io tokenreviews":                       asks,
	"kiln-controller: create authorization.k8s.io subjectaccessreviews":                asks,
	"kiln-controller: create kilnvm.io guesthardwares":                                 withHook,
	"kiln-controller: delete apps controllerrevisions":                                 collected,
	"kiln-controller: delete kilnvm.io guesthardwares":                                 withHook,
	"kiln-controller: get apps controllerrevisions":                                    late,
	"kiln-controller: get cdi.kubevirt.io datasources":                                 inferred,
	"kiln-controller: get cdi.kubevirt.io datavolumes":                                 inferred,
	"kiln-controller: get instancetype.kubevirt.io virtualmachineclusterinstancetypes": late,
	"kiln-controller: get instancetype.kubevirt.io virtualmachineclusterpreferences":   late,
	"kiln-controller: get instancetype.kubevirt.io virtualmachineinstancetypes":        late,
	"kiln-controller: get instancetype.kubevirt.io virtualmachinepreferences":          late,
	"kiln-controller: get kilnvm.io guesthardwares":                                    withHook,
	"kiln-controller: get kubevirt.io virtualmachineinstancepresets":                   late,
	"kiln-controller: get kubevirt.io virtualmachineinstances":                         withHook,
	"kiln-controller: get namespaces":                                                  late,
	"kiln-controller: get persistentvolumeclaims":                                      inferred,
	"kiln-controller: get snapshot.storage.k8s.io volumesnapshots":                     inferred,
	"kiln-controller: patch apps controllerrevisions":                                  collected,
	"kiln-controller: patch events.k8s.io events":                                      repeated,
	"kiln-controller: patch kilnvm.io clusterguestprofiles/status":                     profiled,
	"kiln-controller: patch kilnvm.io frontendprofiles/status":                         profiled,
	"kiln-controller: patch kilnvm.io guesthardwares":                                  withHook,
	"kiln-controller: patch kilnvm.io guesthardwares/status":                           withHook,
	"kiln-controller: patch kilnvm.io hostprofiles/status":                             profiled,
	"kiln-controller: patch pods in kiln-system":                                       remounted,
	"kiln-controller: watch cdi.kubevirt.io datasources":                               unserved,
	"kiln-controller: watch cdi.kubevirt.io datavolumes":                               unserved,
	"kiln-controller: watch nodes":                                                     profiled,
	"kiln-controller: watch snapshot.storage.k8s.io volumesnapshots":                   unserved,
	"kiln-webhook: create authentication.k8s.io tokenreviews":                          asks,
	"kiln-webhook: create authorization.k8s.io subjectaccessreviews":                   inferred,
	"kiln-webhook: get apps controllerrevisions":                                       late,
	"kiln-webhook: get cdi.kubevirt.io datasources":                                    inferred,
	"kiln-webhook: get cdi.kubevirt.io datavolumes":                                    inferred,
	"kiln-webhook: get instancetype.kubevirt.io virtualmachineclusterinstancetypes":    late,
	"kiln-webhook: get instancetype.kubevirt.io virtualmachineclusterpreferences":      late,
	"kiln-webhook: get instancetype.kubevirt.io virtualmachineinstancetypes":           late,
	"kiln-webhook: get instancetype.kubevirt.io virtualmachinepreferences":             late,
	"kiln-webhook: get kubevirt.io virtualmachineinstancepresets":                      late,
	"kiln-webhook: get namespaces":                                                     late,
	"kiln-webhook: get persistentvolumeclaims":                                         inferred,
	"kiln-webhook: get snapshot.storage.k8s.io volumesnapshots":                        inferred,
	"kiln-webhook: patch apps controllerrevisions":                                     collected,
}

// checkRights compares what the manifests grant with what Kiln's accounts did in all tests: a selection of tests needs less. docs/reference/rights.md says what
// each right is for.
func checkRights(on *cluster.Beside) error {
	rights, err := on.Rights()
	if err != nil {
		return err
	}
	requests, err := on.Requests()
	if err != nil {
		return err
	}
	var errs []error
	for _, right := range cluster.Unused(rights, requests) {
		if unseen[right.String()] == "" && !right.ListsBeside(rights) {
			errs = append(errs, fmt.Errorf("no test used the right of %s: remove it, or say in 'unseen' why it is needed", right))
		}
	}
	for text := range unseen {
		if !slices.ContainsFunc(rights, func(right cluster.Right) bool { return right.String() == text }) {
			errs = append(errs, fmt.Errorf("'%s' is in 'unseen', and not granted: take it out", text))
		}
	}
	return errors.Join(errs...)
}

// needsHookRights fails the test for each right that 'unseen' explains by TestElsewhere, and that no request to its cluster needed.
func (s space) needsHookRights() {
	s.Helper()
	rights, err := s.on.Rights()
	s.ok(err)
	requests, err := s.on.Requests()
	s.ok(err)
	for _, right := range cluster.Unused(rights, requests) {
		if unseen[right.String()] == withHook {
			s.Errorf("the right of %s was not needed", right)
		}
	}
}
