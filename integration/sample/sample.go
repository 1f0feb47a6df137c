// Package sample lets a test that tries some of very many cases, as kills at calls or acts of others, try fewer of them on
// a slow machine, so that all tests end within the time that they have.
//
// A sample takes its first Least cases, however long they take: a test that tries nothing shows nothing. It begins no other
// one once its own budget is used up, or after the time that the environment names for all samples (Until). Slowness fails
// no test. The test must say how many cases it left out (Sample.Cut).
//
// If a person names the cases, by FAULTS=all, FAULTS_POINTS or OTHERS, all of them are taken.
package sample

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// Least is how many cases are taken on any machine.
	Least = 8
	// Until is a variable of the environment: seconds since 1970, after which samples begin no other case. tools/runtests sets it.
	Until = "SAMPLES_UNTIL"
	// Slow begins what Cut says.
	Slow = "a slow machine: "
)

// Sample decides whether another case is begun. Its methods may be called at the same time.
type Sample struct {
	now   func() time.Time
	until time.Time // zero: all cases are taken

	mu           sync.Mutex
	taken, cases int
	cut          bool
}

// Within is a sample that begins now and has a budget. It must be far more than an ordinary machine needs.
func Within(budget time.Duration) *Sample { return within(budget, time.Now, os.Getenv) }

// Whole is a sample of which all cases are taken.
func Whole() *Sample { return &Sample{} }

func within(budget time.Duration, now func() time.Time, getenv func(string) string) *Sample {
	if getenv("FAULTS") == "all" || getenv("FAULTS_POINTS") != "" || getenv("OTHERS") != "" {
		return Whole()
	}
	s := &Sample{now: now, until: now().Add(budget)}
	if text := getenv(Until); text != "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			panic(fmt.Sprintf("%s=%s is no number of seconds since 1970", Until, text))
		}
		if all := time.Unix(seconds, 0); all.Before(s.until) {
			s.until = all
		}
	}
	return s
}

// Among adds cases to those that a quick machine takes.
func (s *Sample) Among(cases int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cases += cases
}

// Next reports whether another case is to be begun, and counts it.
func (s *Sample) Next() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over() {
		s.cut = true
		return false
	}
	s.taken++
	return true
}

// Over reports whether no other case is begun. A test that would prepare one need not do so, and leaves it out.
func (s *Sample) Over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = s.cut || s.over()
	return s.over()
}

func (s *Sample) over() bool { return s.taken >= Least && s.Late() }

// Late reports whether no more than the least is taken: a test does not prepare several hosts for that.
func (s *Sample) Late() bool { return !s.until.IsZero() && !s.now().Before(s.until) }

// Cut says that cases were left out, to be put behind a line of figures: ", a slow machine: 21 of 60". It is empty if none
// was.
func (s *Sample) Cut() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.cut {
		return ""
	}
	return fmt.Sprintf(", %s%d of %d", Slow, s.taken, max(s.cases, s.taken))
}

// IsCut reports whether a line of figures is of a sample that was cut short.
func IsCut(line string) bool { return strings.Contains(line, Slow) }

// Spread puts a list into an order of which each beginning is spread over the whole list: what a slow machine leaves out is
// not all at the end. The first one stays the first.
func Spread[T any](list []T) []T {
	step := len(list) * 618 / 1000
	for step > 1 && divisor(step, len(list)) > 1 {
		step--
	}
	spread := make([]T, len(list))
	for i := range list {
		spread[i] = list[i*max(step, 1)%len(list)]
	}
	return spread
}

// divisor is the greatest common one.
func divisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
