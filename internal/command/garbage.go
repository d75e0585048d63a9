package command

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// The percentages of GOGC that BoundGarbage chooses from: most is Go's own default, least collects a heap that has grown by a quarter.
const (
	leastGarbage = 25
	mostGarbage  = 100
)

// BoundGarbage lets the heap grow by about as many bytes over what is in use before it is collected, by mostGarbage percent at most and by leastGarbage at
// least. Go's own bound is relative: a cache of 100 MB keeps another 100 MB for garbage. Environment variable GOGC overrides it.
func BoundGarbage(bytes uint64) {
	if os.Getenv("GOGC") == "" {
		boundAfterNext(bytes)
	}
}

// boundAfterNext sets the percentage after each collection, for the next one.
func boundAfterNext(bytes uint64) {
	// A cleanup runs once, after the collection that finds its object unused. The runtime may keep smaller objects together with others.
	object := new([64]byte)
	runtime.AddCleanup(object, func(bytes uint64) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		debug.SetGCPercent(garbagePercent(live[0].Value.Uint64(), bytes))
		boundAfterNext(bytes)
	}, bytes)
}

// garbagePercent returns GOGC for a heap of which live bytes are in use.
func garbagePercent(live, bytes uint64) int {
	return int(min(max(100*bytes/max(live, 1), leastGarbage), mostGarbage))
}
