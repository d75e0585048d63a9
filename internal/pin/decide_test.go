package pin

import "testing"

// TestDecide has every combination of an old entry, a new one, and what happens.
func TestDecide(t *testing.T) {
	absent, repin := Entry{}, Entry{Names: []string{""}, Given: true}
	a, b := Entry{Names: []string{"a"}, Given: true}, Entry{Names: []string{"b"}, Given: true}
	none := Entry{Names: []string{}, Given: true}
	for _, test := range []struct {
		was, now         Entry
		created, updated Action
		why              string
	}{
		{absent, absent, First, First, "neither request nor VM has a pin"},
		{absent, repin, Renew, Renew, "a repin is a first pin by request"},
		{absent, a, Honour, Honour, "a restored VM brings its pins; after the creation they are the controller's"},
		{absent, none, Honour, Honour, "a restored VM had no presets, and gets none"},
		{repin, absent, First, First, "a request that no webhook processed pinned nothing"},
		{repin, repin, Renew, Renew, "the request is made again"},
		{repin, a, Honour, Honour, "nothing was pinned, so that nothing is exchanged"},
		{repin, none, Honour, Honour, "nothing was pinned, so that nothing is exchanged"},
		{a, absent, First, Keep, "'kubectl replace' keeps pins, and drops the pins of another matcher"},
		{a, repin, Renew, Renew, "the owner asks for the current revision"},
		{a, a, First, Keep, "an unchanged pin stays; with another matcher it does not count"},
		{a, b, Honour, Refuse, "a revision may come with another matcher, and never alone"},
		{a, none, Honour, Refuse, "presets that were pinned do not go by the annotation"},
		{none, absent, First, Keep, "no presets were pinned, so that later ones are not for this VM"},
		{none, repin, Renew, Renew, "the owner asks for the current presets"},
		{none, none, First, Keep, "unchanged"},
		{none, a, Honour, Refuse, "presets do not come by the annotation"},
	} {
		for event, want := range map[Event]Action{Created: test.created, Updated: test.updated} {
			if got := Decide(test.now, test.was, event); got != want {
				t.Errorf("%s, %+v after %+v: %s, want %s: %s", event, test.now, test.was, got, want, test.why)
			}
		}
	}
}

// TestOrNone: profiles are pinned together with presets: a VM that was pinned before there were profiles has no profiles.
func TestOrNone(t *testing.T) {
	none := Entry{Names: []string{}, Given: true}
	for _, test := range []struct {
		text, why string
		want      Entry
	}{
		{`{"presets":["a"]}`, "pinned by a release without profiles", none},
		{`{"presets":[]}`, "pinned to no presets, and to no profiles", none},
		{`{"presets":"","instancetype":"i"}`, "nothing is known while presets are requested", Entry{}},
		{`{"instancetype":"i"}`, "admission pinned it; the controller has not", Entry{}},
		{`{"presets":["a"],"profiles":""}`, "a request stays one", repin},
		{`{"presets":["a"],"profiles":["x"]}`, "pinned", Entry{Names: []string{"x"}, Given: true}},
	} {
		if got := Parse(annotated(test.text)).OrNone().Profiles; !got.Equal(test.want) {
			t.Errorf("%s: %+v, want %+v: %s", test.text, got, test.want, test.why)
		}
	}
	if one, other := (Entry{Names: []string{"x"}, Bases: []string{"y"}, Given: true}), (Entry{Names: []string{"x"}, Given: true}); one.Equal(other) ||
		Decide(one, other, Updated) != Refuse {
		t.Error("bases come by the annotation")
	}
}
