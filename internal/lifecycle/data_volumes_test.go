package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/command"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	v1 "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

func template(name string, source cdi.DataVolumeSource) v1.DataVolumeTemplateSpec {
	return v1.DataVolumeTemplateSpec{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: cdi.DataVolumeSpec{Source: &source, Storage: &cdi.StorageSpec{}}}
}

func imported(name string) v1.DataVolumeTemplateSpec {
	return template(name, cdi.DataVolumeSource{HTTP: &cdi.DataVolumeSourceHTTP{URL: "https://images.example.com/" + name}})
}

func clonedFrom(namespace, claim string) v1.DataVolumeTemplateSpec {
	return template("root", cdi.DataVolumeSource{PVC: &cdi.DataVolumeSourcePVC{Namespace: namespace, Name: claim}})
}

func fromDataSource(namespace, name string) v1.DataVolumeTemplateSpec {
	made := template("root", cdi.DataVolumeSource{})
	made.Spec.Source, made.Spec.SourceRef = nil, &cdi.DataVolumeSourceRef{Kind: "DataSource", Name: name}
	if namespace != "" {
		made.Spec.SourceRef.Namespace = &namespace
	}
	return made
}

// newTemplatedVM returns a VM with templates, each with its volume.
func newTemplatedVM(strategy v1.VirtualMachineRunStrategy, templates ...v1.DataVolumeTemplateSpec) *v1.VirtualMachine {
	vm := newVM(strategy)
	vm.Spec.DataVolumeTemplates = templates
	for _, of := range templates {
		vm.Spec.Template.Spec.Volumes = append(vm.Spec.Template.Spec.Volumes,
			v1.Volume{Name: of.Name, VolumeSource: v1.VolumeSource{DataVolume: &v1.DataVolumeSource{Name: of.Name}}})
	}
	return vm
}

// newVolumeCluster is a cluster with CDI's kinds, in which guests run in pods. ServiceAccount 'default' exists.
func newVolumeCluster(t *testing.T, objects ...client.Object) *testCluster {
	t.Helper()
	c := newCluster(t, append(objects, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "default"}})...)
	c.controller.MakesDataVolumes, c.controller.watchesDataVolumes = true, true
	return c
}

// dataVolume returns a DataVolume, nil if it does not exist.
func (c *testCluster) dataVolume(name string) *cdi.DataVolume {
	c.Helper()
	found := &cdi.DataVolume{}
	if err := c.Get(c.Context(), client.ObjectKey{Namespace: key.Namespace, Name: name}, found); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		c.Fatal(err)
	}
	return found
}

// fill sets the phase of a DataVolume, as CDI does.
func (c *testCluster) fill(name string, phase cdi.DataVolumePhase, conditions ...cdi.DataVolumeCondition) {
	c.Helper()
	volume := c.dataVolume(name)
	volume.Status.Phase, volume.Status.Conditions = phase, conditions
	if err := c.Update(c.Context(), volume); err != nil {
		c.Fatal(err)
	}
}

func (c *testCluster) failureCondition() *v1.VirtualMachineCondition {
	c.Helper()
	if found := conditionsOfType(c.vm(), v1.VirtualMachineFailure); len(found) > 0 {
		return &found[0]
	}
	return nil
}

// eventReasons returns the reasons of the events that have been recorded since the last call.
func (c *testCluster) eventReasons() (reasons []string) {
	recorded := c.controller.Events.(*events.FakeRecorder).Events
	for len(recorded) > 0 {
		reasons = append(reasons, strings.Fields(<-recorded)[1])
	}
	return reasons
}

// wantRefusal checks that a DataVolume was not made, that no guest starts, and that condition and event have a reason and say something.
func (c *testCluster) wantRefusal(reason string, says ...string) {
	c.Helper()
	failure := c.failureCondition()
	if failure == nil || failure.Reason != reason || c.dataVolume("root") != nil || c.vmi() != nil {
		c.Errorf("failure %+v, DataVolume %v, VMI %v, want reason %s and neither", failure, c.dataVolume("root"), c.vmi(), reason)
		return
	}
	for _, text := range says {
		if !strings.Contains(failure.Message, text) {
			c.Errorf("'%s' does not say '%s'", failure.Message, text)
		}
	}
	if got := c.eventReasons(); !slices.Contains(got, reason) {
		c.Errorf("events %v have no %s", got, reason)
	}
}

// TestDataVolumesOfAVM: each template becomes one DataVolume of the VM, also while the VM is halted, and the guest starts when all are filled.
func TestDataVolumesOfAVM(t *testing.T) {
	labelled := imported("root")
	labelled.Labels, labelled.Annotations = map[string]string{"a": "b", v1.CreatedByLabel: "another"}, map[string]string{"c": "d"}
	labelled.Finalizers = []string{"example.com/never"}
	labelled.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x"}}
	vm := newTemplatedVM(v1.RunStrategyHalted, labelled, imported("data"))
	vm.Spec.Template.Spec.PriorityClassName = "high"
	c := newVolumeCluster(t, vm)
	c.reconcileRepeatedly()
	root := c.dataVolume("root")
	if root == nil || c.dataVolume("data") == nil {
		t.Fatal("a halted VM has no DataVolumes")
	}
	want := metav1.ObjectMeta{Namespace: key.Namespace, Name: "root", Labels: map[string]string{"a": "b", v1.CreatedByLabel: string(vm.UID)},
		Annotations: map[string]string{"c": "d"}, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(vm, v1.VirtualMachineGroupVersionKind)}}
	got := root.ObjectMeta
	got.UID, got.CreationTimestamp, got.ResourceVersion = "", metav1.Time{}, ""
	if diff := cmp.Diff(want, got); diff != "" || root.Spec.Source.HTTP.URL != labelled.Spec.Source.HTTP.URL || root.Spec.PriorityClassName != "high" {
		t.Errorf("DataVolume %+v, metadata (-want +got):\n%s", root.Spec, diff)
	}
	if got := c.eventReasons(); !slices.Equal(got, []string{"SuccessfulDataVolumeCreate", "SuccessfulDataVolumeCreate"}) {
		t.Errorf("events %v", got)
	}
	if got := c.vm().Status.PrintableStatus; got != v1.VirtualMachineStatusProvisioning {
		t.Errorf("the halted VM is %s", got)
	}
	c.setRunStrategy(v1.RunStrategyAlways)
	c.fill("root", cdi.Succeeded)
	c.reconcileRepeatedly()
	if c.vmi() != nil || c.failureCondition() != nil {
		t.Errorf("the VMI %v of a VM whose second disk is empty, failure %v", c.vmi(), c.failureCondition())
	}
	ready := conditionsOfType(c.vm(), v1.VirtualMachineReady)[0]
	if ready.Reason != "Provisioning" || !strings.Contains(ready.Message, "'data'") {
		t.Errorf("Ready is %+v", ready)
	}
	c.fill("data", cdi.Succeeded)
	c.reconcileRepeatedly()
	if c.vmi() == nil || c.vm().Status.PrintableStatus != v1.VirtualMachineStatusStarting {
		t.Errorf("no guest of filled disks: %s", c.vm().Status.PrintableStatus)
	}
}

// TestPhasesOfDataVolumes: a VM without a VMI has the status that KubeVirt's VM has, and starts in the phases in which KubeVirt starts it.
func TestPhasesOfDataVolumes(t *testing.T) {
	running := func(reason string) cdi.DataVolumeCondition {
		return cdi.DataVolumeCondition{Type: cdi.DataVolumeRunning, Status: corev1.ConditionFalse, Reason: reason, Message: "404 Not\nFound"}
	}
	quota := cdi.DataVolumeCondition{Type: cdi.DataVolumeBound, Status: corev1.ConditionUnknown, Reason: "ErrExceededQuota", Message: "exceeded quota: q"}
	for _, test := range []struct {
		phase           cdi.DataVolumePhase
		conditions      []cdi.DataVolumeCondition
		status          string
		failure, starts bool
		says            string
	}{
		{phase: "", status: "Provisioning", says: "CDI has not begun"},
		{phase: cdi.Pending, status: "Provisioning"},
		{phase: cdi.ImportScheduled, status: "Provisioning"},
		{phase: cdi.ImportInProgress, status: "Provisioning", says: "ImportInProgress"},
		{phase: cdi.ImportInProgress, conditions: []cdi.DataVolumeCondition{running("Pending")}, status: "Provisioning"},
		{phase: cdi.ImportInProgress, conditions: []cdi.DataVolumeCondition{running("Error")}, status: "DataVolumeError", says: "404 Not Found"},
		{phase: cdi.ImportScheduled, conditions: []cdi.DataVolumeCondition{running("ImagePullFailed")}, status: "DataVolumeError"},
		{phase: cdi.Pending, conditions: []cdi.DataVolumeCondition{quota}, status: "DataVolumeError", failure: true, says: "exceeded quota: q"},
		{phase: cdi.Paused, status: "Provisioning"},
		{phase: cdi.UploadReady, status: "Provisioning"},
		{phase: "Somewhen", status: "Provisioning"},
		{phase: cdi.Unknown, status: "Provisioning"},
		{phase: cdi.Failed, status: "DataVolumeError", failure: true, says: "has failed"},
		{phase: cdi.Succeeded, status: "Starting", starts: true},
		{phase: cdi.WaitForFirstConsumer, status: "Starting", starts: true},
		{phase: cdi.PendingPopulation, status: "Starting", starts: true},
	} {
		t.Run(string(test.phase)+test.status, func(t *testing.T) {
			for _, strategy := range []v1.VirtualMachineRunStrategy{v1.RunStrategyAlways, v1.RunStrategyHalted} {
				c := newVolumeCluster(t, newTemplatedVM(strategy, imported("root")))
				c.reconcileRepeatedly()
				c.fill("root", test.phase, test.conditions...)
				c.reconcileRepeatedly()
				status := test.status
				if strategy == v1.RunStrategyHalted && test.starts {
					status = "Stopped"
				}
				if got := string(c.vm().Status.PrintableStatus); got != status {
					t.Errorf("%s: %s, want %s", strategy, got, status)
				}
				if started := c.vmi() != nil; started != (test.starts && strategy == v1.RunStrategyAlways) {
					t.Errorf("%s: started %t", strategy, started)
				}
				failure, ready := c.failureCondition(), conditionsOfType(c.vm(), v1.VirtualMachineReady)[0]
				if (failure != nil) != test.failure || failure != nil && failure.Reason != "FailedDataVolumeImport" || !strings.Contains(ready.Message, test.says) {
					t.Errorf("%s: failure %+v, Ready %+v", strategy, failure, ready)
				}
			}
		})
	}
}

// TestFailedImportGoesOn: a VM with a failed import starts when its owner has replaced the DataVolume.
func TestFailedImportGoesOn(t *testing.T) {
	c := newVolumeCluster(t, newTemplatedVM(v1.RunStrategyAlways, imported("root")))
	c.reconcileRepeatedly()
	c.fill("root", cdi.Failed)
	c.reconcileRepeatedly()
	if got := c.eventReasons(); !slices.Equal(got, []string{"SuccessfulDataVolumeCreate", "FailedDataVolumeImport"}) {
		t.Errorf("events %v", got)
	}
	if err := c.Delete(t.Context(), c.dataVolume("root")); err != nil {
		t.Fatal(err)
	}
	c.reconcileRepeatedly()
	c.fill("root", cdi.Succeeded)
	c.reconcileRepeatedly()
	if c.vmi() == nil || c.failureCondition() != nil {
		t.Errorf("VMI %v, failure %v", c.vmi(), c.failureCondition())
	}
}

func existing(name string, owners ...metav1.OwnerReference) *cdi.DataVolume {
	return &cdi.DataVolume{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: name, UID: "existing", OwnerReferences: owners},
		Status: cdi.DataVolumeStatus{Phase: cdi.Succeeded}}
}

func existingClaim(owners ...metav1.OwnerReference) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "root", UID: "existing", OwnerReferences: owners}}
}

func controllerReference(apiVersion, kind, name, uid string) metav1.OwnerReference {
	yes := true
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(uid), Controller: &yes}
}

// TestExistingVolumes: what users make beside a VM is used and stays theirs; what another VM uses is not used.
func TestExistingVolumes(t *testing.T) {
	own, vmKind := "11111111-aaaa", "VirtualMachine"
	vmReference := func(name, uid string) metav1.OwnerReference {
		return controllerReference("kubevirt.io/v1", vmKind, name, uid)
	}
	deleted := existing("root")
	now := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	deleted.DeletionTimestamp, deleted.Finalizers = &now, []string{"example.com/wait"}
	deletedClaim := existingClaim()
	deletedClaim.DeletionTimestamp, deletedClaim.Finalizers = &now, []string{"kubernetes.io/pvc-protection"}
	for _, test := range []struct {
		name    string
		object  client.Object
		starts  bool
		failure string
	}{
		{name: "DataVolume of a user", object: existing("root"), starts: true},
		{name: "own DataVolume", object: existing("root", vmReference("a", own)), starts: true},
		{name: "DataVolume of an earlier VM", object: existing("root", vmReference("a", "earlier"))},
		{name: "DataVolume that is deleted", object: deleted},
		{name: "DataVolume of another VM", object: existing("root", vmReference("b", "another")), failure: "VirtualMachine 'b'"},
		{name: "DataVolume that another kind controls", object: existing("root", controllerReference("example.com/v1", vmKind, "a", own)),
			failure: "VirtualMachine 'a'"},
		{name: "DataVolume of an import", object: existing("root", controllerReference("cdi.kubevirt.io/v1beta1", "DataImportCron", "c", "c")),
			failure: "DataImportCron 'c'"},
		{name: "claim of a user", object: existingClaim(), starts: true},
		{name: "own claim", object: existingClaim(vmReference("a", own)), starts: true},
		{name: "claim of something else", object: existingClaim(controllerReference("apps/v1", "StatefulSet", "s", "s")), starts: true},
		{name: "claim of another VM", object: existingClaim(vmReference("b", "another")), failure: "VirtualMachine 'b'"},
		{name: "claim of a DataVolume that is gone", object: existingClaim(controllerReference("cdi.kubevirt.io/v1beta1", "DataVolume", "root", "gone"))},
		{name: "claim that is deleted", object: deletedClaim},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newVolumeCluster(t, newTemplatedVM(v1.RunStrategyAlways, imported("root")), test.object.DeepCopyObject().(client.Object))
			before := test.object.DeepCopyObject().(client.Object)
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(before), before); err != nil {
				t.Fatal(err)
			}
			c.reconcileRepeatedly()
			after := test.object.DeepCopyObject().(client.Object)
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(after), after); err != nil || !cmp.Equal(before, after) {
				t.Errorf("the object was changed, or is gone: %v\n%s", err, cmp.Diff(before, after))
			}
			if _, claim := test.object.(*corev1.PersistentVolumeClaim); claim && c.dataVolume("root") != nil {
				t.Error("CDI would fill a claim that exists")
			}
			failure := c.failureCondition()
			if started := c.vmi() != nil; started != test.starts {
				t.Errorf("started %t, failure %v", started, failure)
			}
			wrong := failure != nil && (failure.Reason != "FailedDataVolumeCreate" || !strings.Contains(failure.Message, test.failure))
			if (failure != nil) != (test.failure != "") || wrong {
				t.Errorf("failure %+v, want '%s'", failure, test.failure)
			}
			waits := !test.starts && test.failure == ""
			if got := c.vm().Status.PrintableStatus; (got == v1.VirtualMachineStatusProvisioning) != waits {
				t.Errorf("status %s", got)
			}
			if requests := c.controller.awaitedVolumes.requestsWaitingFor(t.Context(), test.object); (len(requests) == 1) == test.starts {
				t.Errorf("an event of the object reconciles %v", requests)
			}
		})
	}
}

// allowClones lets an account create datavolumes/source in a namespace, and returns the questions.
func (c *testCluster) allowClones(account, namespace string) *[]authorizationv1.SubjectAccessReviewSpec {
	asked := &[]authorizationv1.SubjectAccessReviewSpec{}
	c.authorize = func(spec authorizationv1.SubjectAccessReviewSpec) bool {
		*asked = append(*asked, spec)
		what := spec.ResourceAttributes
		return spec.User == "system:serviceaccount:team:"+account && what.Namespace == namespace && what.Verb == "create" &&
			what.Group == "cdi.kubevirt.io" && what.Resource == "datavolumes" && what.Subresource == "source"
	}
	return asked
}

// TestClonesNeedARight: a source in another namespace is cloned only with the right of the VM's ServiceAccount.
func TestClonesNeedARight(t *testing.T) {
	snapshot := template("root", cdi.DataVolumeSource{Snapshot: &cdi.DataVolumeSourceSnapshot{Namespace: "golden", Name: "image"}})
	claimOf := func(namespace string) cdi.DataSourceSource {
		return cdi.DataSourceSource{PVC: &cdi.DataVolumeSourcePVC{Namespace: namespace, Name: "image"}}
	}
	dataSource := func(namespace, name string, source cdi.DataSourceSource) *cdi.DataSource {
		return &cdi.DataSource{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: cdi.DataSourceSpec{Source: source}}
	}
	chain := dataSource("golden", "chain", cdi.DataSourceSource{DataSource: &cdi.DataSourceRefSourceDataSource{Namespace: "secret", Name: "end"}})
	chain.Status.Source = claimOf("vault")
	populated := clonedFrom("golden", "image")
	populated.Annotations = map[string]string{cdi.AnnPrePopulated: "root", cdi.AnnCheckStaticVolume: ""}
	for _, test := range []struct {
		name     string
		template v1.DataVolumeTemplateSpec
		// namespace is where the right is needed; empty for none. Its name is in no message about a DataSource of another namespace.
		namespace string
		says      string
		source    cdi.DataVolumeSource
	}{
		{"claim", clonedFrom("golden", "image"), "golden", "PersistentVolumeClaim 'golden/image'", *clonedFrom("golden", "image").Spec.Source},
		{"claim of the namespace", clonedFrom("team", "image"), "", "", *clonedFrom("team", "image").Spec.Source},
		{"claim without a namespace", clonedFrom("", "image"), "", "", *clonedFrom("team", "image").Spec.Source},
		{"annotations for claims that are filled", populated, "golden", "PersistentVolumeClaim 'golden/image'", *populated.Spec.Source},
		{"snapshot", snapshot, "golden", "VolumeSnapshot 'golden/image'", *snapshot.Spec.Source},
		{"DataSource", fromDataSource("golden", "image"), "golden", "DataSource 'golden/image'", *clonedFrom("golden", "image").Spec.Source},
		{"DataSource of a third namespace", fromDataSource("golden", "elsewhere"), "vault", "DataSource 'golden/elsewhere'",
			*clonedFrom("vault", "image").Spec.Source},
		{"DataSource of a DataSource", fromDataSource("golden", "chain"), "vault", "DataSource 'golden/chain'", *clonedFrom("vault", "image").Spec.Source},
		{"own DataSource", fromDataSource("", "own"), "", "", *clonedFrom("team", "image").Spec.Source},
		{"own DataSource of another namespace", fromDataSource("", "to-golden"), "golden", "PersistentVolumeClaim 'golden/image'",
			*clonedFrom("golden", "image").Spec.Source},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newVolumeCluster(t, newTemplatedVM(v1.RunStrategyAlways, test.template), chain.DeepCopy(), dataSource("golden", "image", claimOf("")),
				dataSource("golden", "elsewhere", claimOf("vault")), dataSource("team", "own", claimOf("")), dataSource("team", "to-golden", claimOf("golden")))
			asked := c.allowClones("nobody", "nowhere")
			c.reconcileRepeatedly()
			if test.namespace != "" {
				c.wantRefusal("UnauthorizedDataVolumeCreate", "ServiceAccount 'team/default'", test.says, "datavolumes/source")
				if failure := c.failureCondition(); test.namespace == "vault" && strings.Contains(failure.Message, "vault") {
					t.Errorf("'%s' tells what the DataSource says", failure.Message)
				}
				for _, of := range *asked {
					groups := []string{"system:serviceaccounts", "system:serviceaccounts:team", "system:authenticated"}
					if !slices.Equal(of.Groups, groups) || of.ResourceAttributes.Name != "image" {
						t.Errorf("asked %+v about %+v", of, of.ResourceAttributes)
					}
				}
				again := c.reconcileOnce()
				if got := c.eventReasons(); len(got) > 0 || again.RequeueAfter < minRecheck || again.RequeueAfter > maxRecheck {
					t.Errorf("a refusal that lasts: events %v, the next look after %s", got, again.RequeueAfter)
				}
				c.allowClones("default", test.namespace)
				c.reconcileRepeatedly()
			} else if len(*asked) > 0 {
				t.Errorf("asked %+v", *asked)
			}
			made := c.dataVolume("root")
			if made == nil || c.failureCondition() != nil || made.Spec.SourceRef != nil {
				t.Fatalf("with the right: DataVolume %+v, failure %+v", made, c.failureCondition())
			}
			if diff := cmp.Diff(&test.source, made.Spec.Source); diff != "" {
				t.Errorf("CDI copies another source (-want +got):\n%s", diff)
			}
			c.fill("root", cdi.Succeeded)
			c.reconcileRepeatedly()
			if c.vmi() == nil {
				t.Error("no guest of the clone")
			}
		})
	}
}

// TestMissingDataSource: a DataSource of another namespace that does not exist, or leads to nothing, looks like one that must not be cloned.
func TestMissingDataSource(t *testing.T) {
	c := newVolumeCluster(t, newTemplatedVM(v1.RunStrategyAlways, fromDataSource("golden", "image")))
	c.reconcileRepeatedly()
	c.wantRefusal("UnauthorizedDataVolumeCreate")
	missing := c.failureCondition().Message
	for name, source := range map[string]cdi.DataSourceSource{"nothing": {}, "denied": {PVC: &cdi.DataVolumeSourcePVC{Name: "image"}}} {
		found := &cdi.DataSource{ObjectMeta: metav1.ObjectMeta{Namespace: "golden", Name: "image"}, Spec: cdi.DataSourceSpec{Source: source}}
		c := newVolumeCluster(t, newTemplatedVM(v1.RunStrategyAlways, fromDataSource("golden", "image")), found)
		c.reconcileRepeatedly()
		c.wantRefusal("UnauthorizedDataVolumeCreate")
		if got := c.failureCondition().Message; got != missing {
			t.Errorf("%s: '%s', want '%s'", name, got, missing)
		}
	}
	own := newVolumeCluster(t, newTemplatedVM(v1.RunStrategyAlways, fromDataSource("", "image")))
	own.reconcileRepeatedly()
	own.wantRefusal("FailedDataVolumeCreate", "DataSource 'team/image' does not exist")
}

// TestAccountOfAClone: the rights of the ServiceAccount count that the VM runs as, and none of an account that does not exist.
func TestAccountOfAClone(t *testing.T) {
	account := func(name string) *corev1.ServiceAccount {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: name}}
	}
	volume := v1.Volume{Name: "account", VolumeSource: v1.VolumeSource{ServiceAccount: &v1.ServiceAccountVolumeSource{ServiceAccountName: "mounted"}}}
	for _, test := range []struct {
		name, account string
		volumes       []v1.Volume
		allowed       string
		made          bool
	}{
		{name: "default", allowed: "default", made: true},
		{name: "the field", account: "runner", allowed: "runner", made: true},
		{name: "the volume", volumes: []v1.Volume{volume}, allowed: "mounted", made: true},
		{name: "the field before the volume", account: "runner", volumes: []v1.Volume{volume}, allowed: "mounted"},
		{name: "not default if another is named", account: "runner", allowed: "default"},
		{name: "an account that does not exist", account: "ghost", allowed: "ghost"},
		{name: "a name with a path", account: "../other", allowed: "../other"},
		{name: "a name with colons", account: "x:y", allowed: "x:y"},
	} {
		t.Run(test.name, func(t *testing.T) {
			vm := newTemplatedVM(v1.RunStrategyAlways, clonedFrom("golden", "image"))
			vm.Spec.Template.Spec.ServiceAccountName = test.account
			vm.Spec.Template.Spec.Volumes = append(vm.Spec.Template.Spec.Volumes, test.volumes...)
			c := newVolumeCluster(t, vm, account("runner"), account("mounted"))
			c.allowClones(test.allowed, "golden")
			c.reconcileRepeatedly()
			if made := c.dataVolume("root") != nil; made != test.made {
				t.Errorf("made %t, failure %+v", made, c.failureCondition())
			}
		})
	}
}

// TestRightIsAskedEachTime: a right that was revoked between two DataVolumes, and a template that was edited after admission, get nothing.
func TestRightIsAskedEachTime(t *testing.T) {
	c := newVolumeCluster(t, newTemplatedVM(v1.RunStrategyAlways, clonedFrom("golden", "image")))
	c.allowClones("default", "golden")
	c.reconcileRepeatedly()
	if err := c.Delete(t.Context(), c.dataVolume("root")); err != nil {
		t.Fatal(err)
	}
	c.eventReasons()
	c.authorize = nil
	c.reconcileRepeatedly()
	c.wantRefusal("UnauthorizedDataVolumeCreate", "'golden/image'")

	c.allowClones("default", "golden")
	vm := c.vm()
	vm.Spec.DataVolumeTemplates[0] = clonedFrom("vault", "secret")
	if err := c.Update(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	c.reconcileRepeatedly()
	c.wantRefusal("UnauthorizedDataVolumeCreate", "'vault/secret'")
}

// TestStaleTemplate: a decision about the cached VM makes no DataVolume of a template that was edited since.
func TestStaleTemplate(t *testing.T) {
	c := newVolumeCluster(t, newTemplatedVM(v1.RunStrategyHalted, imported("root")))
	c.reconcileRepeatedly()
	if err := c.Delete(t.Context(), c.dataVolume("root")); err != nil {
		t.Fatal(err)
	}
	c.freezeVMCache()
	vm := c.vm()
	vm.Spec.DataVolumeTemplates[0] = imported("other")
	if err := c.Update(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	if result := c.reconcileOnce(); result.RequeueAfter != conflictRetry || c.dataVolume("root") != nil || c.dataVolume("other") != nil {
		t.Errorf("result %+v, DataVolumes %v %v", result, c.dataVolume("root"), c.dataVolume("other"))
	}
}

// TestCrashAfterCreate: a process that died after the create, before it wrote the status, leaves one DataVolume, and another process goes on. A cache without
// the DataVolume makes no second one.
func TestCrashAfterCreate(t *testing.T) {
	c := newVolumeCluster(t, newTemplatedVM(v1.RunStrategyAlways, imported("root")))
	stale := true
	cached := c.controller.Client.(client.WithWatch)
	c.controller.Client = interceptor.NewClient(cached, interceptor.Funcs{
		Get: func(ctx context.Context, to client.WithWatch, k client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if _, is := object.(*cdi.DataVolume); is && stale {
				return apierrors.NewNotFound(cdi.Resource("datavolumes"), k.Name)
			}
			return to.Get(ctx, k, object, options...)
		},
	})
	c.reconcileOnce()
	first := c.dataVolume("root")
	for range 3 {
		if result := c.reconcileOnce(); result.RequeueAfter != cacheRetry {
			t.Errorf("result %+v", result)
		}
	}
	if got := c.eventReasons(); !slices.Equal(got, []string{"SuccessfulDataVolumeCreate"}) {
		t.Errorf("events %v", got)
	}
	if again := c.dataVolume("root"); first == nil || again.UID != first.UID || c.vmi() != nil {
		t.Errorf("%v became %v, VMI %v", first, again, c.vmi())
	}
	stale = false
	c.fill("root", cdi.Succeeded)
	c.reconcileRepeatedly()
	if c.vmi() == nil {
		t.Error("no guest")
	}
}

// TestClaimThatTheCacheLacks: CDI does not fill a claim that its owner has just created.
func TestClaimThatTheCacheLacks(t *testing.T) {
	c := newVolumeCluster(t, newTemplatedVM(v1.RunStrategyAlways, imported("root")), existingClaim())
	cached, stale := c.controller.Client.(client.WithWatch), true
	c.controller.Client = interceptor.NewClient(cached, interceptor.Funcs{
		Get: func(ctx context.Context, to client.WithWatch, k client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if _, is := object.(*metav1.PartialObjectMetadata); is && stale {
				return apierrors.NewNotFound(corev1.Resource("persistentvolumeclaims"), k.Name)
			}
			return to.Get(ctx, k, object, options...)
		},
	})
	result := c.reconcileOnce()
	for range 2 {
		result = c.reconcileOnce()
	}
	if c.dataVolume("root") != nil || c.vmi() != nil || result.RequeueAfter != cacheRetry {
		t.Errorf("DataVolume %v, VMI %v, %+v", c.dataVolume("root"), c.vmi(), result)
	}
	stale = false
	if c.reconcileRepeatedly(); c.dataVolume("root") != nil || c.vmi() == nil {
		t.Errorf("DataVolume %v, VMI %v", c.dataVolume("root"), c.vmi())
	}
}

// TestForeignDataVolumeAtCreate: somebody else makes a DataVolume of the name while this process asks for the right.
func TestForeignDataVolumeAtCreate(t *testing.T) {
	c := newVolumeCluster(t, newTemplatedVM(v1.RunStrategyAlways, clonedFrom("golden", "image")))
	c.authorize = func(authorizationv1.SubjectAccessReviewSpec) bool {
		if err := c.Create(t.Context(), existing("root", controllerReference("kubevirt.io/v1", "VirtualMachine", "b", "another"))); err != nil {
			t.Error(err)
		}
		return true
	}
	c.reconcileRepeatedly()
	if failure := c.failureCondition(); c.vmi() != nil || failure == nil || !strings.Contains(failure.Message, "VirtualMachine 'b'") {
		t.Errorf("VMI %v, failure %+v", c.vmi(), failure)
	}
}

// TestWithoutCDI: a VM with templates says that nothing fills its claims, starts when its owner has created them, and goes on when CDI is installed.
func TestWithoutCDI(t *testing.T) {
	c := newVolumeCluster(t, newTemplatedVM(v1.RunStrategyAlways, imported("root")))
	c.controller.watchesDataVolumes = false
	served := false
	unserved := func(object client.Object) error {
		if _, is := object.(*cdi.DataVolume); is && !served {
			return &meta.NoKindMatchError{GroupKind: cdi.Kind("DataVolume"), SearchedVersions: []string{"v1beta1"}}
		}
		return nil
	}
	c.controller.Live = interceptor.NewClient(c.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, to client.WithWatch, k client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if err := unserved(object); err != nil {
				return err
			}
			return to.Get(ctx, k, object, options...)
		},
	})
	c.reconcileRepeatedly()
	c.wantRefusal("FailedDataVolumeCreate", "PersistentVolumeClaim 'root'", "install Containerized Data Importer")
	if err := c.Create(t.Context(), existingClaim(controllerReference("cdi.kubevirt.io/v1beta1", "DataVolume", "root", "gone"))); err != nil {
		t.Fatal(err)
	}
	c.reconcileRepeatedly()
	if c.vmi() == nil || c.failureCondition() != nil {
		t.Errorf("VMI %v, failure %v", c.vmi(), c.failureCondition())
	}

	c = newVolumeCluster(t, newTemplatedVM(v1.RunStrategyAlways, imported("root")))
	c.controller.watchesDataVolumes = false
	if result := c.reconcileRepeatedly(); c.dataVolume("root") == nil || result.RequeueAfter != minRecheck {
		t.Errorf("CDI was installed later: DataVolume %v, the next look after %s", c.dataVolume("root"), result.RequeueAfter)
	}
	c.fill("root", cdi.Succeeded)
	c.reconcileRepeatedly()
	if c.vmi() == nil {
		t.Error("no guest")
	}
}

// TestCreateOfADataVolumeFails: what the API server or CDI's webhook answers is in the condition, and is tried again.
func TestCreateOfADataVolumeFails(t *testing.T) {
	webhook := apierrors.NewInternalError(fmt.Errorf(
		`failed calling webhook "datavolume-mutate.cdi.kubevirt.io": failed to call webhook: Post "https://cdi-api.cdi.svc:443": connection refused`))
	for _, refused := range []error{
		apierrors.NewForbidden(cdi.Resource("datavolumes"), "root", fmt.Errorf("exceeded quota: q")), webhook,
	} {
		c := newVolumeCluster(t, newTemplatedVM(v1.RunStrategyAlways, imported("root")))
		failing := refused
		c.controller.Client = interceptor.NewClient(c.controller.Client.(client.WithWatch), interceptor.Funcs{
			Create: func(ctx context.Context, to client.WithWatch, object client.Object, options ...client.CreateOption) error {
				if _, is := object.(*cdi.DataVolume); is && failing != nil {
					return failing
				}
				return to.Create(ctx, object, options...)
			},
		})
		c.reconcileRepeatedly()
		c.wantRefusal("FailedDataVolumeCreate", "DataVolume 'root'", refused.Error()[len(refused.Error())-15:])
		failing = nil
		c.reconcileRepeatedly()
		if c.dataVolume("root") == nil || c.failureCondition() != nil {
			t.Errorf("DataVolume %v, failure %v", c.dataVolume("root"), c.failureCondition())
		}
	}
}

// TestHostileTemplates: names and sources that admission would refuse, from a VM that was stored without it.
func TestHostileTemplates(t *testing.T) {
	both, two, image := fromDataSource("golden", "image"), clonedFrom("golden", "image"), fromDataSource("golden", "image")
	both.Spec.Source = &cdi.DataVolumeSource{Blank: &cdi.DataVolumeBlankImage{}}
	two.Spec.Source.Snapshot = &cdi.DataVolumeSourceSnapshot{Namespace: "vault", Name: "secret"}
	image.Spec.SourceRef.Kind = "Secret"
	named := func(name string) v1.DataVolumeTemplateSpec {
		of := imported("x")
		of.Name = name
		return of
	}
	for _, test := range []struct {
		template v1.DataVolumeTemplateSpec
		reason   string
		says     string
	}{
		{named("../../api/v1/secrets"), "FailedDataVolumeCreate", "spec.dataVolumeTemplates[0].metadata.name"},
		{named(""), "FailedDataVolumeCreate", "spec.dataVolumeTemplates[0].metadata.name"},
		{named(strings.Repeat("a", 1<<16)), "FailedDataVolumeCreate", "must be no more than 253"},
		{named("a\nb"), "FailedDataVolumeCreate", "spec.dataVolumeTemplates[0].metadata.name"},
		{both, "FailedDataVolumeCreate", "source and sourceRef"},
		{two, "FailedDataVolumeCreate", "pvc and snapshot"},
		{image, "FailedDataVolumeCreate", "sourceRef of kind 'Secret'"},
		{clonedFrom("golden/x", "image"), "FailedDataVolumeCreate", "no object can have this name"},
		{clonedFrom("golden", "image/../x"), "FailedDataVolumeCreate", "no object can have this name"},
		{fromDataSource("golden", "a/b"), "UnauthorizedDataVolumeCreate", "DataSource 'golden/a/b'"},
		{fromDataSource("golden", strings.Repeat("a", 1<<16)), "UnauthorizedDataVolumeCreate", "DataSource 'golden/aaa"},
	} {
		c := newVolumeCluster(t, newTemplatedVM(v1.RunStrategyAlways, test.template))
		c.authorize = func(authorizationv1.SubjectAccessReviewSpec) bool { return true }
		c.reconcileRepeatedly()
		c.wantRefusal(test.reason, test.says)
		if failure := c.failureCondition(); failure != nil && (len(failure.Message) > 2048 || strings.Contains(failure.Message, "\n")) {
			t.Errorf("a message of %d bytes: %.200q", len(failure.Message), failure.Message)
		}
	}
}

// TestNoDataVolumesAreMade: beside a restore, on bare machines, of VMs that are deleted, and by KubeVirt's annotation.
func TestNoDataVolumesAreMade(t *testing.T) {
	restoring := newTemplatedVM(v1.RunStrategyHalted, imported("root"))
	restoring.Status.RestoreInProgress = new("restore")
	late := newTemplatedVM(v1.RunStrategyHalted, imported("root"))
	late.Annotations = map[string]string{v1.ImmediateDataVolumeCreation: "false"}
	deleted := newTemplatedVM(v1.RunStrategyAlways, imported("root"))
	now := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	deleted.DeletionTimestamp, deleted.Finalizers = &now, []string{"example.com/wait"}
	for _, vm := range []*v1.VirtualMachine{restoring, late, deleted} {
		c := newVolumeCluster(t, vm)
		c.reconcileRepeatedly()
		if c.dataVolume("root") != nil || c.failureCondition() != nil {
			t.Errorf("%v: DataVolume %v, failure %v", vm.Annotations, c.dataVolume("root"), c.failureCondition())
		}
	}
	c := newVolumeCluster(t, late.DeepCopy())
	c.setRunStrategy(v1.RunStrategyAlways)
	c.reconcileRepeatedly()
	if c.dataVolume("root") == nil {
		t.Error("a VM that starts has no DataVolume")
	}
	c = newVolumeCluster(t, newTemplatedVM(v1.RunStrategyAlways, imported("root")))
	c.controller.MakesDataVolumes = false
	c.reconcileRepeatedly()
	if c.dataVolume("root") != nil || c.vmi() == nil {
		t.Error("on a bare machine: a DataVolume, or no VMI")
	}
}

// TestPreferredStorageClass: a DataVolume gets the storage class of the preference, and waits for a preference that does not exist yet.
func TestPreferredStorageClass(t *testing.T) {
	vm := newTemplatedVM(v1.RunStrategyAlways, imported("root"))
	vm.Spec.Preference = &v1.PreferenceMatcher{Name: "fast", Kind: "VirtualMachineClusterPreference"}
	c := newVolumeCluster(t, vm)
	c.reconcileRepeatedly()
	if c.dataVolume("root") != nil {
		t.Error("made without the storage class of the preference")
	}
	preference := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": "VirtualMachineClusterPreference", "metadata": map[string]any{"name": "fast"},
		"spec": map[string]any{"volumes": map[string]any{"preferredStorageClassName": "nvme"}},
	}}
	if err := c.Create(t.Context(), preference); err != nil {
		t.Fatal(err)
	}
	c.reconcileRepeatedly()
	if made := c.dataVolume("root"); made == nil || made.Spec.Storage.StorageClassName == nil || *made.Spec.Storage.StorageClassName != "nvme" {
		t.Errorf("DataVolume %+v", made)
	}
	if c.vm().Spec.DataVolumeTemplates[0].Spec.Storage.StorageClassName != nil {
		t.Error("the spec of the VM was changed")
	}
}

// TestInferenceFromItsOwnImport: a VM whose instancetype comes from the labels of its DataVolume gets the DataVolume before it is pinned.
func TestInferenceFromItsOwnImport(t *testing.T) {
	vm := newTemplatedVM(v1.RunStrategyAlways, template("root", cdi.DataVolumeSource{Registry: &cdi.DataVolumeSourceRegistry{}}))
	vm.Spec.Instancetype = &v1.InstancetypeMatcher{InferFromVolume: "root"}
	vm.Spec.Preference = &v1.PreferenceMatcher{InferFromVolume: "root"}
	c := newVolumeCluster(t, vm)
	c.reconcileRepeatedly()
	if c.dataVolume("root") == nil || c.vmi() != nil {
		t.Errorf("DataVolume %v, VMI %v: the labels would never come", c.dataVolume("root"), c.vmi())
	}
}

// TestEventsOfDataVolumes: the progress of an import, which changes each second, reconciles nothing.
func TestEventsOfDataVolumes(t *testing.T) {
	slim := func(change func(*cdi.DataVolume)) *cdi.DataVolume {
		volume := existing("root", controllerReference("kubevirt.io/v1", "VirtualMachine", "a", "a"))
		volume.Status = cdi.DataVolumeStatus{Phase: cdi.ImportInProgress, Progress: "1%",
			Conditions: []cdi.DataVolumeCondition{{Type: cdi.DataVolumeRunning, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}}}
		change(volume)
		if _, err := command.Slim(volume); err != nil {
			t.Fatal(err)
		}
		return volume
	}
	was := slim(func(*cdi.DataVolume) {})
	for name, test := range map[string]struct {
		change func(*cdi.DataVolume)
		want   bool
	}{
		"progress":  {func(v *cdi.DataVolume) { v.Status.Progress = "2%" }, false},
		"heartbeat": {func(v *cdi.DataVolume) { v.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(time.Unix(1, 0)) }, false},
		"labels":    {func(v *cdi.DataVolume) { v.Labels = map[string]string{"a": "b"} }, false},
		"phase":     {func(v *cdi.DataVolume) { v.Status.Phase = cdi.Succeeded }, true},
		"condition": {func(v *cdi.DataVolume) { v.Status.Conditions[0].Status = corev1.ConditionFalse }, true},
		"owner":     {func(v *cdi.DataVolume) { v.OwnerReferences = nil }, true},
		"deleted":   {func(v *cdi.DataVolume) { v.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, true},
	} {
		if got := fillingChanged.Update(event.UpdateEvent{ObjectOld: was, ObjectNew: slim(test.change)}); got != test.want {
			t.Errorf("%s reconciles: %t", name, got)
		}
	}
}
