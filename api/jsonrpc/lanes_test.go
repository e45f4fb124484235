package jsonrpc

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// Whatever is put into which lane: what is in a lane with a name begins when all is
// done that was put into the one without a name before, and everything is done.
func TestTheLaneWithoutANameComesFirst(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		names := rapid.SliceOfN(rapid.SampledFrom([]string{"", "", "a", "b", "c"}), 1, 60).Draw(rt, "names")
		running := rapid.IntRange(1, 4).Draw(rt, "running")
		var mu sync.Mutex
		var done []int
		l := newLanes(100, running)
		for i, name := range names {
			var before []int
			for k, other := range names[:i] {
				if other == "" || other == name {
					before = append(before, k)
				}
			}
			l.add(name, task{run: func() {
				mu.Lock()
				defer mu.Unlock()
				for _, k := range before {
					if name == "" && names[k] != "" {
						continue
					}
					if !slices.Contains(done, k) {
						rt.Errorf("task %d began before task %d of %v was done", i, k, names)
					}
				}
				done = append(done, i)
			}})
		}
		l.wg.Wait()
		if len(done) != len(names) || len(l.byName) != 0 || len(l.held) != 0 {
			rt.Errorf("of %d tasks %d were done, %d lanes are left, %d held", len(names), len(done), len(l.byName), len(l.held))
		}
	})
}

func TestWhatWaitsForTheLaneWithoutANameIsDroppedWithTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(10, 4)
		release := make(chan struct{})
		var ran []string
		l.add("", task{run: func() { <-release }})
		for i := range 3 {
			l.add(fmt.Sprint(i), task{run: func() { ran = append(ran, fmt.Sprint(i)) }})
		}
		synctest.Wait()
		l.stop()
		close(release)
		l.wg.Wait()
		if len(ran) > 0 {
			t.Errorf("%v ran", ran)
		}
	})
}
