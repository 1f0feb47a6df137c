package acts

import (
	"regexp"
	"strings"
	"time"
)

var (
	commands = regexp.MustCompile("`((?:systemctl|teleport-update|chown) [^`]+)`")
	// looks are commands that change nothing.
	looks = regexp.MustCompile(`^(systemctl (status|show|cat|list-jobs)|teleport-update (status|history|support|verify|version))\b`)
)

// advised are the commands that status names first: one, or several that are to follow one
// another.
func (s statusJSON) advised() (list []string) {
	end := 0
	for _, at := range commands.FindAllStringSubmatchIndex(s.Explanation, -1) {
		command := s.Explanation[at[2]:at[3]]
		if looks.MatchString(command) {
			continue
		}
		if list != nil && s.Explanation[end:at[0]] != ", then " {
			break
		}
		list, end = append(list, command), at[1]
	}
	return list
}

// followAdvice does what status says is to be done. The host may be no worse afterwards.
func (r *trial) followAdvice(when string) {
	r.T.Helper()
	if r.slow && !r.isUndone || len(r.problems) > 0 {
		return
	}
	_, s, ok := r.sees()
	if !ok {
		return
	}
	for _, command := range s.advised() {
		r.advices++
		hidden := r.hides && !r.isUndone
		before := r.look()
		did := r.try("", "timeout 90 "+command+" 2>&1 </dev/null || echo \"exit code $?\"")
		r.hear("as status says, "+command, did.Stdout)
		if strings.HasPrefix(command, "teleport-update rollback") {
			r.least = map[string]int{} // a database of before may be put back, as asked for
		}
		x, excused, _ := r.excuse("")
		mayFail := excused && x.unseen && !r.isUndone // nobody sees it before the start that is advised
		worse := func(now sight) []string {
			if before.runs(hidden) != nil || mayFail {
				return r.keptRows(now)
			}
			return append(now.runs(hidden), r.keptRows(now)...)
		}
		now, problems := r.settled(worse)
		for _, p := range problems {
			r.problem("%s: worse after `%s`, which status advises (%s: %s): %s", when, command, s.State, s.Explanation, p)
		}
		if problems != nil {
			return
		}
		r.keepLeast(now)
		r.judged = time.Now()
	}
}
