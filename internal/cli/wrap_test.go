package cli

import (
	"bytes"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// onTerminal returns the lines that a command prints on a terminal with this number of columns.
func onTerminal(t *testing.T, columns int, args ...string) []string {
	t.Helper()
	user, program := terminal(t)
	if err := unix.IoctlSetWinsize(int(user.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 25, Col: uint16(columns)}); err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	read := make(chan struct{})
	go func() {
		_, _ = io.Copy(&printed, user) // it ends with an error when nobody has the terminal open any more
		close(read)
	}()
	command := Command(genericclioptions.IOStreams{In: strings.NewReader(""), Out: program, ErrOut: program})
	command.SetArgs(append(args, "--kubeconfig", filepath.Join(t.TempDir(), "none")))
	command.SetContext(t.Context())
	_ = command.Execute()
	program.Close()
	<-read
	plain := regexp.MustCompile("\x1b\\[[0-9]*m").ReplaceAllString(printed.String(), "")
	return strings.Split(strings.TrimSuffix(strings.ReplaceAll(plain, "\r\n", "\n"), "\n"), "\n")
}

// TestWidth: on a terminal no line is longer than the terminal is wide, except words and commands. A program reads unbroken lines, with the same words.
func TestWidth(t *testing.T) {
	t.Setenv("TERM", "xterm")
	_, file := write(t, size, preference, preferred)
	_, refused := write(t, size, conflicting)
	_, catalog := write(t, offered)
	for _, columns := range []int{60, 100} {
		for _, args := range [][]string{
			{"explain", "-f", file}, {"validate", "-f", refused}, {"instancetypes", "-f", catalog, "-o", "wide", "--all", "--for", "linux"},
			{"create", "vm", "--help"}, {"--help"},
		} {
			lines := onTerminal(t, columns, args...)
			long := 0
			for i, line := range lines {
				words := strings.Fields(line)
				if len(line) > columns && words[0] != "kubectl" && words[0] != "kustomize" && len(words[len(words)-1]) < columns/3 {
					t.Errorf("%q: line %d of %d columns has %d: %s", args, i, columns, len(line), line)
				}
			}
			piped := call(t, "", args...)
			for line := range strings.SplitSeq(piped.out+piped.errOut, "\n") {
				if len(line) > columns {
					long++
				}
			}
			if long == 0 && columns == 60 {
				t.Errorf("%q prints no long line: the test shows nothing", args)
			}
			if diff := cmp.Diff(strings.Fields(piped.out+piped.errOut), strings.Fields(strings.Join(lines, "\n"))); diff != "" {
				t.Errorf("%q: other words than in a pipe (-pipe +terminal):\n%s", args, diff)
			}
		}
	}
	domain, piped := onTerminal(t, 60, "render", "-f", file), call(t, "", "render", "-f", file)
	isLong := func(line string) bool { return len(line) > 60 && strings.Contains(strings.TrimSpace(line), " ") }
	if piped.out != strings.Join(domain, "\n")+"\n" || !slices.ContainsFunc(domain, isLong) {
		t.Errorf("an XML document is not broken: got\n%s", strings.Join(domain, "\n"))
	}
}

// TestRestOfALine: what does not fit stands below the last column.
func TestRestOfALine(t *testing.T) {
	_, file := write(t, size, conflicting)
	lines := onTerminal(t, 80, "validate", "-f", file)
	at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "  spec.template.spec.domain.memory.guest: ") })
	if at < 0 || at+1 >= len(lines) || !strings.HasPrefix(lines[at+1], "      ") || strings.HasPrefix(lines[at+1], "       ") {
		t.Errorf("the rest of a cause is indented below it:\n%s", strings.Join(lines, "\n"))
	}
}
