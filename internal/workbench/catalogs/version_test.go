package catalogs

import "testing"

// TestNewest: a release comes before each pre-release, whatever its number, and tags that are no versions do not count.
func TestNewest(t *testing.T) {
	for _, test := range []struct {
		want string
		tags []string
	}{
		{"", nil}, {"", []string{"latest", "sha256-00.sig"}},
		{"1.10.0", []string{"1.9.0", "1.10.0", "latest", "v1.2.0"}},
		{"v2.0.0", []string{"1.0.0", "v2.0.0", "2.1.0-rc.1"}},
		{"1.0.0", []string{"2.0.0-rc.1", "1.0.0"}},
		{"2.0.0-rc.2", []string{"2.0.0-rc.1", "2.0.0-rc.2", "1.0.0-rc.9"}},
	} {
		got, found := Newest(test.tags)
		if got.Tag != test.want || found != (test.want != "") {
			t.Errorf("%q: '%s', %t, want '%s'", test.tags, got.Tag, found, test.want)
		}
	}
	older, err := ParseVersion("1.9.0")
	if newer, _ := Newest([]string{"1.10.0"}); err != nil || !newer.NewerThan(older) || older.NewerThan(newer) || older.NewerThan(older) {
		t.Error("1.10.0 is newer than 1.9.0", err)
	}
}
