// Package audit finds what is stored in a cluster, or in a dump of one, and would be refused by Kiln: by which rule, on which requests, and whether KubeVirt
// refuses it as well.
package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/validate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Audit is the result of an audit. Its lists are sorted.
type Audit struct {
	// Judged is the number of objects that were judged, by kind. VMIs that VMs have created are not judged, because their VMs are.
	Judged map[string]int `json:"judged"`
	// KubeVirt is the version of KubeVirt whose rules and defaults apply, such as v1.8; empty if Kiln runs the guests.
	KubeVirt string `json:"kubeVirt,omitempty"`
	// Rules are the rules that refuse an object, with what they refuse.
	Rules []Rule `json:"rules"`
	// Objects are the objects that would be refused.
	Objects []Object `json:"objects"`
	// Incomplete are the VMs that refer to an instancetype or preference that does not exist, or that the dump does not have. The rules that need it did not
	// judge them.
	Incomplete []string `json:"incomplete"`
	// Namespaces are the namespaces in which Kiln does not refuse everything that it refuses elsewhere.
	Namespaces []Namespace `json:"namespaces"`
	// Unjudged are the objects, files and kinds that could not be read or judged.
	Unjudged []Unjudged `json:"unjudged"`
	Warnings []string   `json:"warnings"`
}

// Requests by which an object is refused. A change is an update of the spec: Kiln does not judge an update that changes only metadata. A start is the VMI that
// a controller creates for the VM.
const (
	OnCreate = "create"
	OnChange = "change"
	OnStart  = "start"
)

// Rule is a rule that refuses objects.
type Rule struct {
	Rule string `json:"rule"`
	// Objects is the number of objects, and Refuses the number of them by request.
	Objects int            `json:"objects"`
	Refuses map[string]int `json:"refuses"`
	// KubeVirt is what KubeVirt does with such objects.
	KubeVirt validate.KubeVirtVerdict `json:"kubevirt"`
	// Example is one of the objects, and Field and Message are its cause. The message says what is allowed.
	Example string `json:"example"`
	Field   string `json:"field"`
	Message string `json:"message"`
}

// Object is an object that would be refused.
type Object struct {
	Kind      string    `json:"kind"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	Findings  []Finding `json:"findings"`
	// More is the number of findings that are left out.
	More int `json:"more,omitempty"`
}

// Finding is a reason for which an object is refused.
type Finding struct {
	Rule    string `json:"rule"`
	Field   string `json:"field"`
	Message string `json:"message"`
	// Refuses are the requests that are refused.
	Refuses  []string                 `json:"refuses"`
	KubeVirt validate.KubeVirtVerdict `json:"kubevirt"`
	// File and Line are the position of the field in a dump.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

// Namespace is a namespace with the label kilnvm.io/admission.
type Namespace struct {
	Name      string `json:"name"`
	Admission string `json:"admission"`
}

// Unjudged is an object, a file or a kind that could not be read or judged.
type Unjudged struct {
	// What is a kind, a kind with namespace and name, or a file.
	What   string `json:"what"`
	Reason string `json:"reason"`
}

// kinds are the kinds that are judged, in the order in which a cluster is read. VMs are last: the settings are then known to be readable.
var kinds = []schema.GroupVersionKind{
	v1beta1.SchemeGroupVersion.WithKind(instancetype.Kinds.Cluster), v1beta1.SchemeGroupVersion.WithKind(instancetype.Kinds.Namespaced),
	v1beta1.SchemeGroupVersion.WithKind(instancetype.PreferenceKinds.Cluster), v1beta1.SchemeGroupVersion.WithKind(instancetype.PreferenceKinds.Namespaced),
	v1.VirtualMachineInstancePresetGroupVersionKind, v1.VirtualMachineInstanceGroupVersionKind, v1.VirtualMachineGroupVersionKind,
}

// OfCluster audits a namespace, or all namespaces and what belongs to none if it is empty. It only reads. It needs none of Kiln's kinds. A kind that the user
// may not read becomes an Unjudged. Objects are read in pages, and what they refer to only once.
func OfCluster(ctx context.Context, b *workbench.Bench, cluster client.Reader, namespace string) (*Audit, error) {
	reader := objects.Served{Reader: objects.Remember(cluster)}
	a := newAuditor(b, manifest.Inputs{Reader: reader, OfCluster: true})
	if err := a.readSettings(ctx); err != nil {
		return a.sortedAudit(), err
	}
	served := false
	for _, kind := range kinds {
		if namespace != "" && manifest.ClusterKinds[kind.Kind] {
			continue
		}
		err := manifest.EachPage(ctx, cluster, kind, namespace, func(page []manifest.Object) error { return a.judgePage(ctx, page) })
		switch {
		case meta.IsNoMatchError(err):
			continue
		case apierrors.IsForbidden(err):
			a.Unjudged = append(a.Unjudged, Unjudged{kind.Kind, err.Error()})
		case err != nil:
			return a.sortedAudit(), err
		}
		served = true
	}
	if !served {
		return a.sortedAudit(), errors.New("the cluster serves no VirtualMachines: it has no KubeVirt")
	}
	return a.sortedAudit(), a.readNamespaces(ctx, cluster, namespace)
}

// OfDump audits the objects of files.
func OfDump(ctx context.Context, b *workbench.Bench, dump *manifest.Dump) (*Audit, error) {
	a := newAuditor(b, dump.Inputs)
	if n := dump.NoObjects; n > 0 {
		a.Warnings = append(a.Warnings, fmt.Sprintf("items of lists that are no objects of Kubernetes: %d. They were left out; the first one is at %s", n,
			dump.FirstNoObject))
	}
	if err := a.readSettings(ctx); err != nil {
		return a.sortedAudit(), err
	}
	judged := slices.DeleteFunc(slices.Clone(dump.Named), func(o manifest.Object) bool {
		return o.Fault == nil && !slices.ContainsFunc(kinds, func(k schema.GroupVersionKind) bool { return k.GroupKind() == o.GroupVersionKind().GroupKind() })
	})
	for page := judged; ; {
		if err := a.judgePage(ctx, page); err != nil {
			return a.sortedAudit(), err
		}
		if page = dump.NextGuests(manifest.PageSize); len(page) == 0 {
			break
		}
	}
	return a.sortedAudit(), a.readNamespaces(ctx, dump.Reader, "")
}

// readSettings reads the configuration and the GuestPolicies once, with the warnings about them.
func (a *auditor) readSettings(ctx context.Context) error {
	configuration, warnings, err := a.bench.Configuration(ctx, a.in)
	a.Warnings = append(a.Warnings, warnings...)
	if err != nil {
		return err
	}
	if configuration.Limits.KubeVirtGuests {
		a.KubeVirt = configuration.Limits.Version.Nearest().String()
	}
	_, warnings, err = a.bench.GuestPolicies(ctx, a.in)
	a.Warnings = append(a.Warnings, warnings...)
	return err
}

// readNamespaces adds the namespaces with the label kilnvm.io/admission.
func (a *auditor) readNamespaces(ctx context.Context, reader client.Reader, only string) error {
	var list corev1.NamespaceList
	err := reader.List(ctx, &list, client.HasLabels{v1alpha1.LabelAdmission})
	if apierrors.IsForbidden(err) {
		a.Warnings = append(a.Warnings, fmt.Sprintf("the label %s of namespaces cannot be read: %v", v1alpha1.LabelAdmission, err))
		return nil
	}
	for i := range list.Items {
		if one := &list.Items[i]; only == "" || one.Name == only {
			a.Namespaces = append(a.Namespaces, Namespace{one.Name, one.Labels[v1alpha1.LabelAdmission]})
		}
	}
	return err
}
