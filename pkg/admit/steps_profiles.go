package admit

import (
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/profile"
)

// planProfiles finds what profiles fill. Fields that the instancetype owns are left out, because they would be conflicts if the user had set them.
func (r *run) planProfiles() {
	planned, errs := profile.PlanFor(r.in.Profiles, r.vmi)
	r.errs = append(r.errs, errs...)
	if planned != nil && r.in.Set.Instancetype != nil {
		planned.Exclude(instancetype.Owned(r.in.Set, planned.Example()))
	}
	r.planned = planned
}

func (r *run) attachProfileDevices() {
	if r.planned != nil {
		r.planned.Attach(r.vmi, r.profileObserver())
	}
}

func (r *run) fillProfiles() {
	if r.planned != nil {
		r.planned.Fill(r.vmi, r.profileObserver())
	}
}

// profileObserver returns an observer to which each profile is a step, before the profiles that it extends. A VMI that no profile selects has no such step.
func (r *run) profileObserver() profile.Observer {
	return profile.Observer{Log: r.log, After: func(from profile.Source) {
		origin := profileOrigin(from.Profile)
		if from.Base != nil {
			base := profileOrigin(from.Base)
			origin.Extends = &base
		}
		r.endStep(origin)
	}}
}

func profileOrigin(p *profile.Profile) Origin {
	return Origin{Kind: p.Kind, Name: p.Name, Revision: p.Revision}
}
