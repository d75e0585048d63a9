package admission

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/tidwall/gjson"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clone "kubevirt.io/api/clone/v1beta1"
	v1 "kubevirt.io/api/core/v1"
)

// quota bounds the objects of one kind in one namespace, and their bytes unless bytes is 0. Webhook and controller keep all of them in memory, and judge the
// profiles and presets of a namespace together. Without a ResourceQuota of an administrator Kubernetes bounds neither their number nor their bytes: one tenant
// could end both processes.
type quota struct{ objects, bytes int }

// quotas are the quotas of the kinds that tenants write and caches keep. KubeVirt's catalog has about 200 objects of 1 KiB.
var quotas = map[string]quota{
	v1alpha1.KindGuestProfile:                            {256, 2 << 20}, // as many may select one VM
	v1.VirtualMachineInstancePresetGroupVersionKind.Kind: {256, 2 << 20},
	v1alpha1.KindGuestPolicyException:                    {1000, 4 << 20},
	instancetype.Kinds.Namespaced:                        {1000, 4 << 20},
	instancetype.PreferenceKinds.Namespaced:              {1000, 4 << 20},
	// The controller's cache has only the metadata of these kinds (command.Slim), so that their number bounds their bytes. Kiln does not delete objects of
	// these kinds that have ended.
	"VirtualMachineSnapshot":           {objects: 2000},
	"VirtualMachineRestore":            {objects: 1000},
	clone.VirtualMachineCloneKind.Kind: {objects: 1000},
}

// revisionQuota is the quota of the revisions to which the VMs of a namespace are pinned. VMs share them. Unused revisions are deleted after a while; until
// then each edit of an instancetype may add a revision.
var revisionQuota = quota{2000, 16 << 20}

// withinQuota refuses an object that is new or grows if its namespace would exceed its quota. Objects that exist stay, and may become smaller. Simultaneous
// requests do not see each other's objects, so that a namespace may exceed its quota by a few objects.
func (s *Server) withinQuota(handle handler) handler {
	return func(ctx context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
		given, err := handle(ctx, request)
		if err == nil {
			err = s.judgeQuota(ctx, request)
		}
		return given, err
	}
}

// withinCount is withinQuota for kinds that the webhook does not cache. It admits what the controller creates: a snapshot and a restore for each clone, which
// the controller deletes when the clone is complete.
func (s *Server) withinCount(handle handler) handler {
	return func(ctx context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
		given, err := handle(ctx, request)
		if err != nil || request.Operation != admissionv1.Create || s.isRestorer(request) {
			return given, err
		}
		kind := schema.GroupVersionKind(request.Kind)
		have, err := countObjects(ctx, s.Reviewer.Resolver.Live, kind, request.Namespace)
		if err != nil {
			return given, err
		}
		return given, quotas[kind.Kind].checkUsage(usage{objects: have + 1}, kind.Kind+"s", request.Namespace, "delete those that nobody needs")
	}
}

func (s *Server) judgeQuota(ctx context.Context, request *admissionv1.AdmissionRequest) error {
	most, has := quotas[request.Kind.Kind]
	size := cachedBytes(request.Object.Raw)
	if !has || request.Namespace == "" || request.Operation == admissionv1.Update && size <= cachedBytes(request.OldObject.Raw) {
		return nil
	}
	have, err := cachedUsage(ctx, s.Reviewer.Resolver, request.Kind.Kind, request.Namespace, request.Name)
	if err != nil {
		return err
	}
	have.objects, have.bytes = have.objects+1, have.bytes+size
	if request.Operation == admissionv1.Update { // the number of objects stays
		have.objects = 0
	}
	return most.checkUsage(have, request.Kind.Kind+"s", request.Namespace, "delete those that no VM needs")
}

// judgeRevisions judges the revisions that a request would add to a namespace.
func (s *Server) judgeRevisions(ctx context.Context, drafts []revision.Draft) error {
	if len(drafts) == 0 || s.Reviewer.Resolver.Cached == nil {
		return nil
	}
	have, err := revisionUsage(ctx, s.Reviewer.Resolver.Cached, drafts)
	if err != nil {
		return err
	}
	return revisionQuota.checkUsage(have, "ControllerRevisions of instancetypes, preferences, presets and profiles", drafts[0].Namespace,
		"delete VMs and snapshots that use old ones, or wait until unused ones are deleted")
}

// checkUsage returns a *resolve.Refusal if a namespace would have too much of something.
func (q quota) checkUsage(have usage, what, namespace, remedy string) error {
	unit, has, most := "objects", have.objects, q.objects
	if have.objects <= q.objects {
		unit, has, most = "bytes", have.bytes, q.bytes
	}
	if has <= most || most == 0 {
		return nil
	}
	return &resolve.Refusal{Errors: field.ErrorList{field.Forbidden(field.NewPath("metadata", "namespace"), fmt.Sprintf(
		"namespace '%s' would have %d %s in its %s, at most %d are allowed: %s", namespace, has, unit, what, most, remedy)).WithOrigin("request/quota")}}
}

// cachedBytes returns the size of what caches keep of an object: its spec, labels and annotations.
func cachedBytes(raw []byte) int {
	parsed := gjson.ParseBytes(raw)
	return len(parsed.Get("spec").Raw) + len(parsed.Get("metadata.labels").Raw) + len(parsed.Get("metadata.annotations").Raw)
}
