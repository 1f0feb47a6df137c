package acts

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// observation is a host as systemctl, readlink, sqlite3 and /proc show it: facts by their
// names. None of it comes from the updater.
type observation map[string]string

// What is read of units has the unit's name before it.
const observeScript = `
show() { timeout 10 systemctl show "$2" -p "$3" 2>/dev/null | sed "s/^/$1./"; }
` + agentPID + `
echo "process=$life"
program=$(readlink /proc/$pid/exe || true)
case $program in $LINKS/teleport* | /teleport*) program="$PROGRAMS/$(/proc/$pid/exe version | grep -o '[0-9]*\.[0-9]*\.[0-9]*' | head -1)/bin/teleport" ;; esac # a copy
echo "program=$program"
show agent teleport.service LoadState,ActiveState,SubState,FragmentPath,UnitFileState,NeedDaemonReload,CanStart,MainPID
show timer teleport-update.timer LoadState,ActiveState,UnitFileState
show run teleport-update.service LoadState,ActiveState,Result,ExecMainStatus
show recovery teleport-update-recover.service LoadState,UnitFileState
for l in teleport tsh tctl tbot; do echo "link.$l=$(readlink $LINKS/$l)"; done
v=$(dirname "$(dirname "$(readlink $LINKS/teleport)")")
[ ! -x $v/bin/teleport ] || echo "program.version=$(timeout 10 $v/bin/teleport version 2>/dev/null | grep -o '[0-9]*\.[0-9]*\.[0-9]*' | head -1)"
units=$(sed -n 's/^ *unit_dir: *//p' $STORE/updates.yaml 2>/dev/null)
[ -z "$units" ] || { UNIT=$units/teleport.service; echo "unit_file=$UNIT"; } # enable has moved it
[ ! -e $v/etc/systemd/teleport.service ] || { cmp -s $UNIT $v/etc/systemd/teleport.service && echo unit=same || echo unit=differs; }
[ ! -e $STORE/journal.json ] || echo "journal=there"
echo "active=$(sed -n 's/^ *active_version: *//p' $STORE/updates.yaml 2>/dev/null)"
[ -e $DATA/proc/sqlite.db ] || echo database=missing
echo "schema=$([ -p $DATA/proc/sqlite.db ] ||
	timeout 20 sqlite3 -readonly -cmd '.timeout 10000' $DATA/proc/sqlite.db 'PRAGMA user_version' 2>/dev/null)"
for d in $(timeout 10 systemctl show teleport.service -p RequiredBy -p BoundBy -p ConsistsOf --value 2>/dev/null); do
	case $d in other-*) echo "dependent.$d=$(systemctl is-active $d)" ;; esac
done
for p in $DATA /srv/agent; do ! grep -q " $p " /proc/mounts || echo mounted=yes; done
rescuer=$(timeout 10 systemctl show teleport-update-recover.service -p ExecStart 2>/dev/null | sed -n 's/^ExecStart={ path=\([^ ]*\) .*/\1/p')
[ -z "$rescuer" ] || { timeout 20 $rescuer version >/dev/null 2>&1 && echo rescuer=runs || echo "rescuer=does not run"; }
`

// statusJSON is what status says.
type statusJSON struct {
	State       string
	Explanation string
	Conditions  []struct{ Type, Severity, Message string }
}

// has reports whether a condition of one of these types is there.
func (s statusJSON) has(types ...string) bool {
	for _, c := range s.Conditions {
		if slices.Contains(types, c.Type) {
			return true
		}
	}
	return false
}

const statusLine = "what status says:"

// sees looks at the host and asks status, until nothing changes between a look before and
// one after it; ok is false where it never comes to rest.
func (r *trial) sees() (o observation, s statusJSON, ok bool) {
	r.T.Helper()
	const asks = "echo '" + statusLine + "'\n$UPDATER status --format json 2>/dev/null || :\necho; echo '" + statusLine + "'\n"
	script := observeScript + asks + observeScript
	for range 12 {
		said := strings.Split(r.try("", "set +e\n"+script).Stdout, statusLine)
		if len(said) == 3 && strings.TrimSpace(said[0]) == strings.TrimSpace(said[2]) {
			o = observation{}
			for line := range strings.Lines(said[0]) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
				o[name] = strings.TrimSpace(value)
			}
			if err := json.Unmarshal([]byte(said[1]), &s); err != nil {
				s = statusJSON{State: "none", Explanation: fmt.Sprintf("%v: %s", err, said[1])}
			}
			return o, s, true
		}
		time.Sleep(300 * time.Millisecond)
	}
	return nil, statusJSON{}, false
}

// observe compares what status says with what is there. What does not last is no violation.
func (r *trial) observe(when string) {
	r.T.Helper()
	if r.slow && !r.isUndone {
		return
	}
	if r.whole && len(r.problems) == 0 {
		// The unit of the timer, with what others have done to it.
		r.try("", "timeout 300 systemctl start teleport-update.service 2>/dev/null || :")
	}
	var wrong []string
	for range 3 {
		o, s, ok := r.sees()
		if !ok {
			r.hear("observer", "the host does not come to rest\n")
			return
		}
		wrong = r.compare(o, s)
		if wrong == nil {
			if r.isUndone && s.State == "needs_attention" {
				s.State += " (" + s.Explanation + ")"
			}
			r.states = append(r.states, s.State)
			return
		}
		time.Sleep(time.Second)
	}
	for _, w := range wrong {
		r.problem("%s: %s", when, w)
	}
}

// compare says what status hides.
func (r *trial) compare(o observation, s statusJSON) (wrong []string) {
	if s.State == "none" {
		return []string{"status says nothing that can be read: " + s.Explanation}
	}
	for _, f := range facts {
		what := f.holds(r, o)
		if what == "" {
			continue
		}
		if slices.Contains(f.forbids, s.State) {
			wrong = append(wrong, fmt.Sprintf("status says %s, but %s; it explains: %s", s.State, what, s.Explanation))
		} else if f.named != nil && !s.has(f.named...) && !slices.Contains(grave, s.State) {
			wrong = append(wrong, fmt.Sprintf("status is %s and names none of %v, but %s; it explains: %s", s.State, f.named, what, s.Explanation))
		}
	}
	return wrong
}
