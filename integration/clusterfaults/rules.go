//go:build hosts

package clusterfaults

import (
	"sync"
	"time"

	"teleport-update/find/rollout"
)

// scene is what an answer is judged by: what hosts themselves run, and what the store has halted.
type scene struct {
	target         string
	lost           int            // epochs that have begun during the rollout
	on             map[string]int // hosts of each group that run the target
	told           map[string]int // hosts of each group that were told to
	flying         int            // hosts of prod that were told to, and neither run it nor have failed; this one too, if it is told to
	halted, before bool           // the store has halted the group, and had so when the process began
	first, again   bool           // the host was not told so before; it was
	arrived        bool           // the host runs the target
}

func (w *world) scene(p *process, h *member, a findAnswer) scene {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := scene{target: w.target, lost: w.db.failovers - w.epochAt, on: make(map[string]int), told: make(map[string]int)}
	for _, other := range w.hosts {
		was := other.toldTo == s.target
		told := was || other == h && a.Update
		if was {
			s.told[other.group]++
		}
		finished := other.version == s.target || other.failed == s.target
		if other.version == s.target {
			s.on[other.group]++
		}
		if other.group == "prod" && told && !finished {
			s.flying++
		}
	}
	key := w.key(h.group, a.Version)
	s.halted, s.before = w.halted[key], p.after[key]
	s.first, s.again, s.arrived = h.toldTo != s.target, h.toldTo == a.Version, h.version == s.target
	w.answers++
	return s
}

// judge looks at an answer of find, asked for at a time: whether that may be.
func (w *world) judge(p *process, h *member, a findAnswer, asked time.Time) {
	s := w.scene(p, h, a)
	if a.Version == "" {
		w.broke("host %s of %s is told no version", h.id, h.group)
	}
	if back := p.lets(h.id+" "+a.Version, asked, a.Update, s.halted && s.again); back || a.Update && s.before {
		w.broke("a halt is forgotten: host %s of %s is told to update to %s (this process had refused it: %t, it began after the halt: %t)",
			h.id, h.group, a.Version, back, s.before)
	}
	if !a.Update || a.Version != s.target || s.arrived {
		return
	}
	switch {
	case h.group == "prod" && s.on["dev"] < devHosts:
		w.broke("two groups at once: host %s of prod is told to update to %s while %d of %d hosts of dev run it",
			h.id, s.target, s.on["dev"], devHosts)
	case h.group == "prod" && s.flying > inFlight*(1+s.lost):
		w.broke("%d hosts of prod are on their way to %s at once", s.flying, s.target)
	case h.group == "dev" && s.first && s.on["dev"] == 0 && s.told["dev"] > s.lost:
		w.broke("host %s of dev is told to update to %s, and the canary has not done so", h.id, s.target)
	}
}

// lets notes that a process refuses a host what it was told before, because of a halt, and reports whether it forgets that. An
// answer that was asked for before the refusal came may be judged after it. After a failover that lost the place up to which
// hosts were told, a process that does not know the halt yet refuses the hosts above that place, and tells the others as before.
func (p *process) lets(host string, asked time.Time, update, halted bool) (back bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	since, refused := p.refused[host]
	if !update && halted && !refused {
		p.refused[host] = time.Now()
	}
	return update && refused && asked.After(since)
}

// ask has all servers that run be asked all the time, until stop is closed: find always answers.
func (w *world) ask(stop chan struct{}, all *sync.WaitGroup) {
	for _, s := range w.servers {
		all.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				case <-time.After(25 * time.Millisecond):
				}
				p := s.running()
				if p == nil || p.isPaused() {
					continue
				}
				h := w.hosts[n%len(w.hosts)]
				asked := time.Now()
				a, err := s.find(p, h)
				switch {
				case err == nil:
					w.judge(p, h, a, asked)
				case s.running() == p && !p.isPaused() && !p.over():
					w.broke("server %d does not answer: %v", s.number, err)
				}
			}
		})
	}
}

func (p *process) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// checkEnd looks at what has to be there when all faults are over.
func (w *world) checkEnd(r *rollout.Rollout) {
	w.mu.Lock()
	defer w.mu.Unlock()
	epochs, now := w.db.epochs()
	if len(epochs) != w.db.failovers+1 || epochs[w.db.failovers] != now {
		w.broken = append(w.broken, "the store does not say how often it has failed over")
	}
	if r == nil {
		w.broken = append(w.broken, "there is no rollout")
		return
	}
	for i := range r.Status.Groups {
		g := &r.Status.Groups[i]
		if wanted := w.bad && g.Name == "prod"; wanted != (g.Halted != nil) {
			w.broken = append(w.broken, "in the end "+g.Name+" is "+string(g.State)+", halted: "+haltOf(g))
		}
	}
	for _, h := range w.hosts {
		if !w.bad && h.version != w.target {
			w.broken = append(w.broken, "in the end host "+h.id+" runs "+h.version)
		}
	}
}

func haltOf(g *rollout.GroupStatus) string {
	if g.Halted == nil {
		return "no"
	}
	return string(g.Halted.Reason) + " " + g.Halted.Message
}
