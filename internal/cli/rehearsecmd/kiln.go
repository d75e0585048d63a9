package rehearsecmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench/rehearsal"
)

// rehearseKiln rehearses an upgrade of Kiln: this program and the other one render the guests of the dump, and the results are compared.
func (o *rehearseRun) rehearseKiln(ctx context.Context, other string) (*rehearsal.Rehearsal, error) {
	switch {
	case len(o.with) > 1:
		return nil, errors.New("--with kiln=PROGRAM is rehearsed alone: leave out the other changes")
	case other == "":
		return nil, errors.New("--with kiln=PROGRAM needs the path of another kubectl-kiln")
	case !o.Files.Named() || slices.Contains(o.Files.Names, "-"):
		return nil, errors.New("--with kiln=PROGRAM needs the files of a dump, which both programs read: use -f FILE")
	case slices.ContainsFunc(o.Files.Names, func(name string) bool { return strings.HasSuffix(name, ".gz") }):
		return nil, errors.New("--with kiln=PROGRAM reads no archives: unpack the backup, and name its folder with -f")
	case o.plan != "" || o.state != "":
		return nil, errors.New("--with kiln=PROGRAM changes no pins and keeps no results: leave out --plan and --state")
	}
	own, err := os.Executable()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "kiln-rehearse-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	before, closeBefore, err := o.renderings(ctx, own, filepath.Join(folder, "before.json"))
	if err != nil {
		return nil, err
	}
	defer closeBefore()
	after, closeAfter, err := o.renderings(ctx, other, filepath.Join(folder, "after.json"))
	if err != nil {
		return nil, err
	}
	defer closeAfter()
	dump, err := o.Files.ReadDump()
	if err != nil {
		return nil, err
	}
	options := rehearsal.Options{OwnerLabel: o.ownerLabel, Progress: o.progress()}
	found, err := rehearsal.OfKilnVersions(ctx, &o.Bench, dump, before, after, o.with[0], options)
	if err == nil && len(found.VMs)+len(found.Unjudged) == 0 {
		err = o.NothingFound("VirtualMachine", nil)
	}
	return found, err
}

// renderings has a program render the guests of the dump into a file. done closes the file.
func (o *rehearseRun) renderings(ctx context.Context, program, path string) (r *rehearsal.Renderings, done func(), err error) {
	version, err := versionOf(ctx, program, path)
	if err != nil {
		return nil, nil, err
	}
	args := []string{"render", "--stage", "frontend", "-o", "json"}
	for _, name := range o.Files.Names {
		args = append(args, "-f", name)
	}
	if o.Bench.Config != "" {
		args = append(args, "--config", o.Bench.Config)
	}
	if o.Bench.Runtime != "" {
		args = append(args, "--runtime", o.Bench.Runtime)
	}
	if o.Bench.KubeVirtVersion != 0 {
		args = append(args, "--kubevirt-version", o.Bench.KubeVirtVersion.String())
	}
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, nil, err
	}
	done = func() { _ = out.Close() }
	message, err := runAlone(ctx, path, out, program, args...)
	if err == nil {
		r, err = rehearsal.ReadRenderings(out, version)
	}
	if err != nil {
		done()
		return nil, nil, fmt.Errorf("%s render: %w%s", program, err, lastLine(message))
	}
	return r, done, nil
}

// versionOf returns the version that a program says of itself.
func versionOf(ctx context.Context, program, path string) (string, error) {
	var out bytes.Buffer
	message, err := runAlone(ctx, path, &out, program, "version", "-o", "json")
	var answer struct{ Version string }
	if err == nil {
		err = json.Unmarshal(out.Bytes(), &answer)
	}
	if err == nil && answer.Version == "" {
		err = errors.New("it names no version: is it a kubectl-kiln?")
	}
	if err != nil {
		return "", fmt.Errorf("%s version: %w%s", program, err, lastLine(message))
	}
	return answer.Version, nil
}

// mostStatus is the highest exit status with which 'render' may have printed guests: 1 if it refuses a VM, and 2 if something has no answer.
const mostStatus = 2

// runAlone runs a program without a cluster, because both versions must read the same: the files of the dump. near is a path in a private folder. message is
// what the program printed on its standard error.
func runAlone(ctx context.Context, near string, out io.Writer, program string, args ...string) (message string, err error) {
	command := exec.CommandContext(ctx, program, args...)
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "KUBERNETES_SERVICE_") && !strings.HasPrefix(variable, "KUBECONFIG=") {
			command.Env = append(command.Env, variable)
		}
	}
	command.Env = append(command.Env, "KUBECONFIG="+filepath.Join(filepath.Dir(near), "none"))
	var text bytes.Buffer
	command.Stdout, command.Stderr = out, &text
	err = command.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 && exit.ExitCode() <= mostStatus {
		err = nil
	}
	return text.String(), err
}

// lastLine returns the last line of a text that a program printed, behind a colon; empty if it printed nothing.
func lastLine(text string) string {
	if text = strings.TrimSpace(text); text == "" {
		return ""
	}
	return ": " + cmdutil.Printable(text[strings.LastIndex(text, "\n")+1:])
}
