package config

import (
	"fmt"
	"strconv"
	"strings"
)

// Version is a minor version of KubeVirt 1.x, such as 8 for v1.8.2. The zero value stands for Newest. Rules, gates and defaults that differ between versions
// follow it.
type Version int

// Oldest and Newest are the versions of which test/conformance has recorded answers. Beside an older or newer KubeVirt, the nearest of the two applies.
const (
	Oldest Version = 7
	Newest Version = 9
)

// ParseVersion returns the version of a text such as 'v1.8.2', '1.8' or 'v1.9.0-rc.0'. The version may be older than Oldest or newer than Newest.
func ParseVersion(text string) (Version, error) {
	major, rest, _ := strings.Cut(strings.TrimPrefix(text, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	number, err := strconv.ParseUint(minor, 10, 16)
	if major != "1" || err != nil || number == 0 {
		return 0, fmt.Errorf("'%.64s' is not a version of KubeVirt: it must be like v1.%d.0", text, Newest)
	}
	return Version(number), nil
}

// Nearest returns the nearest version from Oldest to Newest.
func (v Version) Nearest() Version {
	if v == 0 {
		return Newest
	}
	return min(max(v, Oldest), Newest)
}

// MarshalText and UnmarshalText make a version the value of a flag. An empty text is the zero value.
func (v Version) MarshalText() ([]byte, error) {
	if v == 0 {
		return nil, nil
	}
	return []byte(v.String()), nil
}

// UnmarshalText reads what ParseVersion reads.
func (v *Version) UnmarshalText(text []byte) (err error) {
	if *v = 0; len(text) > 0 {
		*v, err = ParseVersion(string(text))
	}
	return err
}

// String returns a version as 'v1.8'.
func (v Version) String() string {
	if v == 0 {
		v = Newest
	}
	return fmt.Sprintf("v1.%d", int(v))
}
