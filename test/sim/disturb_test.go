package sim_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/tidegate/tidegate/pkg/events"
)

// disturb lets something go wrong, seldom.
func (w *world) disturb() {
	f := w.plan.Faults
	for _, d := range []struct {
		kind string
		per  float64 // 1,000 steps
		do   func()
	}{
		{"cut", f.Cut, w.cut},
		{"partition", f.Partition, w.partition},
		{"kill", f.Kill, w.killOne},
		{"pause", f.Pause, w.pause},
		{"step", f.Step, w.stepClock},
		{"forget", f.Forget, w.forget},
	} {
		if w.disturbed(d.kind) && w.chance(d.per/1000) {
			w.struck(d.kind)
			d.do()
		}
	}
}

// anyone chooses a living process or a caller.
func (w *world) anyone() *process {
	all := slices.Concat(w.living(""), w.work.callers)
	return all[w.rng.IntN(len(all))]
}

// cut ends the links of a process, or of all with the server's process.
func (w *world) cut() {
	if w.rng.IntN(4) == 0 {
		w.note("scheduler", "nats", "restarts")
		w.nats.Restart()
		return
	}
	p := w.anyone()
	w.note("scheduler", p.name, "loses its connection to NATS")
	w.nats.Cut(p.name)
}

// partition keeps a process from NATS for a while.
func (w *world) partition() {
	p, d := w.anyone(), time.Duration(200+w.rng.IntN(6000))*time.Millisecond
	w.note("scheduler", p.name, fmt.Sprintf("does not reach NATS for %v", d))
	w.nats.Partition(p.name, true)
	w.after(d, func() {
		if !p.dead {
			w.note("scheduler", p.name, "reaches NATS again")
			w.nats.Partition(p.name, false)
		}
	})
}

// killOne kills a process and starts its successor after a while.
func (w *world) killOne() {
	running := w.living("")
	if len(running) == 0 {
		return
	}
	p, d := running[w.rng.IntN(len(running))], time.Duration(50+w.rng.IntN(4000))*time.Millisecond
	w.note("scheduler", p.name, fmt.Sprintf("is killed; its successor starts in %v", d))
	w.kill(p)
	w.after(d, func() { w.spawn(p.service, p.number) })
}

// pause keeps everything from a process for a while, as a long garbage collection does.
func (w *world) pause() {
	p, d := w.anyone(), time.Duration(20+w.rng.IntN(5000))*time.Millisecond
	w.note("scheduler", p.name, fmt.Sprintf("pauses for %v", d))
	w.agenda.paused[p.name] = time.Now().Add(d)
}

// stepClock sets the wall clock of a process.
func (w *world) stepClock() {
	p, d := w.anyone(), time.Duration(w.rng.IntN(3000)-1500)*time.Millisecond
	w.note("scheduler", p.name, fmt.Sprintf("its wall clock is set %v ahead", d))
	w.mu.Lock()
	p.ahead = d
	w.mu.Unlock()
}

// forget restarts NATS without the newest messages of a stream.
func (w *world) forget() {
	streams := w.nats.Streams()
	if len(streams) == 0 {
		return
	}
	name := streams[w.rng.IntN(len(streams))]
	most := 5
	if w.plan.Harsh {
		most = 30
		if slices.Contains(streams, events.StreamName) && w.rng.IntN(2) == 0 {
			name = events.StreamName
		}
	}
	n := w.nats.Forget(name, 1+w.rng.IntN(most))
	w.note("scheduler", "nats", fmt.Sprintf("restarts and has forgotten the last %d messages of %s", n, name))
	w.nats.Restart()
}

// heal ends all disturbances.
func (w *world) heal() {
	w.healing = true
	w.note("scheduler", "scheduler", "no more disturbances")
	clear(w.agenda.paused)
	for _, t := range w.agenda.timers {
		t.do()
	}
	w.agenda.timers = nil
	for _, p := range w.processes {
		w.mu.Lock()
		p.ahead = 0
		w.mu.Unlock()
		if !p.dead {
			w.nats.Partition(p.name, false)
		}
	}
}
