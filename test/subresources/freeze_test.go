package subresources

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/certs"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/internal/launcherserver"
	"github.com/kilnvm/kiln/pkg/pod"
	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/poll"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
)

// storage serves VolumeSnapshots, whose driver need not run, and has a claim.
const storage = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: volumesnapshots.snapshot.storage.k8s.io
  annotations: {api-approved.kubernetes.io: "unapproved, test"}
spec:
  group: snapshot.storage.k8s.io
  scope: Namespaced
  names: {kind: VolumeSnapshot, plural: volumesnapshots, singular: volumesnapshot}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: volumesnapshotclasses.snapshot.storage.k8s.io
  annotations: {api-approved.kubernetes.io: "unapproved, test"}
spec:
  group: snapshot.storage.k8s.io
  scope: Cluster
  names: {kind: VolumeSnapshotClass, plural: volumesnapshotclasses, singular: volumesnapshotclass}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: csi}
provisioner: csi.example.com
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: root}
spec: {storageClassName: csi, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
`

// guest is what a stand-in of a launcher asks, with an agent that may refuse.
type guest struct {
	mutex   sync.Mutex
	did     []string
	refuses error
	counted hypervisor.Statistics
}

func (g *guest) note(what string, err error) error {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.did = append(g.did, what)
	return err
}

func (g *guest) noted() []string {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return slices.Clone(g.did)
}

func (g *guest) Freeze(context.Context, hypervisor.Owner) error  { return g.note("freeze", g.refuses) }
func (g *guest) Thaw(context.Context, hypervisor.Owner) error    { return g.note("thaw", nil) }
func (g *guest) Suspend(context.Context, hypervisor.Owner) error { return nil }
func (g *guest) Resume(context.Context, hypervisor.Owner) error  { return nil }
func (g *guest) Reset(context.Context, hypervisor.Owner) error   { return nil }
func (g *guest) Reboot(context.Context, hypervisor.Owner) error  { return nil }
func (g *guest) Agent(context.Context, hypervisor.Owner) (hypervisor.AgentAnswers, error) {
	return hypervisor.AgentAnswers{}, errors.New("not asked")
}

func (g *guest) Statistics(context.Context, hypervisor.Owner) (hypervisor.Statistics, error) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.counted, nil
}

// launch has a launcher serve the guest of a VMI at an address of this machine, and introduces it.
func (s space) launch(vmi *v1.VirtualMachineInstance, of *guest, address string) {
	s.Helper()
	authorities, err := base64.StdEncoding.DecodeString(s.kubectl("", "get", "secret", "--namespace", shared.Namespace, certs.APIServerSecret, "-o",
		`jsonpath={.data.ca\.crt}`))
	if err != nil {
		s.Fatal(err)
	}
	clients := &v1alpha1.GuestPodClients{Authorities: string(authorities), Name: certs.APIServerHost(shared.Namespace)}
	server, err := launcherserver.New(of, func() *v1alpha1.GuestPodClients { return clients })
	if err != nil {
		s.Fatal(err)
	}
	server.Serve(launcherserver.Guest{Owner: hypervisor.Owner{UID: vmi.UID}})
	var listener net.Listener
	// The launchers of internal/guest's tests may run on this machine at the same time. Each has the port at all addresses until its guest ends.
	if !poll.Until(5*time.Minute, func() bool {
		listener, err = net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(v1alpha1.LauncherPort)))
		return err == nil
	}) {
		s.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { _ = server.Run(ctx, listener) })
	s.Cleanup(func() { end(); work.Wait() })
	s.introduce(vmi, address, server.Certificate())
}

// introduce says where the launcher of a VMI serves and with which certificate, as Kiln's controller, kubelet and the launcher do.
func (s space) introduce(vmi *v1.VirtualMachineInstance, address, certificate string) {
	s.Helper()
	const controller = "--as=system:serviceaccount:kiln-system:kiln-controller"
	name := pod.Name(vmi.Name)
	s.kubectl(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: {kubevirt.io: virt-launcher}},
		spec: {containers: [{name: a, image: a.example/a}]}}`, name), "create",
		"-f", "-", controller)
	s.kubectl("", "patch", "pod", name, "--subresource=status", "--type=merge", fmt.Sprintf(`-p={"status":{"phase":"Running","podIP":%q,"podIPs":[{"ip":%q}]}}`,
		address, address))
	uid := read[corev1.Pod](s, "pod", name).UID
	s.kubectl(fmt.Sprintf(`{apiVersion: kilnvm.io/v1alpha1, kind: GuestPod, metadata: {name: %s}, spec: {vmiUID: %s, podUID: %s, clusterUID: cluster,
		nodeName: node}}`,
		vmi.Name, vmi.UID, uid), "create", "-f", "-", controller)
	s.report(vmi.Name, uid, certificate)
}

// report writes the status of a GuestPod with the token of its pod.
func (s space) report(name string, pod types.UID, certificate string) {
	s.Helper()
	access, err := clientcmd.BuildConfigFromFlags("", shared.Kubeconfig)
	if err != nil {
		s.Fatal(err)
	}
	access.Impersonate.UserName, access.Impersonate.Groups = "launcher", []string{"system:masters"}
	access.Impersonate.Extra = map[string][]string{"authentication.kubernetes.io/pod-uid": {string(pod)}}
	client, err := dynamic.NewForConfig(access)
	if err == nil {
		_, err = client.Resource(v1alpha1.GroupVersion.WithResource("guestpods")).Namespace(s.name).Patch(s.Context(), name, types.MergePatchType,
			fmt.Appendf(nil, `{"status":{"serverCertificate":%q}}`, certificate), metav1.PatchOptions{}, "status")
	}
	if err != nil {
		s.Fatal(err)
	}
}

// taken takes a snapshot, and plays its driver. It returns condition Quiesced and the indications.
func (s space) taken(name string) (quiesced, indications string) {
	s.Helper()
	s.kubectl(fmt.Sprintf(`{apiVersion: snapshot.kubevirt.io/v1beta1, kind: VirtualMachineSnapshot, metadata: {name: %s}, spec: {source: {apiGroup: kubevirt.io,
		kind: VirtualMachine, name: web}}}`, name), "create", "-f", "-")
	of := &api.VirtualMachineSnapshot{}
	s.eventually("snapshot "+name+" is taken", func() bool {
		for volume := range strings.FieldsSeq(s.kubectl("", "get", "volumesnapshots.snapshot.storage.k8s.io", "-o", "name")) {
			s.kubectl("", "patch", volume, "--type=merge", `-p={"status":{"readyToUse":true,"creationTime":"2026-01-01T00:00:00Z"}}`)
		}
		of = read[api.VirtualMachineSnapshot](s, "vmsnapshot", name)
		return of.Status != nil && of.Status.Phase == api.Succeeded
	})
	for _, condition := range of.Status.Conditions {
		if string(condition.Type) == v1alpha1.ConditionQuiesced {
			quiesced = fmt.Sprintf("%s %s: %s", condition.Status, condition.Reason, condition.Message)
		}
	}
	for _, indication := range of.Status.SourceIndications {
		indications += string(indication.Indication) + " "
	}
	return quiesced, indications
}

// TestSnapshotsFreezeGuests: Kiln's controller freezes the guest of a snapshot by Kubernetes' API server, Kiln's and the launcher, with its own rights. One
// that cannot be asked, or refuses, is snapshotted all the same, and the snapshot says why.
func TestSnapshotsFreezeGuests(t *testing.T) {
	s := newSpace(t)
	s.kubectl(storage, "apply", "--server-side", "-f", "-")
	const group = ".snapshot.storage.k8s.io"
	if err := cluster.Established(t.Context(), shared.Kubeconfig, "volumesnapshots"+group, "volumesnapshotclasses"+group); err != nil {
		t.Fatal(err)
	}
	s.eventually("the class is served", func() bool {
		const class = "{apiVersion: snapshot.storage.k8s.io/v1, kind: VolumeSnapshotClass, metadata: {name: csi}, driver: csi.example.com}"
		_, _, err := shared.Kubectl(t.Context(), class, "apply", "--server-side", "-f", "-")
		return err == nil
	})
	s.kubectl("", "patch", "pvc", "root", "--subresource=status", "--type=merge", `-p={"status":{"phase":"Bound"}}`)
	s.make("web", v1.RunStrategyAlways)
	s.kubectl("", "patch", "vm", "web", "--type=merge",
		`-p={"spec":{"template":{"spec":{"volumes":[{"name":"data","persistentVolumeClaim":{"claimName":"root"}}]}}}}`)
	vmi := s.vmi("web", nil)
	for _, test := range []struct {
		name             string
		launcher         *guest
		conditions       []v1.VirtualMachineInstanceConditionType
		quiesced, did    string
		indications, why string
	}{
		{"mute", nil, nil, "False NoGuestAgent: VirtualMachineInstance 'web' has no condition AgentConnected", "", "Online NoGuestAgent ", "no agent"},
		{"alone", nil, []v1.VirtualMachineInstanceConditionType{v1.VirtualMachineInstanceAgentConnected}, "the guest does not run in a pod of Kiln's", "",
			"Online NoGuestAgent ", "no launcher"},
		{"quiet", &guest{}, []v1.VirtualMachineInstanceConditionType{v1.VirtualMachineInstanceAgentConnected},
			"True Thawed: the guest was frozen while its volumes were snapshotted", "freeze thaw", "Online GuestAgent ", "an agent"},
	} {
		s.phase("web", v1.Running, test.conditions...)
		if test.launcher != nil {
			s.launch(vmi, test.launcher, "127.0.0.58")
		}
		quiesced, indications := s.taken(test.name)
		if !strings.Contains(quiesced, test.quiesced) || indications != test.indications {
			t.Errorf("%s: '%s', %s", test.why, quiesced, indications)
		}
		if test.launcher == nil {
			continue
		}
		if did := strings.Join(test.launcher.noted(), " "); did != test.did {
			t.Errorf("%s: the guest did '%s'", test.why, did)
		}
		test.launcher.mutex.Lock()
		test.launcher.refuses = errors.New("fsfreeze is not supported by this guest")
		test.launcher.mutex.Unlock()
		if quiesced, indications := s.taken("refused"); !strings.Contains(quiesced, "fsfreeze is not supported by this guest") ||
			!strings.HasPrefix(quiesced, "False FreezeFailed: ") || indications != "Online NoGuestAgent " {
			t.Errorf("refused: '%s', %s", quiesced, indications)
		}
	}
	// The rights are these two.
	as := s
	as.user = "system:serviceaccount:kiln-system:kiln-controller"
	as.expect(http.MethodPut, "vmi/web/pause", "", 403, "cannot update resource")
}
