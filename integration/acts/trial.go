package acts

import (
	"fmt"
	"hash/fnv"
	"path"
	"slices"
	"strings"
	"time"

	"teleport-update/integration/host"
)

// trial is one combination on its way.
type trial struct {
	*shared
	combination
	least    map[string]int // rows that must be there, by the version that wrote them
	said     strings.Builder
	problems []string
	judged   time.Time // when the run ended that is judged
	excused  bool      // no agent runs while the action is in force, and status says so
	tried    bool      // a run has tried the version that find insists on
	isUndone bool
	missed   bool     // an act before it kept the transaction from coming to its moment
	advices  int      // that were done as status says
	states   []string // that the observer agreed to
	then     sight    // when the action was done, where it is an exception
	was      sight    // before the run that is judged
}

func (r *trial) problem(format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

func (r *trial) run() {
	r.T.Helper()
	if r.ending != nil {
		r.end()
		return
	}
	moments := r.healthy
	if r.to != healthy {
		moments = r.fails
	}
	var with []moment
	_, excused, _ := r.excuse("")
	first := ""
	if excused {
		first = "{\n" + lookScript + "} >$ASIDE/then || :\n"
	}
	for _, m := range moments {
		with = append(with, moment{m.at, strings.ReplaceAll(m.script, theAction, first+r.doing())})
	}
	if err := r.prepare(); err != nil {
		r.problem("%v", err)
		return
	}
	begun := time.Now()
	killed := "no"
	if r.kills {
		killed = "yes"
	}
	said, err := r.begin(r.to, with, r.kills, "KILLED="+killed)
	r.hear(fmt.Sprintf("transaction, %v", time.Since(begun)), said)
	if r.missed = err != nil && r.before != ""; err != nil && !r.missed {
		r.problem("%v", err)
		return
	}
	if r.insists {
		r.wants.Store(r.to)
	}
	if r.boots {
		r.Check(r.Kill())
		r.Check(r.Boot(r.T.Context()))
	}
	if excused && !r.boots {
		r.then, r.was = seen(r.try("", "cat $ASIDE/then").Stdout), r.look()
	}
	r.judge(whileInForce, r.inForce)
	r.observe(whileInForce)
	if r.whole {
		r.followAdvice(whileInForce)
	}
	if r.foreign != "" {
		r.foreignIsKept()
	}
	if names, err := r.Names("/srv/elsewhere"); r.own && (err != nil || len(names) > 0) {
		r.problem("a folder of root's holds %v (%v)", names, err)
	}
	r.isUndone = true
	undo := r.try("", "NEW="+r.to+"; KILLED="+killed+"\n"+r.action.undo)
	if r.hear("undo", undo.Stdout+undo.Stderr); undo.Code != 0 {
		r.problem("the undoing ends with %d", undo.Code)
	}
	for range 2 {
		if r.unwatched() && !r.unproven() { // one run may look while the agent is between two crashes
			r.tick()
			time.Sleep(time.Second)
		}
	}
	r.judge(onceUndone, r.undone)
	r.observe(onceUndone)
	r.followAdvice(onceUndone)
	if r.isBooted() && len(r.problems) == 0 {
		r.Check(r.Kill())
		r.Check(r.Boot(r.T.Context()))
		r.judge(afterABoot, r.undone)
		r.observe(afterABoot)
	}
}

// isBooted is true of each fifth combination, whatever part of them a run has: one boot takes as long as all the rest. Data that are
// in memory are gone after a boot.
func (c combination) isBooted() bool {
	if slices.ContainsFunc(c.action.all(), func(a action) bool {
		return strings.Contains(a.before, "mount -t tmpfs") && strings.Contains(a.before, "tmpfs $DATA;")
	}) {
		return false
	}
	h := fnv.New32a()
	h.Write([]byte(c.String()))
	return h.Sum32()%5 == 0
}

// prepare does what comes before the transaction.
func (r *trial) prepare() error {
	r.T.Helper()
	if r.yesterday {
		r.script("", `cp -a $STORE $YESTERDAY`)
		if said, err := r.begin(healthy, nil, false); err != nil {
			return fmt.Errorf("the update of the day before: %w\n%s", err, said)
		}
	}
	if r.before != "" {
		r.script("", r.before)
	}
	if r.data != "" {
		r.env = append(slices.Clone(r.usual), "DATA="+r.data)
	}
	return nil
}

func (r *trial) hear(who, text string) { fmt.Fprintf(&r.said, "--- %s\n%s", who, text) }

// tick is one run of the timer's.
func (r *trial) tick() {
	r.T.Helper()
	result := r.bounded(host.Command{Args: []string{updater, "update"}, Env: []string{"TELEPORT_UPDATE_SCHEDULED=1"}})
	r.tried = r.tried || strings.Contains(result.Stderr, switchingLine)
	r.hear(fmt.Sprintf("tick, exit code %d, %v", result.Code, result.Took.Round(time.Millisecond)), result.Stderr)
}

// The times at which a host is judged.
const (
	whileInForce = "while it is in force"
	onceUndone   = "once it is undone"
	afterABoot   = "after a boot in the end"
)

// judge makes one run, sees what the host is on, and that more runs leave it so.
func (r *trial) judge(when string, enough func(sight) []string) {
	r.T.Helper()
	r.tick()
	r.judged = time.Now()
	first, problems := r.settled(enough)
	for _, p := range problems {
		r.problem("%s: %s", when, p)
	}
	if problems != nil {
		return
	}
	r.keepLeast(first)
	if first.version() == "" {
		return // what starts and fails again is no agent that runs
	}
	if r.slow {
		return
	}
	more := r.try("", moreScript)
	said, processes, _ := strings.Cut(more.Stdout, processesLine)
	r.hear("three more ticks", said)
	if r.insists && !r.tried && strings.Contains(said, switchingLine) {
		r.tried = true
		return // it is tried once, and the first run was not to
	}
	if first.phase != "" && !strings.Contains(said, "ing the agent") {
		return // no run started anything, for the undoing waits for others: systemd starts what crashes on what they did
	}
	last, restarts := first.process, 0
	if first.phase != "" {
		restarts = -1 // an undoing that waited for others may restart the agent in the run that ends it
	}
	for n, process := range strings.Split(strings.TrimSuffix(processes, "\n"), "\n") {
		if strings.TrimSpace(process) == "" {
			return // it has ended by itself meanwhile: what starts and fails again is no agent that runs
		}
		if process != last {
			last, restarts = process, restarts+1
		}
		if restarts > 0 {
			now := r.look()
			r.problem("%s: tick %d has the agent restarted: %s, now %s (%s), before %s (%s)", when, n+2, process, now.process, now.program,
				first.process, first.program)
			return
		}
	}
}

const switchingLine = "switching from="

// moreScript makes three more runs, and tells of the process that serves after each.
const (
	processesLine = "the processes that served:\n"
	moreScript    = `
export TELEPORT_UPDATE_SCHEDULED=1
after=""
for n in 1 2 3; do
	$UPDATER update 2>&1 || echo "exit code $?"
	` + agentPID + `
	after="$after$life
"
done
printf 'the processes that served:\n%s' "$after"
`
)

// inForce is what must be true while the action is in force: where no program could
// help, that status says so.
func (r *trial) inForce(s sight) []string {
	problems := append(s.runs(r.hides), r.keptRows(s)...)
	if problems == nil || time.Since(r.judged) < forgiving {
		return problems
	}
	result := r.Try(updater, "status", "--format", "text")
	status := result.Stdout + result.Stderr
	if x, excused, isSaid := r.excuse(status); excused && r.then.soundly() && !x.unseen {
		problems = append(problems, "the agent that served when it was done is down: "+r.then.program)
	} else if excused && r.was.soundly() && !x.unseen {
		problems = append(problems, "the agent that served before the run is down: "+r.was.program)
	} else if excused && isSaid && (!s.serves() || s.process == r.was.process) {
		r.excused = true
		return nil
	} else if excused && strings.Contains(status, " idle: ") {
		problems = append(problems, "status does not say that "+x.why)
	}
	return append(problems, "status says: "+status)
}

// soundly reports whether an agent served that nobody had a reason to stop as long as no
// other can be started.
func (s sight) soundly() bool { return s.serves() && s.runs(false) == nil }

// forgiving is how long an agent that need not run may take all the same.
const forgiving = 4 * time.Second

// undone is what must be true once the action is undone.
func (r *trial) undone(s sight) []string {
	if r.unproven() && (s.version() == "" || fails(s.version())) {
		return nil
	}
	problems := append(s.runs(r.spoils), r.keptRows(s)...)
	if s.phase != "" {
		problems = append(problems, "a transaction is open, "+s.phase)
	}
	if fails(s.version()) {
		problems = append(problems, "the agent is on "+s.version()+", which fails")
	}
	below := "/" + s.version() + "/bin/teleport"
	leads := []string{programs + below}
	if r.elsewhere != "" {
		leads = append(leads, r.elsewhere+below)
	}
	if r.exchanged {
		leads = append(leads, programs+"/"+oldVersion+"/bin/teleport")
	}
	if !slices.Contains(leads, s.link) {
		problems = append(problems, "the link teleport leads to "+s.link)
	}
	return problems
}

// unproven reports whether the host may be on a version that fails: of an agent that did not run, a
// version counts as active (RFD 0169). The timer leaves one that dies once somebody starts it; one that
// is only never ready, nobody can tell later.
func (r *trial) unproven() bool {
	return r.unwatched() && (r.to == unready || r.parts != nil)
}

// unwatched reports whether a version that fails was switched to while no agent ran: somebody stopped it, a boot did not
// start it, or systemd was not to start it before.
func (r *trial) unwatched() bool {
	return fails(r.to) && slices.ContainsFunc(r.all(), func(a action) bool {
		return a.plainName() == "the agent is stopped" || a.before != "" && slices.Contains(notStarted, a.plainName()) || r.boots && slices.Contains(slices.Concat(keepFromStarting, keepDown), a.plainName())
	})
}

// notStarted are settings with which an agent that was restarted is down, and no failure.
var notStarted = []string{"a condition does not hold", "a variable of systemd's is not there", "a folder is no mount",
	"a condition does not hold that nobody has read"}

// keepDown are what people want so that a boot starts no agent.
var keepDown = []string{"the agent is disabled", "the agent is masked", "presets disable everything"}

// keptRows says which rows are gone that must be there.
func (r *trial) keptRows(s sight) (problems []string) {
	if r.rowsGo != "" || s.database != "" || r.hides && !r.isUndone {
		return nil
	}
	for v, n := range r.least {
		if s.rows[v] < n {
			problems = append(problems, fmt.Sprintf("of %d rows of version %s there are %d", n, v, s.rows[v]))
		}
	}
	return problems
}

// keepLeast keeps what may not be lost from now on: what a version wrote that is
// not to be undone any more.
func (r *trial) keepLeast(s sight) {
	if v := s.version(); (v == oldVersion || v == s.active) && (r.isUndone || !r.hides) {
		r.least[v] = max(r.least[v], s.rows[v])
	}
}

// foreignIsKept looks for what somebody else put in the updater's way.
func (r *trial) foreignIsKept() {
	r.T.Helper()
	found := strings.Fields(r.try("", `grep -rlsF $FOREIGN $LINKS /usr/local/lib/systemd /etc/systemd/system $STORE $PROGRAMS $DATA || true`).Stdout)
	if len(found) == 0 {
		r.problem("the file %s is gone", r.foreign)
		return
	}
	status := r.Try(updater, "status", "--format", "text")
	said := r.said.String() + status.Stdout
	for _, name := range found {
		// What is in a folder goes by the folder's name.
		if name == r.foreign || strings.Contains(said, name) || strings.HasSuffix(r.foreign, "/file") && strings.Contains(said, path.Dir(name)) {
			return
		}
	}
	r.problem("the file %s is kept as %v, but nobody says so", r.foreign, found)
}
