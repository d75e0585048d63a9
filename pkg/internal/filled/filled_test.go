package filled

import (
	"reflect"
	"strconv"
	"testing"
)

type cpu struct {
	Cores uint32 `json:"cores,omitempty"`
	Model string `json:"model,omitempty"`
}

type disk struct {
	Name string `json:"name"`
	Bus  string `json:"bus,omitempty"`
}

type guest struct {
	CPU    *cpu              `json:"cpu,omitempty"`
	Disks  []disk            `json:"disks,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	RNG    *struct{}         `json:"rng,omitempty"`
	Zone   string            `json:"zone,omitempty"`
}

// TestFind: Find returns the entry of the source that filled a leaf, and None for a leaf that no source filled.
func TestFind(t *testing.T) {
	t.Parallel()
	const byObject, byField, byDisk, byKey, byLeaves = 0, 1, 2, 3, 4
	source := &cpu{Cores: 2}
	g := guest{CPU: &cpu{Cores: 2, Model: "host"}, Disks: []disk{{"a", "virtio"}, {"b", "sata"}}, Labels: map[string]string{"x.y/z": "1", "own": "2", "k[0]": "3"},
		RNG: &struct{}{}, Zone: "own"}
	log := New()
	log.Note(&g.CPU, source)
	log.Note(&g.CPU.Model, nil)
	log.Note(&g.Disks[1].Bus, nil)
	log.Key("g.labels", "x.y/z")
	log.Leaves("g.labels[k[0]]", "3")
	if log.Len() != 5 {
		t.Fatalf("%d entries", log.Len())
	}
	for _, test := range []struct {
		path, why string
		want      int
	}{
		{"g.cpu.cores", "its object was filled, and the source has it", byObject},
		{"g.cpu.model", "a later step put it into the object", byField},
		{"g.cpu", "the first leaf below it that somebody filled", byObject},
		{"g.disks[1].bus", "an element's field", byDisk},
		{"g.disks[1]", "the first leaf below it that somebody filled: the name is the user's", byDisk},
		{"g.disks[0].bus", "the same field of another element", None},
		{"g.labels[x.y/z]", "a key with dots", byKey},
		{"g.labels[k[0]]", "a key with brackets", byLeaves},
		{"g.labels[own]", "another key", None},
		{"g.labels[x.y]", "the start of a key is no key", None},
		{"g.zone", "the user's", None},
		{"g.rng", "an empty object of the user", None},
		{"g.cp", "the start of a name is no field", None},
		{"g.disks[7].bus", "an index beyond the list", None},
	} {
		if got := log.Find(&g, "g", test.path); got != test.want {
			t.Errorf("%s: entry %d, want %d: %s", test.path, got, test.want, test.why)
		}
	}
}

// TestLaterStepsInside: a field that a step adds to an object of another source does not belong to that source, even if it is not noted.
func TestLaterStepsInside(t *testing.T) {
	t.Parallel()
	source := &cpu{Cores: 2}
	g, log := guest{}, New()
	copied := *source
	g.CPU = &copied
	log.Note(&g.CPU, source)
	g.CPU.Model = "a default"
	if got := log.Find(&g, "g", "g.cpu.model"); got != None {
		t.Errorf("entry %d: the source has no model", got)
	}
	if got := log.Find(&g, "g", "g.cpu.cores"); got != 0 {
		t.Errorf("entry %d: the source has cores", got)
	}
}

// TestNoLog: a nil log notes nothing.
func TestNoLog(t *testing.T) {
	t.Parallel()
	var log *Log
	g := guest{Zone: "a"}
	log.Note(&g.Zone, nil)
	log.Key("g.labels", "a")
	log.Leaves("g", g)
	if log.Len() != 0 || log.Find(&g, "g", "g.zone") != None {
		t.Errorf("a nil log has %d entries", log.Len())
	}
}

// TestManyEntries: a log grows beyond its buffer without losing entries.
func TestManyEntries(t *testing.T) {
	t.Parallel()
	g, log := guest{Disks: make([]disk, 3*usual)}, New()
	for i := range g.Disks {
		g.Disks[i].Bus = "virtio"
		log.Note(&g.Disks[i].Bus, nil)
	}
	for i := range g.Disks {
		if got := log.Find(&g, "g", "g.disks["+strconv.Itoa(i)+"].bus"); got != i {
			t.Errorf("disk %d: entry %d", i, got)
		}
	}
}

// TestMoved: entries for elements count in the longer list to which the elements moved, and new entries count there, too.
func TestMoved(t *testing.T) {
	t.Parallel()
	g, log := guest{Disks: []disk{{"a", "virtio"}, {"b", "sata"}}, Zone: "own", Labels: map[string]string{"k": "v"}}, New()
	log.Note(&g.Zone, nil)
	log.Note(&g.Disks[0].Bus, nil)
	log.Note(&g.Disks[1], g.Disks[1]) // the element, and not its first field, which has the same address
	log.Key("g.labels", "k")
	grown := append(g.Disks[:2:2], disk{"c", "scsi"})
	log.Moved(reflect.ValueOf(g.Disks), reflect.ValueOf(g.Disks))
	log.Moved(reflect.ValueOf(g.Disks), reflect.ValueOf(grown))
	g.Disks = grown
	log.Note(&g.Disks[2].Name, nil)
	for path, want := range map[string]int{
		"g.zone": 0, "g.disks[0].bus": 1, "g.disks[0].name": None, "g.disks[1].bus": 2, "g.disks[1].name": 2, "g.labels[k]": 3,
		"g.disks[2].name": 4, "g.disks[2].bus": None,
	} {
		if got := log.Find(&g, "g", path); got != want {
			t.Errorf("%s: entry %d, want %d", path, got, want)
		}
	}
}
