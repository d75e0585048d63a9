package hostresources

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// zoneinfo is the folder of the time zones that QEMU's C library reads. libvirt starts QEMU with TZ set to the guest's zone. For a zone without a file the
// library uses UTC without an error, and the clock of the guest would be wrong by hours.
const zoneinfo = "/usr/share/zoneinfo"

// checkZone returns an error if a folder of time zones has no file for clock.timezone. A clock with utc has no zone.
func checkZone(dir string, clock *v1.Clock) field.ErrorList {
	if clock == nil || clock.UTC != nil || clock.Timezone == nil || *clock.Timezone == "" {
		return nil
	}
	zone := string(*clock.Timezone)
	err := readZone(dir, zone)
	if err == nil {
		return nil
	}
	why := fmt.Sprintf("this host has no such time zone: %v; install the time zones of the host (package tzdata), or choose one that '%s' has", err, dir)
	return field.ErrorList{field.Invalid(field.NewPath("spec", "domain", "clock", "timezone"), zone, why)}
}

// readZone reads the head of a zone's file. A tenant writes the name, so it must not lead out of the folder.
func readZone(dir, zone string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("'%s' is missing", dir)
	}
	defer root.Close()
	info, err := root.Stat(zone)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("'%s' has no file of that name", dir)
	case err != nil:
		return fmt.Errorf("it cannot be read from '%s': %w", dir, withoutPath(err))
	case !info.Mode().IsRegular():
		return errors.New("it is a folder")
	}
	file, err := root.Open(zone)
	if err != nil {
		return withoutPath(err)
	}
	defer file.Close()
	head := make([]byte, len(zoneMagic))
	if _, err := io.ReadFull(file, head); err != nil || string(head) != zoneMagic {
		return errors.New("the file of that name is no time zone")
	}
	return nil
}

// zoneMagic is the beginning of each file of a time zone (RFC 8536).
const zoneMagic = "TZif"
