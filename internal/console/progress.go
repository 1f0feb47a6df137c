package console

import (
	"fmt"
	"sync"
	"time"
)

// Long work says what it does after firstWord, and again every nextWord.
const (
	firstWord = 4 * time.Second
	nextWord  = 8 * time.Second
	// redrawn is how often a terminal shows the line again.
	redrawn = time.Second
)

// Progress says what long work does, and how long the rest of it will take. Work that takes less than firstWord
// says nothing.
type Progress struct {
	begun time.Time
	stop  func()

	mu          sync.Mutex
	what        string
	usual       time.Duration // of the whole, before anything is done; 0 is unknown
	done, total float64
	at          time.Time // when so much was done
}

// Watch begins to tell of work that usually takes so long; 0 means that nobody knows. say gets each word. End it with End.
func Watch(what string, usual time.Duration, say func(word string)) *Progress {
	return watch(what, usual, nextWord, say)
}

// Watch is the function Watch for this stream. A terminal shows one line, which is drawn again and gives way to the next
// text. Elsewhere, each word is a line.
func (o *Output) Watch(what string, usual time.Duration) *Progress {
	if !o.Terminal() {
		return Watch(what, usual, func(word string) { fmt.Fprintln(o, Line(word)) })
	}
	p := watch(what, usual, redrawn, func(word string) { o.Draw(Excerpt(word, o.Width()-2)) })
	stop := p.stop
	p.stop = func() {
		stop()
		o.giveWay()
	}
	return p
}

func watch(what string, usual, again time.Duration, say func(word string)) *Progress {
	now := time.Now()
	p := &Progress{begun: now, at: now, what: what, usual: usual}
	end, ended := make(chan struct{}), make(chan struct{})
	p.stop = sync.OnceFunc(func() { close(end); <-ended })
	go func() {
		defer close(ended)
		timer := time.NewTimer(firstWord)
		defer timer.Stop()
		for {
			select {
			case <-end:
				return
			case now := <-timer.C:
				say(p.word(now))
				timer.Reset(again)
			}
		}
	}()
	return p
}

// Step names what the work does now.
func (p *Progress) Step(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what = what
}

// Done notes how much of the whole is done, in any unit.
func (p *Progress) Done(done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.total, p.at = float64(done), float64(total), time.Now()
}

// End ends it.
func (p *Progress) End() { p.stop() }

// word says what the work does, since when, how much is done, and how long the rest takes.
func (p *Progress) word(now time.Time) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	line := fmt.Sprintf("%s … %s", p.what, rounded(now.Sub(p.begun)))
	if p.total > 0 {
		line += fmt.Sprintf(", %.0f %%", 100*min(p.done/p.total, 1))
	}
	if left := p.left(now); left > 0 {
		line += fmt.Sprintf(", about %s left", rounded(left))
	}
	return line
}

// left goes by the speed until now, and before anything is done by how long such work usually takes.
func (p *Progress) left(now time.Time) time.Duration {
	if p.total > 0 && p.done > 0 {
		whole := float64(p.at.Sub(p.begun)) * p.total / p.done
		return time.Duration(whole) - now.Sub(p.begun)
	}
	return p.usual - now.Sub(p.begun)
}

func rounded(d time.Duration) string {
	if d < 2*time.Minute {
		return fmt.Sprintf("%.0f s", max(d.Seconds(), 1))
	}
	return fmt.Sprintf("%.0f min", d.Minutes())
}
