package daemon

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"

	"golang.org/x/sys/unix"
)

// times are those by which libvirt knows the files that it has probed, in seconds.
type times struct {
	emulator, modules, daemon int64
}

// times reads them from the files of an image.
func (o Origin) times(root string) (times, error) {
	var t times
	emulator, err := stat(root, o.Emulator)
	if err != nil {
		return t, err
	}
	modules, err := stat(root, o.Modules)
	if err != nil {
		return t, err
	}
	t.emulator, t.modules = emulator.Ctim.Sec, modules.Mtim.Sec
	for _, name := range o.Daemon {
		part, err := stat(root, name)
		if err != nil {
			return t, err
		}
		t.daemon = max(t.daemon, part.Ctim.Sec) // virUpdateSelfLastChanged
	}
	return t, nil
}

func stat(root, name string) (unix.Stat_t, error) {
	var out unix.Stat_t
	if err := unix.Stat(filepath.Join(root, name), &out); err != nil {
		return out, fmt.Errorf("'%s' of the image: %w", name, err)
	}
	return out, nil
}

// elements are where a cached file has the times.
var elements = map[string]*regexp.Regexp{
	"qemuctime":       regexp.MustCompile(`<qemuctime>[0-9]+</qemuctime>`),
	"qemumoddirmtime": regexp.MustCompile(`<qemumoddirmtime>[0-9]+</qemumoddirmtime>`),
	"selfctime":       regexp.MustCompile(`<selfctime>[0-9]+</selfctime>`),
}

// into sets the times of a cached file.
func (t times) into(text []byte) ([]byte, error) {
	for name, value := range map[string]int64{"qemuctime": t.emulator, "qemumoddirmtime": t.modules, "selfctime": t.daemon} {
		if found := len(elements[name].FindAll(text, -1)); found != 1 {
			return nil, fmt.Errorf("capabilities must have one element '%s', and have %d", name, found)
		}
		text = elements[name].ReplaceAll(text, []byte("<"+name+">"+strconv.FormatInt(value, 10)+"</"+name+">"))
	}
	return text, nil
}
