package admit

import (
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/profile"
)

// plan finds what profiles fill. What the instancetype owns is left out: it would be a conflict if the user had written it.
func (r *run) plan() {
	planned, errs := profile.For(r.in.Profiles, r.vmi)
	r.errs = append(r.errs, errs...)
	if planned != nil && r.in.Set.Instancetype != nil {
		planned.Leave(instancetype.Owned(r.in.Set, planned.Example()))
	}
	r.planned = planned
}

func (r *run) profiledDevices() {
	if r.planned != nil {
		r.planned.Attach(r.vmi, r.byProfile())
	}
}

func (r *run) profiles() {
	if r.planned != nil {
		r.planned.Fill(r.vmi, r.byProfile())
	}
}

// byProfile observes profiles one by one, each before what it extends. A VMI that no profile selects has no such step.
func (r *run) byProfile() profile.Observer {
	return profile.Observer{Log: r.log, After: func(from profile.Source) {
		origin := profileOrigin(from.Profile)
		if from.Base != nil {
			base := profileOrigin(from.Base)
			origin.Extends = &base
		}
		r.gave(origin)
	}}
}

func profileOrigin(p *profile.Profile) Origin {
	return Origin{Kind: p.Kind, Name: p.Name, Revision: p.Revision}
}
