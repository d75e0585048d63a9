package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kilnvm/kiln/test/cluster"
)

// clockVariable is read by programs with a skewed clock: the seconds by which it is ahead.
const clockVariable = "KILN_FAULTS_CLOCK_AHEAD"

// isBuilt reports whether such a program was built.
func (s *stage) isBuilt(name string) bool {
	_, err := os.Stat(s.on.Program(name))
	return err == nil
}

// buildPrograms builds webhook and controller of a source tree with further arguments of 'go build', as webhook-SUFFIX and controller-SUFFIX.
func (s *stage) buildPrograms(ctx context.Context, suffix, root string, args ...string) error {
	for _, name := range []string{"webhook", "controller"} {
		build := append([]string{"build", "-o", s.on.Program(name + "-" + suffix)}, args...)
		cmd := exec.CommandContext(ctx, "go", append(build, "./cmd/"+name)...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("building %s-%s: %w\n%s", name, suffix, err, out)
		}
	}
	return nil
}

// skewSource is added to package time of the programs with a skewed clock.
const skewSource = `package time

import "syscall"

// ahead is the number of seconds by which this clock is wrong.
var ahead = func() int64 {
	text, _ := syscall.Getenv("` + clockVariable + `")
	var n, sign int64 = 0, 1
	for _, c := range text {
		if c == '-' {
			sign = -1
			continue
		}
		n = n*10 + int64(c-'0')
	}
	return n * sign
}()
`

// skewedPrograms builds webhook and controller with another package time: time.Now is wrong for all of their code, client-go, TLS and cert-controller
// included. Timers and durations between two readings are right, as on a machine whose clock was set wrong before the process started.
func (s *stage) skewedPrograms(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	source := filepath.Join(strings.TrimSpace(string(out)), "src", "time")
	text, err := os.ReadFile(filepath.Join(source, "time.go"))
	if err != nil {
		return err
	}
	const reading = "\nfunc Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(text), reading) != 1 {
		return fmt.Errorf("package time of this Go reads the clock otherwise: mend %s for it", "test/faults/programs.go")
	}
	skewed := strings.Replace(string(text), reading, reading+"\tsec += ahead\n", 1)
	changed, added, overlay := filepath.Join(s.on.Dir, "time.go"), filepath.Join(s.on.Dir, "skew.go"), filepath.Join(s.on.Dir, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(source, "time.go"): changed, filepath.Join(source, "skew.go"): added,
	}})
	if err != nil {
		return err
	}
	for file, content := range map[string]string{changed: skewed, added: skewSource, overlay: string(replace)} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			return err
		}
	}
	return s.buildPrograms(ctx, "skewed", s.on.Root, "-overlay", overlay)
}

// oldPrograms builds webhook and controller of the older commit.
func (s *stage) oldPrograms(ctx context.Context) error {
	dir := filepath.Join(s.on.Dir, "old")
	if err := cluster.Export(ctx, s.on.Root, s.old, dir); err != nil {
		return err
	}
	return s.buildPrograms(ctx, strings.TrimPrefix(cluster.Old, "-"), dir, "-buildvcs=false")
}
