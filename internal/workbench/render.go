package workbench

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/identity"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// Stages of a rendering of a domain: 'frontend' is only what the guest sees (stage 2), 'backend' is the complete domain (stage 3).
const (
	StageFrontend = "frontend"
	StageBackend  = "backend"
)

// Placing describes the host on which a guest is rendered.
type Placing struct {
	// Host is a YAML file with the host's capabilities. Bindings is a YAML file with the resources of the host for this start, such as paths and taps. If a
	// name is empty, capabilities or bindings are assumed.
	Host, Bindings string
}

// Rendering contains the parameters of Render.
type Rendering struct {
	Placing
	// Stage is StageFrontend or StageBackend.
	Stage string
	// Side: also return the secrets, network filters and node devices of the domain.
	Side bool
}

// Notes names the settings that a rendering does not include.
type Notes struct {
	// Warnings are about settings that the user may not read.
	Warnings []string
	// ByNode has the names of the HostProfiles that select the VMI and have a nodeSelector. Without a description of the host they are ignored.
	ByNode []string
}

// With returns the warnings of two Notes. ByNode is the ByNode of n if n has any, otherwise the ByNode of more.
func (n Notes) With(more Notes) Notes {
	n.Warnings = append(n.Warnings, more.Warnings...)
	if len(n.ByNode) == 0 {
		n.ByNode = more.ByNode
	}
	return n
}

// Rendered has the documents of one guest: the side documents in the order in which libvirt needs them, and then the domain.
type Rendered struct {
	Notes
	Documents []render.Document
}

// Refusal is the error if stage 2 or 3 refuses a guest.
type Refusal struct {
	// Guest is the refused guest. Its verdict has the causes, without the warnings of stage 1.
	Guest Reviewed
	// Host is the file of the host that cannot run the guest; empty if the host is assumed.
	Host string
}

// Error returns the causes.
func (r *Refusal) Error() string { return r.Guest.Verdict.Errors.ToAggregate().Error() }

// RefusalOf returns a Refusal with the causes; nil if there are no causes. For the guest of a VM, it changes paths of the VMI into paths of the VM.
func RefusalOf(r Reviewed, host string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	if r.Guest != nil && r.Guest.VM != nil {
		errs = (&resolve.Refusal{Errors: errs}).OfTemplate().Errors
	}
	r.Verdict = admit.Verdict{Errors: errs}
	return &Refusal{r, host}
}

// Render renders a guest, with the hardware of its last boot if it has booted. If the renderer of the frontend or of the complete domain refuses the guest, the
// error is a Refusal. The Notes are also valid with an error.
func (b *Bench) Render(ctx context.Context, r Reviewed, wanted Rendering) (Rendered, error) {
	machine, notes, err := b.Machine(ctx, r, wanted.Placing, r.Guest.Recorded)
	done := Rendered{Notes: notes}
	if err != nil {
		return done, err
	}
	var result render.Result
	var errs field.ErrorList
	if wanted.Stage == StageFrontend {
		result.Documents.Domain, errs = render.Frontend(machine.Machine)
	} else {
		result, errs = render.UnderProfiles(machine.Machine, machine.Profiles)
	}
	if err := RefusalOf(r, wanted.Host, errs); err != nil {
		return done, err
	}
	if wanted.Side {
		if done.Documents, err = result.SideDocuments(); err != nil {
			return done, err
		}
	}
	domain := result.Documents.Domain
	xml, err := domain.Marshal()
	done.Documents = append(done.Documents, render.Document{Kind: "domain", Name: domain.Name, XML: xml})
	for i := range done.Documents {
		done.Documents[i].Object = r.Name()
	}
	return done, err
}

// Machine is a guest on a host, with the HostProfiles that may select them.
type Machine struct {
	render.Machine
	Profiles []v1alpha1.HostProfile
}

// Machine returns a guest on a host, with the identity of its last boot if there is a record. It fails if the record exists and cannot be read,
// because new hardware may differ from the hardware of the last boot. The notes are complete only without an error.
func (b *Bench) Machine(ctx context.Context, r Reviewed, at Placing, recorded *record.Record) (m Machine, notes Notes, err error) {
	guest := r.Guest
	if guest.Unreadable != nil {
		return m, notes, fmt.Errorf("which hardware the guest had before is not known: %w", guest.Unreadable)
	}
	if m.Host, err = readHost(at.Host, guest.Explicit.Spec.Architecture); err != nil {
		return m, notes, err
	}
	if m.Profiles, notes.Warnings, err = b.hostProfiles(ctx, r.Inputs); err != nil {
		return m, notes, err
	}
	if at.Host == "" {
		notes.ByNode = profilesByNode(m.Profiles, guest.Explicit.Labels)
	}
	vmi := guest.Explicit.DeepCopy()
	if recorded != nil {
		identity.Recall(vmi, recorded)
		vmi = record.UnpinCPU(vmi, recorded.CPU) // of a VMI that KubeVirt runs: the record has the CPU
	}
	// A VMI of a file has no UID, and its VM no kilnvm.io/identity. Namespace and name make the output the same in every run.
	identity.Fill(vmi, identity.Seed(vmi))
	m.VMI, m.Defaults, m.Frozen, m.Bindings = vmi, guest.Input.Cluster.FrontendDefaults(), recorded, backend.AssumedBindings(vmi)
	return m, notes, readYAML(at.Bindings, &m.Bindings)
}

// readHost reads the capabilities of a host from a file. If file is empty, it returns the assumed capabilities of the architecture.
func readHost(file, architecture string) (host backend.Capabilities, err error) {
	if file == "" {
		return backend.Assumed(architecture), nil
	}
	var described v1alpha1.HostCapabilities
	if err := readYAML(file, &described); err != nil {
		return host, err
	}
	if described.GroupVersionKind() != v1alpha1.GroupVersion.WithKind(v1alpha1.KindHostCapabilities) {
		return host, fmt.Errorf("%s: must have apiVersion '%s' and kind '%s', and has '%s' and '%s'",
			file, v1alpha1.GroupVersion, v1alpha1.KindHostCapabilities, described.APIVersion, described.Kind)
	}
	return described.Spec, nil
}

// readYAML decodes a file into a value. Unknown fields are refused. If file is empty, the value is not changed.
func readYAML(file string, into any) error {
	if file == "" {
		return nil
	}
	raw, err := manifest.ReadFile(file)
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(raw, into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}
