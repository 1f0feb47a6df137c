package acts

import (
	"regexp"
	"slices"
	"strings"
)

// exception is an action against which no program could help as long as it is in
// force: then no agent need run, and status has to say something about it. One that
// served soundly before the run serves on, and one that is started has to run on its own
// database. Once the action is undone there is no exception.
type exception struct {
	why  string
	says string // a pattern of what status says
	// unseen: see startsFailUnseen.
	unseen bool
}

const (
	// If updates.yaml was emptied by another act, this comes before all else.
	unhealthy = `is not healthy either|is not undone|was cut off|was called off|the agent of version \S+ (fails|crashes)|the agent is enabled at boot and does not run|updates\.yaml: the file is empty`
	notThere  = "the agent's data are not there"
	shutOut   = "no agent starts whose user may not use its files"
)

// exceptions are by the name of the action, whoever does it.
var exceptions = map[string]exception{
	"the agent is masked":                                  {why: "systemd starts nothing that is masked", says: `mask|` + unhealthy},
	"a drop-in has the agent start another program":        {why: "systemd starts what the administrator says", says: `90-other\.conf|` + unhealthy},
	"systemd is away":                                      {why: "nobody but systemd starts or stops an agent", says: `unknown: reach systemd`},
	"the agent's user is gone":                             {why: "systemd starts nothing as a user that is not there", says: unhealthy},
	"both versions are removed":                            {why: "there is no program to start", says: `no longer on disk|not whole|` + unhealthy},
	"the new version is removed":                           {why: "the records are of yesterday, and nobody starts the older version on the newer one's database", says: `whose folder is gone`},
	"the data are unmounted":                               {why: notThere, says: unhealthy},
	"the data are read-only":                               {why: "no agent starts on data that it cannot write", says: unhealthy},
	"the data's file system is full":                       {why: "no agent starts on data that it cannot write", says: unhealthy},
	"a link to a folder of root's takes the place of proc": {why: notThere, says: unhealthy},
	"an empty folder takes the place of proc":              {why: notThere, says: unhealthy},
	"a file takes the place of proc":                       {why: notThere, says: unhealthy},
	"nothing takes the place of proc":                      {why: notThere, says: unhealthy},
	"the database becomes a link to a file of root's":      {why: notThere, says: unhealthy},
	"the database becomes a pipe":                          {why: notThere, says: unhealthy},
	"the database becomes a folder":                        {why: notThere, says: unhealthy},
	"teleport.yaml is broken":                              {why: "no agent starts with it", says: `teleport\.yaml|` + unhealthy},
	"teleport.yaml is emptied":                             {why: "where the data have a folder of their own, no agent starts without it", says: `teleport\.yaml|` + unhealthy},
	"teleport.yaml is removed":                             {why: "no agent starts without it", says: `teleport\.yaml|` + unhealthy},
	"a variable of systemd's is not there":                 {why: "systemd starts nothing whose conditions do not hold", says: `[Cc]ondition|` + unhealthy},
	"a condition does not hold":                            {why: "systemd starts nothing whose conditions do not hold", says: `[Cc]ondition|` + unhealthy},
	"an assertion does not hold":                           {why: "systemd starts nothing whose assertions do not hold", says: `[Aa]ssert|` + unhealthy},
	"the programs are hidden":                              {why: "no agent starts whose program it cannot see", says: unhealthy},
	"what comes before a start fails":                      {why: "systemd starts nothing then", says: unhealthy},
	"the user is not there":                                {why: "systemd starts nothing as a user that is not there", says: unhealthy},
	"a file of variables is not there":                     {why: "systemd starts nothing without it", says: unhealthy},
	"the agent may have no memory":                         {why: "no agent starts without memory", says: unhealthy},
	"the folder to work in has gone":                       {why: "systemd starts nothing in a folder that is not there", says: unhealthy},
	"a folder to write has gone":                           {why: "systemd starts nothing whose folders it cannot put in place", says: unhealthy},
	"a folder that is bound has gone":                      {why: "systemd starts nothing whose folders it cannot put in place", says: unhealthy},
	"a credential has gone":                                {why: "systemd starts nothing without its credentials", says: unhealthy},
	"a command before has gone":                            {why: "systemd starts nothing then", says: unhealthy},
	"the group is not there":                               {why: "systemd starts nothing with a group that is not there", says: unhealthy},
	"another group is not there":                           {why: "systemd starts nothing with a group that is not there", says: unhealthy},
	"a folder is no mount":                                 {why: "systemd starts nothing whose conditions do not hold", says: `[Cc]ondition|` + unhealthy},
	"a unit that the agent requires is not there":          {why: "systemd starts nothing that requires what is not there", says: `nonexistent\.service|` + unhealthy},
	"a unit that has to run does not":                      {why: "systemd starts nothing that needs what does not run", says: `clean\.service|` + unhealthy},
	"a unit that the agent requires fails":                 {why: "systemd starts nothing whose requirement fails", says: `other-fails|` + unhealthy},
	"a unit in etc that nobody has read":                   {why: "systemd starts what the administrator says", says: `etc/systemd/system/teleport\.service|` + unhealthy},
	"a mask that nobody has read":                          {why: "systemd starts nothing that is masked", says: `mask|etc/systemd/system/teleport\.service|` + unhealthy},
	"the agent's unit is wrong":                            {why: "systemd starts nothing that it cannot load", says: `bad-setting|` + unhealthy},
	"a condition does not hold that nobody has read":       {why: "systemd starts nothing whose conditions do not hold", says: `[Cc]ondition|` + unhealthy},
	"the user is not there, and nobody has read that":      {why: "systemd starts nothing as a user that is not there", says: unhealthy},
	"there is one start an hour":                           {why: "systemd starts it once", says: unhealthy},
	"the agent may not be started by hand":                 {why: "only a boot starts it", says: `RefuseManualStart|` + unhealthy},
	"the programs may not be executed":                     {why: "no agent starts from there", says: `noexec|cannot be executed|` + unhealthy},
	"the agent is stopped":                                 {why: "somebody wants it so", says: `stopped it|does not run, and nothing starts it|` + unhealthy},
	"the records and links of yesterday":                   {why: "a boot starts what the link leads to, which cannot read the database", says: unhealthy},
	"the store and links of yesterday":                     {why: "a boot starts what the link leads to, which cannot read the database", says: unhealthy},
	"the agent's processes stand still":                    {why: "who was stopped by a signal goes on by another", says: unhealthy},
	"presets disable everything":                           {why: "somebody wants it so", says: `not enabled|does not run|` + unhealthy},
	"the agent is disabled":                                {why: "somebody wants it so", says: `not enabled|does not run|` + unhealthy},
	"the journal may be written by everybody":              {why: "nothing is undone by a journal that others may have written", says: `journal\.json may be written by others`},
	"a write transaction on the database is open":          {why: "no agent starts that may not write", says: unhealthy},
	"the link folder is closed":                            {why: shutOut, says: `may not execute|` + unhealthy},
	"the programs are closed":                              {why: shutOut, says: `may not execute|` + unhealthy},
	"a folder above the data is closed":                    {why: shutOut, says: `may not write|` + unhealthy},
	"teleport.yaml is closed":                              {why: shutOut, says: `may not read|` + unhealthy},
	"the database is closed":                               {why: shutOut, says: `may not write|` + unhealthy},
	"a read transaction on the database is open":           {why: "no database takes the place of one that a process reads", says: `is open in another process`},
}

// bothDistrusted is the exception if both files that say what version was before are not root's alone any more.
var bothDistrusted = exception{why: "nothing is undone by what others may have written", says: `may be written by others|belongs to user`}

// distrusts reports whether acts make a file another user's, or everybody's.
func distrusts(acts []action, file string) bool {
	return slices.ContainsFunc(acts, func(a action) bool {
		return a.plainName() == file+" belongs to another user" || a.plainName() == file+" may be written by everybody"
	})
}

// startsFailUnseen are acts that nobody can see before the next start, which fails: by then a version
// that was tried has taken the place of the one that served, or the agent had to be restarted.
var startsFailUnseen = []string{"a read transaction on the database is open", "a write transaction on the database is open", "what comes before a start fails", "a unit that the agent requires fails", "the agent's processes stand still"}

// excuse says why no agent runs, and whether status says so: it must not say that the
// host is idle.
func (r *trial) excuse(status string) (x exception, excused, isSaid bool) {
	for _, part := range r.all() {
		if one, found := exceptions[part.plainName()]; found {
			x, excused = exception{one.why, one.says, x.unseen || slices.Contains(startsFailUnseen, part.plainName())}, true
			isSaid = isSaid || regexp.MustCompile(one.says).MatchString(status)
		}
	}
	if distrusts(r.all(), "updates.yaml") && distrusts(r.all(), "the journal") {
		x, excused, isSaid = bothDistrusted, true, isSaid || regexp.MustCompile(bothDistrusted.says).MatchString(status)
	}
	return x, excused, isSaid && !strings.Contains(status, " idle: ")
}

// open are combinations that fail as yet: they are counted apart, and go from this
// table once what they found is mended. Each is a pattern of a combination's name.
var open = []struct{ name, why string }{}

func openBecause(name string) (why string) {
	for _, o := range open {
		if regexp.MustCompile(o.name).MatchString(name) {
			return o.why
		}
	}
	return ""
}
