package corpus

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/validate"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/yaml"
)

// requestsDir holds cases of other requests than creations of VMs and sparse VMIs: updates, statuses, objects of the catalog,
// and VMIs as they come to validation without defaults.
//
//	object.yaml   what is written; its first line says the point of the case
//	stored.yaml   what is there before; without it, the object is created
//	request.yaml  the user, and the subresource
//	cluster.yaml  as in other cases
//	denied.txt    every cause of the refusal, and warnings, or
//	allowed.txt   the warnings, if any
const requestsDir = "requests"

// Request is one folder of requestsDir.
type Request struct {
	Name, Dir string
	// Object and Stored are JSON; Stored is nil on create.
	Object, Stored []byte
	Kind           string
	By             Asker

	cluster Case
}

// Asker is the user of a request, with the user's node, and the subresource.
type Asker struct {
	User        string `json:"user"`
	Node        string `json:"node"`
	Subresource string `json:"subresource"`
}

// LoadRequests reads the requests of the corpus in a folder.
func LoadRequests(dir string) ([]Request, error) {
	entries, err := os.ReadDir(filepath.Join(dir, requestsDir))
	if err != nil {
		return nil, err
	}
	var requests []Request
	for _, entry := range entries {
		r, err := readRequest(filepath.Join(dir, requestsDir, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		requests = append(requests, r)
	}
	return requests, nil
}

func readRequest(dir string) (Request, error) {
	r := Request{Name: filepath.Base(dir), Dir: dir}
	var err error
	if r.cluster, err = readCluster(dir); err != nil {
		return r, err
	}
	r.cluster.Cluster = r.cluster.Cluster.InstalledIn(config.Installation{Kiln: "kiln-system"}) // whose accounts ask
	for name, into := range map[string]*[]byte{"object.yaml": &r.Object, "stored.yaml": &r.Stored} {
		text, err := readOptional(dir, name)
		if err == nil && text != nil {
			*into, err = yaml.YAMLToJSON(text)
		}
		if err != nil {
			return r, err
		}
	}
	request, err := readOptional(dir, "request.yaml")
	if err == nil {
		err = decodeStrict(request, &r.By)
	}
	if err != nil {
		return r, err
	}
	var meta struct{ Kind string }
	err = yaml.Unmarshal(r.Object, &meta)
	r.Kind = meta.Kind
	return r, err
}

// Judge asks the engine, as the webhook of the kind does.
func (r Request) Judge(ctx context.Context) (admit.Verdict, error) {
	spec := field.NewPath("spec")
	switch r.Kind {
	case "VirtualMachine":
		return r.judgeVM(ctx)
	case "VirtualMachineInstance":
		var now, was v1.VirtualMachineInstance
		if err := r.decodeObjects(&now, &was); err != nil {
			return admit.Verdict{}, err
		}
		if r.Stored == nil {
			return newReviewer(nil, r.cluster.Cluster).ReviewExplicitVMI(ctx, &now, review.Asker{Name: r.By.User})
		}
		change := validate.GuestChange{New: &now, Old: &was, By: validate.Account{Name: r.By.User, Node: r.By.Node}}
		if r.By.Subresource == "status" {
			return admit.Verdict{Errors: validate.GuestStatusUpdate(change, r.cluster.Cluster.Limits)}, nil
		}
		return admit.Verdict{Errors: validate.GuestUpdate(change, r.cluster.Cluster.Limits)}, nil
	case "VirtualMachineInstancePreset":
		var now, was v1.VirtualMachineInstancePreset
		err := r.decodeObjects(&now, &was)
		return admit.Verdict{Errors: validate.Preset(&now.Spec, spec), Warnings: validate.PresetWarnings()}, err
	case instancetype.Kinds.Namespaced, instancetype.Kinds.Cluster:
		var now, was v1beta1.VirtualMachineInstancetype
		err := r.decodeObjects(&now, &was)
		mistakes := append(validate.Instancetype(&now.Spec, spec), instancetype.LifecycleMistakes(&now)...)
		return admit.Verdict{Errors: mistakes, Warnings: validate.InstancetypeWarnings(&now.Spec)}, err
	case instancetype.PreferenceKinds.Namespaced, instancetype.PreferenceKinds.Cluster:
		var now, was v1beta1.VirtualMachinePreference
		err := r.decodeObjects(&now, &was)
		mistakes := append(validate.Preference(&now.Spec, spec), instancetype.LifecycleMistakes(&now)...)
		return admit.Verdict{Errors: mistakes, Warnings: validate.PreferenceWarnings(&now.Spec)}, err
	}
	if r.Kind == v1alpha1.KindGuestProfile || r.Kind == v1alpha1.KindClusterGuestProfile {
		reviewed, err := newReviewer(r.cluster.Objects, r.cluster.Cluster).ReviewProfile(ctx, r.Object, review.Asker{Name: r.By.User})
		return reviewed.Verdict, err
	}
	if r.Kind == "GuestHardware" {
		var now, was v1alpha1.GuestHardware
		err := r.decodeObjects(&now, &was)
		return admit.Verdict{Errors: validate.GuestHardware(&now.Spec, spec)}, err
	}
	return admit.Verdict{}, fmt.Errorf("requests have no kind '%s'", r.Kind)
}

func (r Request) judgeVM(ctx context.Context) (admit.Verdict, error) {
	now, was := &v1.VirtualMachine{}, &v1.VirtualMachine{}
	if err := r.decodeObjects(now, was); err != nil {
		return admit.Verdict{}, err
	}
	if r.Stored == nil {
		was = nil
	}
	if now.Namespace = namespace; r.By.Subresource == "status" {
		errs := validate.For(r.By.User, r.cluster.Cluster.Limits, validate.VMStatusUpdate(now, was))
		return admit.Verdict{Errors: errs}, nil
	}
	reviewed, err := newReviewer(r.cluster.Objects, r.cluster.Cluster).ReviewVM(ctx, now, was, review.Asker{Name: r.By.User})
	return reviewed.Verdict, err
}

func (r Request) decodeObjects(now, was any) error {
	if err := yaml.UnmarshalStrict(r.Object, now); err != nil || r.Stored == nil {
		return err
	}
	return yaml.UnmarshalStrict(r.Stored, was)
}
