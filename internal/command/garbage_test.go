package command

import (
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestGarbagePercent(t *testing.T) {
	for live, want := range map[uint64]int{0: 100, 10 << 20: 100, 20 << 20: 100, 40 << 20: 50, 80 << 20: 25, 8 << 30: 25} {
		if got := garbagePercent(live, 20<<20); got != want {
			t.Errorf("GOGC is %d with %d MiB in use, want %d", got, live>>20, want)
		}
	}
}

// TestBoundGarbage: each collection sets the percentage by what it found in use.
func TestBoundGarbage(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	t.Setenv("GOGC", "")
	BoundGarbage(64 << 20)
	grown := make([][]byte, 1)
	for _, step := range []struct{ mib, percent int }{{1, 100}, {100, 64}, {300, 25}, {1, 100}} {
		grown[0] = make([]byte, step.mib<<20)
		var got int
		for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			runtime.GC()
			got = debug.SetGCPercent(step.percent)
			if debug.SetGCPercent(got); got > step.percent-8 && got <= step.percent {
				break
			}
		}
		if got <= step.percent-8 || got > step.percent {
			t.Errorf("GOGC is %d with %d MiB in use, want %d", got, step.mib, step.percent)
		}
	}
	runtime.KeepAlive(grown)
}

// TestGarbageOfUser: what the environment asks for stays. It runs in a process of its own, in which nothing else sets the percentage.
func TestGarbageOfUser(t *testing.T) {
	if os.Getenv("GOGC") != "70" {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestGarbageOfUser$", "-test.count=1")
		child.Env = append(os.Environ(), "GOGC=70")
		if out, err := child.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return
	}
	BoundGarbage(1)
	for range 3 {
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
	}
	if got := debug.SetGCPercent(70); got != 70 {
		t.Errorf("GOGC is %d, want 70", got)
	}
}
