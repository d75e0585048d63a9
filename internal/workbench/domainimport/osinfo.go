package domainimport

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/internal/workbench/catalogs"
	"github.com/kilnvm/kiln/pkg/domain/imported"
)

// systemOf returns the ID of the guest's operating system, such as http://fedoraproject.org/fedora/38, which virt-install, virt-manager and Cockpit write into
// the metadata of a domain; empty without one. The IDs are of libosinfo's database.
func systemOf(root *imported.Element) string {
	return root.Child("metadata").Child("libosinfo").Child("os").Attribute("id")
}

// systemWords are words of libosinfo's IDs that published preferences spell in another way.
var systemWords = map[string]string{"win": "windows", "ol": "oraclelinux", "alpinelinux": "alpine"}

// systemKey returns the words of an ID as one word of small letters and digits, such as 'windows2k22' or 'rhel92'; empty if it is no such ID.
func systemKey(id string) string {
	parsed, err := url.Parse(id)
	if err != nil || parsed.Host == "" {
		return ""
	}
	words := strings.Split(strings.Trim(strings.ToLower(parsed.Path), "/"), "/")
	words[0] = cmp.Or(systemWords[words[0]], words[0])
	return unspaced(strings.Join(words, ""))
}

// unspaced returns the small letters and digits of a text.
func unspaced(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(text))
}

// mostTried is the largest number of preferences, and of instancetypes, that are tried for one VM: each is a review and a rendering.
const mostTried = 8

// preferencesFor returns the preferences for an operating system, the nearest first: of its version, of its version with a variant such as '.virtio', and of
// the system. If none of these has its name, the preference 'linux' is for every system but Windows.
func preferencesFor(key string, offers []catalogs.Offer) (found []catalogs.Offer) {
	if key == "" {
		return nil
	}
	rank := func(o catalogs.Offer) int {
		switch name := unspaced(o.Name); {
		case name == "":
			return 0
		case name == key:
			return 1 << 20
		case strings.HasPrefix(name, key):
			return 1<<19 - len(name)
		case strings.HasPrefix(key, name):
			return 1 + len(name)
		case name == "linux" && !strings.HasPrefix(key, "windows"):
			return 1
		}
		return 0
	}
	for _, offer := range offers {
		if rank(offer) > 0 {
			found = append(found, offer)
		}
	}
	slices.SortStableFunc(found, func(a, b catalogs.Offer) int { return cmp.Compare(rank(b), rank(a)) })
	return found[:min(len(found), mostTried)]
}
