package e2e

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/kilnvm/kiln/test/cluster"
)

// used gathers what Kiln's accounts did in the clusters of all tests, so that a right that no test used is found. It is checked when
// all tests have run: a selection of them uses less.
var used footprint

type footprint struct {
	mutex    sync.Mutex
	requests []cluster.Right
}

// note adds what was asked of a cluster, before that is closed. Names of namespaces may differ from cluster to cluster, which is no matter:
// the cluster of most tests has used all rights that are bound to one.
func (u *footprint) note(on *cluster.Cluster) error {
	requests, err := on.Requests()
	u.mutex.Lock()
	defer u.mutex.Unlock()
	u.requests = append(u.requests, requests...)
	return err
}

// Reasons for rights that are needed, and that no request of these tests shows, or not in every run.
const (
	late           = "read from the API server when the cache has not seen it yet, which is a matter of time"
	configured     = "the configuration of these tests is a file; where it is a KubeVirt object, it is watched"
	repeated       = "an event that is sent again within minutes becomes a series of the first one"
	unserved       = "the tests serve the kind only after the controller has started, which asks once what is served"
	ownership      = "admission plugin OwnerReferencesPermissionEnforcement asks for it, which is off by default"
	collected      = "the collector marks what is unused every five minutes, admission takes marks away, and after ten minutes it deletes"
	reseeded       = "the controller follows an identity that somebody changed by hand"
	inPods         = "the guests of these tests run on bare machines; internal/vmipod has a test of these rights, and test/node uses them"
	withCSI        = "these tests have no CSI driver; internal/snapshots plays one"
	withDevices    = "the VMs that these tests restore have no devices of claims; internal/snapshots has the judgement"
	asksReaders    = "nobody reads the metrics of these processes; test/pods does"
	inferredAtOnce = "admission has inferred by then; the controller does when it pins a VM that was written while no webhook ran"
	lastPolicy     = "it goes with the last policy of the cluster, and other tests have policies"
)

// unseen are these rights.
var unseen = map[string]string{
	"kiln-controller: delete openreports.io clusterreports":                            lastPolicy,
	"kiln-webhook: watch kubevirt.io kubevirts":                                        configured,
	"kiln-controller: watch kubevirt.io kubevirts":                                     configured,
	"kiln-launcher: watch kubevirt.io kubevirts":                                       configured,
	"kiln-controller: get apps deployments virt-controller":                            "asked where a KubeVirt object exists",
	"kiln-controller: get nodes":                                                       "read where KubeVirt runs guests; test/beside has such guests",
	"kiln-webhook: get apps deployments virt-controller":                               "asked where a KubeVirt object exists",
	"kiln-controller: patch events.k8s.io events":                                      repeated,
	"kiln-launcher: patch events.k8s.io events":                                        repeated,
	"kiln-controller: get cdi.kubevirt.io datavolumes":                                 inferredAtOnce,
	"kiln-controller: get cdi.kubevirt.io datasources":                                 inferredAtOnce,
	"kiln-controller: get snapshot.storage.k8s.io volumesnapshots":                     inferredAtOnce,
	"kiln-controller: watch cdi.kubevirt.io datavolumes":                               unserved,
	"kiln-controller: watch cdi.kubevirt.io datasources":                               unserved,
	"kiln-controller: watch snapshot.storage.k8s.io volumesnapshots":                   unserved,
	"kiln-controller: update kubevirt.io virtualmachines/finalizers":                   ownership,
	"kiln-webhook: get instancetype.kubevirt.io virtualmachineinstancetypes":           late,
	"kiln-webhook: get instancetype.kubevirt.io virtualmachineclusterinstancetypes":    late,
	"kiln-webhook: get instancetype.kubevirt.io virtualmachinepreferences":             late,
	"kiln-webhook: get instancetype.kubevirt.io virtualmachineclusterpreferences":      late,
	"kiln-webhook: get kubevirt.io virtualmachineinstancepresets":                      late,
	"kiln-webhook: get kubevirt.io virtualmachines":                                    "read where KubeVirt makes the VMI of a VM",
	"kiln-webhook: get kilnvm.io guesthardwares":                                       "read with --hook-image where KubeVirt makes the VMI of a VM",
	"kiln-webhook: get apps controllerrevisions":                                       late,
	"kiln-controller: get instancetype.kubevirt.io virtualmachineinstancetypes":        late,
	"kiln-controller: get instancetype.kubevirt.io virtualmachineclusterinstancetypes": late,
	"kiln-controller: get instancetype.kubevirt.io virtualmachinepreferences":          late,
	"kiln-controller: get instancetype.kubevirt.io virtualmachineclusterpreferences":   late,
	"kiln-controller: get kubevirt.io virtualmachineinstancepresets":                   late,
	"kiln-webhook: get namespaces":                                                     late,
	"kiln-controller: get namespaces":                                                  late,
	"kiln-controller: get apps controllerrevisions":                                    late,
	"kiln-controller: patch kilnvm.io guesthardwares":                                  reseeded,
	"kiln-controller: patch apps controllerrevisions":                                  collected,
	"kiln-webhook: patch apps controllerrevisions":                                     collected,
	"kiln-controller: delete apps controllerrevisions":                                 collected,
	"kiln-controller: update kubevirt.io virtualmachineinstances/finalizers":           ownership,
	"kiln-controller: patch kubevirt.io virtualmachineinstances":                       inPods,
	"kiln-controller: get k8s.cni.cncf.io network-attachment-definitions":              inPods,
	"kiln-controller: watch k8s.cni.cncf.io network-attachment-definitions":            unserved,
	"kiln-controller: watch limitranges":                                               inPods,
	"kiln-controller: patch pods in kiln-system":                                       "these programs are no pods; test/install uses it",
	"kiln-controller: create authentication.k8s.io tokenreviews":                       asksReaders,
	"kiln-webhook: create authentication.k8s.io tokenreviews":                          asksReaders,
	"kiln-controller: create persistentvolumeclaims":                                   inPods,
	"kiln-controller: create configmaps":                                               inPods,
	"kiln-controller: create cdi.kubevirt.io datavolumes":                              "guests of bare machines have none; manifests has a test of it",
	"kiln-controller: delete cdi.kubevirt.io datavolumes":                              "a restore in place deletes them; internal/snapshots has a test of it",
	"kiln-controller: create cdi.kubevirt.io datavolumes/source":                       "CDI's webhook asks whether the controller has it",
	"kiln-controller: create secrets":                                                  inPods,
	"kiln-controller: list events":                                                     inPods,
	"kiln-controller: get pods":                                                        inPods,
	"kiln-controller: list pods":                                                       inPods,
	"kiln-controller: watch pods":                                                      inPods,
	"kiln-controller: create pods":                                                     inPods,
	"kiln-controller: patch pods":                                                      inPods,
	"kiln-controller: delete pods":                                                     inPods,
	"kiln-controller: patch pods/resize":                                               inPods,
	"kiln-controller: get kilnvm.io guestpods":                                         inPods,
	"kiln-controller: list kilnvm.io guestpods":                                        inPods,
	"kiln-controller: watch kilnvm.io guestpods":                                       inPods,
	"kiln-controller: create kilnvm.io guestpods":                                      inPods,
	"kiln-controller: patch kilnvm.io guestpods":                                       inPods,
	"kiln-controller: delete kilnvm.io guestpods":                                      inPods,
	"kiln-controller: patch kilnvm.io guestpods/status":                                inPods,
	"kiln-controller: get serviceaccounts":                                             inPods,
	"kiln-controller: create serviceaccounts":                                          inPods,
	"kiln-controller: delete serviceaccounts":                                          inPods,
	"kiln-controller: get rbac.authorization.k8s.io roles":                             inPods,
	"kiln-controller: create rbac.authorization.k8s.io roles":                          inPods,
	"kiln-controller: delete rbac.authorization.k8s.io roles":                          inPods,
	"kiln-controller: get rbac.authorization.k8s.io rolebindings":                      inPods,
	"kiln-controller: create rbac.authorization.k8s.io rolebindings":                   inPods,
	"kiln-controller: delete rbac.authorization.k8s.io rolebindings":                   inPods,
	"kiln-controller: list nodes":                                                      inPods,
	"kiln-controller: watch storage.k8s.io storageclasses":                             inPods,
	"kiln-webhook: watch storage.k8s.io storageclasses":                                inPods,
	"kiln-controller: watch nodes":                                                     inPods,
	"kiln-controller: list resourcequotas":                                             inPods,
	"kiln-controller: patch persistentvolumeclaims":                                    withCSI,
	"kiln-controller: delete persistentvolumeclaims":                                   withCSI,
	"kiln-controller: create snapshot.storage.k8s.io volumesnapshots":                  withCSI,
	"kiln-controller: list snapshot.storage.k8s.io volumesnapshotclasses":              withCSI,
	"kiln-controller: get storage.k8s.io storageclasses":                               withCSI,
	"kiln-controller: get resource.k8s.io resourceclaims":                              withDevices,
	"kiln-controller: get resource.k8s.io resourceclaimtemplates":                      withDevices,
	"kiln-controller: get resource.k8s.io deviceclasses":                               withDevices,

	// test/beside uses it.
	"kiln-controller: patch admissionregistration.k8s.io validatingwebhookconfigurations kiln-policies": "the webhooks of VMs have failurePolicy Fail here",
}

// check compares what the manifests grant with what was used.
func (u *footprint) check(on *cluster.Cluster) error {
	rights, err := on.Rights()
	if err != nil {
		return err
	}
	u.mutex.Lock()
	defer u.mutex.Unlock()
	var errs []error
	for _, right := range cluster.Unused(rights, u.requests) {
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
