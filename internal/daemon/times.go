package daemon

import (
	"fmt"
	"path/filepath"
	"regexp"

	"golang.org/x/sys/unix"
)

// times are the times by which libvirt recognizes the files that it has probed, in seconds since 1970.
type times struct {
	emulator, modules, daemon int64
}

// fileTimes reads the times of an image's files.
func (o Origin) fileTimes(root string) (times, error) {
	var t times
	emulator, err := statFile(root, o.Emulator)
	if err != nil {
		return t, err
	}
	modules, err := statFile(root, o.Modules)
	if err != nil {
		return t, err
	}
	t.emulator, t.modules = emulator.Ctim.Sec, modules.Mtim.Sec
	for _, name := range o.Daemon {
		part, err := statFile(root, name)
		if err != nil {
			return t, err
		}
		t.daemon = max(t.daemon, part.Ctim.Sec) // virUpdateSelfLastChanged
	}
	return t, nil
}

func statFile(root, name string) (unix.Stat_t, error) {
	var out unix.Stat_t
	if err := unix.Stat(filepath.Join(root, name), &out); err != nil {
		return out, fmt.Errorf("'%s' of the image: %w", name, err)
	}
	return out, nil
}

// The elements of a cached file with the times. libvirt leaves out the time of the folder if it is 0, as in images whose files have no times.
var (
	emulatorTime = regexp.MustCompile(`<qemuctime>[0-9]+</qemuctime>`)
	daemonTime   = regexp.MustCompile(`<selfctime>[0-9]+</selfctime>`)
	modulesTime  = regexp.MustCompile(`\n\s*<qemumoddirmtime>[0-9]+</qemumoddirmtime>`)
)

// setInFile sets the times in a cached file, in libvirt's form.
func (t times) setInFile(text []byte) ([]byte, error) {
	emulator := fmt.Sprintf("<qemuctime>%d</qemuctime>", t.emulator)
	if t.modules > 0 {
		emulator += fmt.Sprintf("\n  <qemumoddirmtime>%d</qemumoddirmtime>", t.modules)
	}
	text = modulesTime.ReplaceAll(text, nil)
	for element, value := range map[*regexp.Regexp]string{emulatorTime: emulator, daemonTime: fmt.Sprintf("<selfctime>%d</selfctime>", t.daemon)} {
		if found := len(element.FindAll(text, -1)); found != 1 {
			return nil, fmt.Errorf("capabilities must have one element '%s', and have %d", element, found)
		}
		text = element.ReplaceAll(text, []byte(value))
	}
	return text, nil
}
