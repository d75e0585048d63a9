package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/inuse"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/shorten"
	"github.com/kilnvm/kiln/pkg/validate"
	"github.com/tidwall/gjson"
	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// deletionTime bounds the answer to a deletion, and countingTime the counting in it: the rest is for the names. The webhook's timeoutSeconds is 2.
	deletionTime = time.Second
	countingTime = 800 * time.Millisecond
	// mostCounting is the number of counts at a time. One count has up to 50 VMs in memory, which may have a megabyte each.
	mostCounting = 1
)

// cleaners delete what nobody needs any more: the objects of a namespace that is deleted, and objects without their owner. They are never refused.
var cleaners = []string{
	"system:serviceaccount:kube-system:namespace-controller", "system:serviceaccount:kube-system:generic-garbage-collector", "system:kube-controller-manager",
}

func newCounting() *semaphore.Weighted { return semaphore.NewWeighted(mostCounting) }

// deletion is an object that is about to be deleted.
type deletion struct {
	revision.Object
	raw []byte
	// kept reports that the object is kept while VMs use it.
	kept bool
}

// readDeletion returns the object of a request. Of a collection, the request has no name.
func readDeletion(request *admissionv1.AdmissionRequest) deletion {
	of := gjson.GetManyBytes(request.OldObject.Raw, "metadata.name", "metadata.labels."+gjson.Escape(v1alpha1.LabelKeepWhileUsed))
	return deletion{
		Object: revision.Object{Kind: request.Kind.Kind, Namespace: request.Namespace, Name: of[0].Str},
		raw:    request.OldObject.Raw, kept: of[1].Str == "true",
	}
}

// String returns kind and name, as messages contain them.
func (d deletion) String() string {
	const longest = 63
	return fmt.Sprintf("%s '%s'", d.Kind, shorten.Runes(d.Name, longest))
}

// deletions judges deletions for a server.
type deletions struct{ server *Server }

// validateDeletion warns about the deletion of an instancetype, preference, profile or policy that VMs use. It refuses the deletion if the object has the label
// kilnvm.io/keep-while-used, and VMs use it or may use it.
func (d deletions) validateDeletion(ctx context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
	if request.Operation != admissionv1.Delete || slices.Contains(cleaners, request.UserInfo.Username) || d.isGoing(ctx, request) {
		return answer{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, deletionTime)
	defer cancel()
	of := readDeletion(request)
	users, err := d.countUsers(ctx, of)
	if users.CountAll() == 0 {
		return of.answerUnused(err == nil)
	}
	return of.answerUsed(d.sayUsers(ctx, request, of, users, err == nil), users.DescribeRemoval(of.Kind))
}

// answerUsed answers with the sentence who uses the object, and with what becomes of them.
func (d deletion) answerUsed(used, removal string) (answer, error) {
	if d.kept {
		return answer{}, refuseDeletion("%s; without the object, %s; delete these VMs first, or remove this label", used, removal)
	}
	return answer{warnings: []string{used, "after the deletion of " + d.String() + ": " + removal}}, nil
}

// answerUnused answers if no VM was found that uses the object; counted reports that all VMs were read.
func (d deletion) answerUnused(counted bool) (answer, error) {
	switch {
	case counted:
		return answer{}, nil
	case d.kept:
		return answer{}, refuseDeletion("it could not be counted in time how many VMs use %s: try again, or remove this label", d)
	}
	return answer{warnings: []string{fmt.Sprintf("it could not be counted how many VMs use %s", d)}}, nil
}

// refuseDeletion returns the refusal of a deletion.
func refuseDeletion(format string, args ...any) error {
	at := field.NewPath("metadata", "labels").Key(v1alpha1.LabelKeepWhileUsed)
	return &resolve.Refusal{Errors: field.ErrorList{field.Forbidden(at, fmt.Sprintf(format, args...)).WithOrigin("deletion/kept")}}
}

// isGoing reports whether the object is being deleted already, or its namespace is.
func (d deletions) isGoing(ctx context.Context, request *admissionv1.AdmissionRequest) bool {
	if gjson.GetBytes(request.OldObject.Raw, "metadata.deletionTimestamp").Str != "" {
		return true
	}
	if request.Namespace == "" {
		return false
	}
	namespace, err := d.server.Reviewer.Resolver.Namespace(ctx, request.Namespace)
	return err == nil && namespace.DeletionTimestamp != nil
}

// errTooLarge is the error for an object that is older than the bounds of objects.
var errTooLarge = errors.New("the object is too large")

// countUsers returns the VMs that use an object. With an error, which it logs, there may be more.
func (d deletions) countUsers(ctx context.Context, of deletion) (*inuse.Users, error) {
	users, err := d.findUsers(ctx, of)
	if err != nil {
		log.FromContext(ctx).Info("counting the VMs that use an object failed", "kind", of.Kind, "namespace", of.Namespace, "name", of.Name, "reason", err.Error())
	}
	return users, err
}

func (d deletions) findUsers(ctx context.Context, of deletion) (*inuse.Users, error) {
	if validate.StoredCounts(of.raw) != nil {
		return &inuse.Users{}, errTooLarge
	}
	ctx, cancel := context.WithTimeout(ctx, countingTime)
	defer cancel()
	if err := d.server.counting.Acquire(ctx, 1); err != nil {
		return &inuse.Users{}, fmt.Errorf("other deletions are counted: %w", err)
	}
	defer d.server.counting.Release(1)
	return inuse.FindUsers(ctx, d.server.Reviewer.Resolver, of.Object, of.raw)
}

// sayUsers returns a sentence with the number of VMs, and the names of the first VMs that the author of the request may see.
func (d deletions) sayUsers(ctx context.Context, request *admissionv1.AdmissionRequest, of deletion, users *inuse.Users, complete bool) string {
	text := fmt.Sprintf("%s is used by %s", of, inuse.CountVMs(users.CountAll()))
	if !complete {
		text = fmt.Sprintf("%s is used by at least %s", of, inuse.CountVMs(users.CountAll()))
	}
	return appendNames(text, d.visibleNames(ctx, request.UserInfo, users), users.CountAll())
}

// appendNames appends as many names to a text as fit into a warning, and the number of the others.
func appendNames(text string, names []string, all int) string {
	const reserve = len(" and 1000000 more")
	named := 0
	for _, name := range names {
		separator := ", "
		if named == 0 {
			separator = ": "
		}
		if len(text)+len(separator)+len(name)+reserve > mostOfWarning {
			break
		}
		text, named = text+separator+name, named+1
	}
	if more := all - named; named > 0 && more > 0 {
		return strings.Join([]string{text, fmt.Sprintf("%d more", more)}, " and ")
	}
	return text
}
