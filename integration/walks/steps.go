package walks

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Command is one run of the updater.
type Command struct {
	Name       string
	Version    string // of pin and rollback
	Now        bool
	SkipBackup bool
	Scheduled  bool // the timer runs it
	Force      bool // --force, or --allow-downgrade
	Keep       bool // --keep-agent
}

// opens reports whether the command takes the update lock, and so closes what a
// cut left open.
func (c Command) opens() bool { return c.Name != "verify" }

// args is the command line, without the folders and the addresses.
func (c Command) args() []string {
	args := []string{c.Name}
	add := func(on bool, arg string) {
		if on {
			args = append(args, arg)
		}
	}
	add(c.Now, "--now")
	add(c.SkipBackup, "--skip-backup")
	add(c.Force && c.Name == "enable", "--allow-downgrade")
	add(c.Force && c.Name == "rollback", "--force")
	add(c.Keep, "--keep-agent")
	add(c.Version != "", c.Version)
	return args
}

func (c Command) String() string {
	s := "teleport-update " + strings.Join(c.args(), " ")
	if c.Scheduled {
		s += " (timer)"
	}
	return s
}

// Step is one thing that happens: a command, or something around it.
type Step struct {
	Command *Command
	// KillAt is where the command is killed: entry and exit of each call that
	// changes something are counted. 0 lets it end.
	KillAt  int
	Other   Other    // what somebody else does while the command runs
	Outside *Outside // what changes on the network
	Agent   *Agent
	Damage  Damage        // of the active version, or the previous one
	Before  bool          // the previous one is meant
	Unlink  string        // a link that somebody removes
	Unit    bool          // somebody edits the unit
	Pass    time.Duration // time goes by; less than 0: the clock is set back
	Spoil   string        // what becomes of the previous version's backup: "cut" or "unfinished"
}

// Agent is a while in which the active agent runs, and then stops.
type Agent struct {
	Rows int
	WAL  bool // its journal mode
	Dies bool // and leaves what it wrote in the WAL
}

func (s Step) String() string {
	which := "the active version"
	if s.Before {
		which = "the previous version"
	}
	switch {
	case s.Command != nil && s.KillAt > 0:
		return fmt.Sprintf("%v, killed at point %d", *s.Command, s.KillAt)
	case s.Command != nil && s.Other != "":
		return fmt.Sprintf("%v, while %s", *s.Command, s.Other)
	case s.Command != nil:
		return s.Command.String()
	case s.Outside != nil:
		return s.Outside.String()
	case s.Agent != nil:
		return fmt.Sprintf("the agent runs: %+v", *s.Agent)
	case s.Damage != Whole:
		return fmt.Sprintf("%s is damaged: %s", which, [...]string{Emptied: "a program is empty", Altered: "a program is altered", Unmarked: "sha256 is gone"}[s.Damage])
	case s.Unlink != "":
		return "the link " + s.Unlink + " is removed"
	case s.Unit:
		return "the unit is edited"
	case s.Pass != 0:
		return fmt.Sprintf("%v go by", s.Pass)
	case s.Spoil != "":
		return "the previous version's backup is " + s.Spoil
	}
	return "nothing"
}

func (o *Outside) String() string {
	var amiss []string
	for _, r := range Releases() {
		switch s := o.Shelves[r]; {
		case s.Missing:
			amiss = append(amiss, r.String()+" is missing")
		case s.WrongSum:
			amiss = append(amiss, r.String()+" has a wrong checksum")
		case !s.Build.Runs:
			amiss = append(amiss, fmt.Sprintf("%s does not run (build %d)", r, s.Build.Number))
		case s.Build.Number > 1:
			amiss = append(amiss, fmt.Sprintf("%s was published anew (build %d)", r, s.Build.Number))
		}
	}
	state := fmt.Sprintf("the cluster wants %s, auto_update %v", o.Target, o.Auto)
	if o.Down {
		state = "find is down"
	}
	return strings.Join(append([]string{state}, amiss...), "; ")
}

// Options say what kinds of steps a walk has.
type Options struct {
	Steps  int
	Kills  bool
	Others bool
}

// Plan makes the steps of a walk from a seed. They do not depend on anything
// else.
func Plan(seed uint64, o Options) (agentBefore string, steps []Step) {
	p := planner{rand: rand.New(rand.NewPCG(seed, 0x77616c6b)), o: o, turn: int(seed % 1000 * 5)}
	p.out = quiet()
	p.out.Target = pick(p.rand, Releases()[:4])
	if p.rand.IntN(4) == 0 {
		agentBefore = "1.1.0"
	}
	p.add(Step{Outside: p.outside()})
	if p.chance(2) {
		p.add(Step{Agent: p.agent()}) // somebody's agent was here before
	}
	p.command(Command{Name: "enable", Force: agentBefore != ""})
	for commands := 1; commands < o.Steps; {
		commands += p.next()
	}
	return agentBefore, p.steps
}

type planner struct {
	rand  *rand.Rand
	o     Options
	out   Outside
	steps []Step
	turn  int // of the actions of others
}

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

func (p *planner) add(s Step) { p.steps = append(p.steps, s) }

// chance is true in one of n cases.
func (p *planner) chance(n int) bool { return p.rand.IntN(n) == 0 }

// next adds what happens around a command, and the command; it returns how many
// commands it added.
func (p *planner) next() int {
	if p.chance(2) {
		p.steer()
		p.add(Step{Outside: p.outside()})
	}
	if !p.chance(3) {
		p.add(Step{Agent: p.agent()})
	}
	p.happen()
	before := len(p.steps)
	if p.chance(6) {
		p.thereAndBack()
		return 3
	}
	switch n := p.rand.IntN(100); {
	case n < 34:
		p.command(Command{Name: "update", Scheduled: true})
	case n < 52:
		p.command(Command{Name: "update", Now: true, SkipBackup: p.chance(8)})
	case n < 70:
		p.command(Command{Name: "rollback", Version: p.version(2), Force: p.chance(5)})
	case n < 78:
		p.command(Command{Name: "enable", Force: p.chance(4)})
	case n < 85:
		p.command(Command{Name: "pin", Version: p.version(2)})
	case n < 91:
		p.command(Command{Name: "unpin"})
	case n < 93:
		p.command(Command{Name: "disable"})
	case n < 96:
		p.command(Command{Name: "verify"})
	case n < 98:
		p.command(Command{Name: "recover"})
	default:
		p.command(Command{Name: "uninstall", Keep: p.chance(3)})
		p.command(Command{Name: "enable", Force: p.chance(2)})
	}
	return len(p.steps) - before
}

// thereAndBack goes to another version, back, and to the same one again, with an
// agent that writes in between: RFD 0169 §Downgrades is about that.
func (p *planner) thereAndBack() {
	p.out.Target = pick(p.rand, Releases())
	p.out.Shelves[p.out.Target] = Shelf{Build: Build{Release: p.out.Target, Number: 1, Runs: true}}
	p.out.Down, p.out.Auto = false, true
	p.add(Step{Outside: p.outside()})
	p.command(Command{Name: "update", Now: p.chance(2)})
	p.add(Step{Agent: p.agent()})
	p.command(Command{Name: "rollback"})
	p.add(Step{Agent: p.agent()})
	if p.chance(2) {
		p.command(Command{Name: "update", Now: true})
	} else {
		p.command(Command{Name: "rollback", Version: p.out.Target.Version})
	}
}

// command adds a command, sometimes one that is killed, and then perhaps the one
// that closes what it left.
func (p *planner) command(c Command) {
	if p.o.Kills && p.chance(3) {
		for {
			p.add(Step{Command: new(c), KillAt: 1 + p.rand.IntN(reach[c.Name])})
			if p.o.Others && p.chance(3) {
				c = Command{Name: "recover"}
				p.add(Step{Command: &c, Other: p.other(c, !p.chance(3))})
				break
			}
			if c = (Command{Name: "recover"}); !p.chance(3) {
				break
			}
		}
		return
	}
	if p.o.Others && p.chance(2) {
		other := p.other(c, false)
		if strings.HasPrefix(string(other), "sqlite.db-") {
			p.add(Step{Agent: &Agent{Rows: 2, WAL: true, Dies: true}}) // else there is none
		}
		p.add(Step{Command: &c, Other: other})
		return
	}
	p.add(Step{Command: &c})
}

// other takes those in turn that may meet a command, from where this walk begins: so
// a few walks have all.
func (p *planner) other(c Command, open bool) Other {
	names := suitable(c, open)
	if open {
		return pick(p.rand, names)
	}
	for range actions {
		p.turn++
		if next := actions[p.turn%len(actions)].name; slices.Contains(names, next) {
			return next
		}
	}
	return names[0]
}

// reach is about how many points a command has when it has something to do.
var reach = map[string]int{
	"enable": 260, "update": 240, "rollback": 160, "pin": 220, "unpin": 10, "disable": 10,
	"uninstall": 120, "recover": 60, "verify": 4,
}

func (p *planner) version(oneIn int) string {
	if p.chance(oneIn) {
		return pick(p.rand, Releases()).Version
	}
	return ""
}

func (p *planner) agent() *Agent {
	return &Agent{Rows: 1 + p.rand.IntN(3), WAL: p.chance(2), Dies: p.chance(3)}
}

// steer changes what the cluster wants and what the mirror has.
func (p *planner) steer() {
	p.out.Down = p.chance(12)
	p.out.Auto = !p.chance(8)
	if p.chance(2) {
		p.out.Target = pick(p.rand, Releases())
		if !p.chance(4) {
			p.out.Target.Edition = Releases()[0].Edition
		}
	}
	if !p.chance(3) {
		return
	}
	r := p.out.Target
	s := p.out.Shelves[r]
	switch p.rand.IntN(5) {
	case 0:
		s.Missing = !s.Missing
	case 1:
		s.WrongSum = !s.WrongSum
	default:
		s.Build.Number++
		s.Build.Runs = p.chance(2)
		s.Missing, s.WrongSum = false, false
	}
	p.out.Shelves[r] = s
}

// outside is a copy of what the network is now.
func (p *planner) outside() *Outside {
	o := p.out
	o.Shelves = map[Release]Shelf{}
	for r, s := range p.out.Shelves {
		o.Shelves[r] = s
	}
	return &o
}

// happen adds what befalls a host now and then.
func (p *planner) happen() {
	switch p.rand.IntN(24) {
	case 0, 1:
		p.add(Step{Damage: Emptied + Damage(p.rand.IntN(3)), Before: p.chance(2)})
	case 2, 3:
		p.add(Step{Unlink: pick(p.rand, []string{"teleport", "tsh", "tctl"})})
	case 4:
		p.add(Step{Unit: true})
	case 5, 6, 7:
		p.add(Step{Pass: pick(p.rand, []time.Duration{90 * time.Minute, 30 * time.Hour, 31 * 24 * time.Hour, -time.Hour, -31 * 24 * time.Hour})})
	case 8:
		p.add(Step{Spoil: pick(p.rand, []string{"cut", "unfinished"})})
	}
}
