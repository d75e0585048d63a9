package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// terminal returns both ends of a pseudo-terminal.
func terminal(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("SKIPPED, THIS MACHINE HAS NO PSEUDO-TERMINALS: %v", err)
	}
	t.Cleanup(func() { user.Close() })
	number, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(filepath.Join("/dev/pts", strconv.Itoa(number)), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return user, program
}

// TestColors: verdicts have colors on a terminal, nowhere else, and not with NO_COLOR. What a tenant wrote has none.
func TestColors(t *testing.T) {
	t.Setenv("TERM", "xterm")
	_, file := write(t, size, strings.Replace(conflicting, "image: \"os:1\"", "image: \"os:\\e[32m1\"", 1), plain)
	for _, noColor := range []string{"", "1"} {
		t.Setenv("NO_COLOR", noColor)
		user, program := terminal(t)
		command := Command(genericclioptions.IOStreams{In: strings.NewReader(""), Out: program, ErrOut: program})
		command.SetArgs([]string{"validate", "--kubeconfig", filepath.Join(t.TempDir(), "none"), "-f", file})
		command.SetContext(t.Context())
		if err := command.Execute(); err == nil {
			t.Fatal("the VM with a conflict is accepted")
		}
		if err := program.Close(); err != nil {
			t.Fatal(err)
		}
		printed, err := io.ReadAll(user)
		if err != nil && !errors.Is(err, unix.EIO) { // Linux ends a pseudo-terminal whose program has closed it with EIO
			t.Fatal(err)
		}
		text := string(printed)
		for _, words := range []string{"\x1b[32maccepted\x1b[0m", "\x1b[31mrejected\x1b[0m"} {
			if strings.Contains(text, words) != (noColor == "") {
				t.Errorf("NO_COLOR='%s': %q in %q", noColor, words, text)
			}
		}
		if strings.Contains(text, "os:\x1b") {
			t.Errorf("the escape sequence of a tenant is printed: %q", text)
		}
	}
}
