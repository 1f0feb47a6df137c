package installer

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"strings"
)

// Forms of values in units.
const (
	formWord  = `[A-Za-z][a-z-]{0,24}|true|false|[01]` // one of systemd's own words
	formTime  = `infinity|([0-9]{1,12}(us|ms|s|sec|min|m|h|d|w)?\s?)+`
	formCount = `infinity|[0-9]{1,12}[KMGT%]?(:[0-9]{1,12}[KMGT]?)?|0[0-7]{3}`
	formUser  = `[a-z_][a-z0-9_-]{0,31}`
	formUnits = `([A-Za-z0-9:_.@\\-]+\.(service|target|timer|socket|mount|path|slice|device|automount|scope)\s*)+`
	formPaths = `([-+!:|]*(/[A-Za-z0-9._%@:+-]*)+\s*)+`
	formNames = `([A-Za-z0-9._%@-]{1,40}(/[A-Za-z0-9._%@-]{1,40})*\s*)+` // folders below /run and the like
	formWords = `(~?[A-Za-z0-9_@:-]{1,32}\s*)+`                          // capabilities, families, calls
	formDate  = `[A-Za-z0-9*:/.,~ -]{1,60}`
)

// directives maps a directive to the form of its values. A value of that form helps the reader of a ticket and holds no secret. Other
// directives stand with their name alone, because a unit and its drop-ins are other people's files.
var directives = map[string]string{
	"Type": formWord, "Restart": formWord, "KillMode": formWord, "KillSignal": `SIG[A-Z0-9+]{2,10}`, "NotifyAccess": formWord,
	"StandardOutput": formWord, "StandardError": formWord,
	"RefuseManualStart": formWord, "RefuseManualStop": formWord, "RemainAfterExit": formWord, "DefaultDependencies": formWord,
	"SendSIGKILL": formWord, "SendSIGHUP": formWord,
	"StopWhenUnneeded": formWord, "AllowIsolate": formWord, "Persistent": formWord, "FixedRandomDelay": formWord,
	"RuntimeDirectoryPreserve": formWord, "OOMPolicy": formWord,
	"ProtectSystem": formWord, "ProtectHome": formWord, "PrivateTmp": formWord, "PrivateDevices": formWord, "PrivateNetwork": formWord,
	"NoNewPrivileges": formWord,
	"ProtectClock":    formWord, "ProtectHostname": formWord, "ProtectKernelLogs": formWord, "ProtectKernelModules": formWord,
	"ProtectKernelTunables": formWord,
	"ProtectControlGroups":  formWord, "ProtectProc": formWord, "LockPersonality": formWord, "RestrictRealtime": formWord,
	"RestrictSUIDSGID": formWord, "MemoryDenyWriteExecute": formWord,
	"DynamicUser": formWord, "Delegate": formWord, "CPUSchedulingPolicy": formWord, "IOSchedulingClass": formWord,
	"RestartSec": formTime, "TimeoutStartSec": formTime, "TimeoutStopSec": formTime, "TimeoutSec": formTime, "TimeoutAbortSec": formTime,
	"RuntimeMaxSec":         formTime,
	"StartLimitIntervalSec": formTime, "StartLimitInterval": formTime, "JobTimeoutSec": formTime, "WatchdogSec": formTime,
	"RandomizedDelaySec": formTime, "AccuracySec": formTime,
	"OnBootSec": formTime, "OnUnitActiveSec": formTime, "OnStartupSec": formTime,
	"StartLimitBurst": formCount, "LimitNOFILE": formCount, "LimitNPROC": formCount, "LimitCORE": formCount, "LimitMEMLOCK": formCount,
	"MemoryMax": formCount, "MemoryHigh": formCount,
	"MemoryLimit": formCount, "TasksMax": formCount, "CPUQuota": formCount, "CPUWeight": formCount, "IOWeight": formCount,
	"Nice": `-?[0-9]{1,2}`, "OOMScoreAdjust": `-?[0-9]{1,4}`,
	"UMask": formCount, "RuntimeDirectoryMode": formCount, "StateDirectoryMode": formCount,
	"User": formUser, "Group": formUser, "SupplementaryGroups": formUser,
	"After": formUnits, "Before": formUnits, "Wants": formUnits, "Requires": formUnits, "Requisite": formUnits, "BindsTo": formUnits,
	"PartOf": formUnits, "Upholds": formUnits,
	"Conflicts": formUnits, "OnFailure": formUnits, "OnSuccess": formUnits, "WantedBy": formUnits, "RequiredBy": formUnits, "Also": formUnits,
	"Alias": formUnits, "Unit": formUnits,
	"Slice": formUnits, "PropagatesStopTo": formUnits, "PropagatesReloadTo": formUnits,
	"PIDFile": formPaths, "WorkingDirectory": formPaths, "RootDirectory": formPaths, "EnvironmentFile": formPaths,
	"RequiresMountsFor": formPaths, "ConditionPathExists": formPaths,
	"ConditionFileIsExecutable": formPaths, "ConditionPathIsDirectory": formPaths, "ConditionPathIsMountPoint": formPaths,
	"ConditionDirectoryNotEmpty": formPaths, "AssertPathExists": formPaths,
	"ReadWritePaths": formPaths, "ReadOnlyPaths": formPaths, "InaccessiblePaths": formPaths, "ExecPaths": formPaths, "NoExecPaths": formPaths,
	"BindPaths":         formPaths,
	"BindReadOnlyPaths": formPaths, "TemporaryFileSystem": formPaths, "PathExists": formPaths, "PathChanged": formPaths,
	"RuntimeDirectory": formNames, "StateDirectory": formNames, "CacheDirectory": formNames, "LogsDirectory": formNames,
	"ConfigurationDirectory": formNames,
	"CapabilityBoundingSet":  formWords, "AmbientCapabilities": formWords, "RestrictAddressFamilies": formWords,
	"SystemCallFilter": formWords, "SystemCallArchitectures": formWords,
	"RestrictNamespaces": formWords, "OnCalendar": formDate, "SuccessExitStatus": `([0-9]{1,3}\s*)+`,
	"RestartPreventExitStatus": `([0-9]{1,3}\s*)+`,
}

// cleanUnits reduces units and drop-ins, as "systemctl cat" shows them, to the names of files, known directives with values of a known
// form, and the names of other directives. Comments go.
func (c *cleaner) cleanUnits(text []byte) []byte {
	section := regexp.MustCompile(`^\[[A-Z][A-Za-z]{1,14}\]$`)
	name := regexp.MustCompile(`^[A-Z][A-Za-z]{1,40}$`)
	file := regexp.MustCompile(`^# ((?:/[A-Za-z0-9._@\\:+-]+)+)$`)
	comment := regexp.MustCompile(`(?m)^[ \t]*[#;].*\n?`)
	// Before lines are joined: a comment ends with its line, also inside one that goes on (systemd.syntax(7)).
	says := comment.ReplaceAllStringFunc(string(text), func(line string) string {
		if file.MatchString(strings.TrimSpace(line)) {
			return line
		}
		return ""
	})
	joined := strings.ReplaceAll(says, "\\\n", " ")
	var b strings.Builder
	for line := range strings.Lines(joined) {
		line = strings.TrimSpace(line)
		directive, value, assigns := strings.Cut(line, "=")
		directive, value = strings.TrimSpace(directive), strings.TrimSpace(value)
		switch {
		case line == "", section.MatchString(line):
			b.WriteString(line + "\n")
		case file.MatchString(line):
			b.WriteString(c.line(line) + "\n")
		case !assigns || !name.MatchString(directive), len(directive) >= 24 && directives[directive] == "" && random(directive):
			b.WriteString("(a line is left out)\n")
		default:
			b.WriteString(directive + "=" + c.directive(directive, value) + "\n")
		}
	}
	return []byte(b.String())
}

func (c *cleaner) directive(name, value string) string {
	if strings.HasPrefix(name, "Exec") && value != "" {
		return c.started(value)
	}
	form := directives[name]
	if value == "" || form != "" && regexp.MustCompile(`^(?:`+form+`)$`).MatchString(value) {
		return c.line(value)
	}
	return leftOut
}

// started cleans a command of a unit. It keeps the program, and the arguments if they are the agent's or the updater's own and no secrets.
func (c *cleaner) started(value string) string {
	if value == "/bin/kill -HUP $MAINPID" {
		return value
	}
	words := strings.Fields(value)
	program := words[0]
	if !regexp.MustCompile(`^(?:` + formPaths + `)$`).MatchString(strings.TrimLeft(program, "@")) {
		return leftOut
	}
	program = c.line(program)
	ours := strings.HasPrefix(path.Base(program), "teleport")
	kept, gone := []string{program}, 0
	for n := 1; n < len(words); n++ {
		word := words[n]
		flag, _, assigns := strings.Cut(word, "=")
		takes, known := ownFlag(flag)
		switch {
		case !ours || !known && !isCommand(word):
			gone++
		case takes && !assigns && n+1 < len(words):
			kept = append(kept, word, c.argument(words[n+1]))
			n++
		case assigns:
			kept = append(kept, flag+"="+c.argument(strings.TrimPrefix(word, flag+"=")))
		default:
			kept = append(kept, word)
		}
	}
	if gone > 0 {
		kept = append(kept, fmt.Sprintf("(%d arguments are left out)", gone))
	}
	return strings.Join(kept, " ")
}

func isCommand(word string) bool {
	return word == "start" || word == "update" || word == "recover" || word == "switch"
}

// argument keeps a path, a word and an address.
func (c *cleaner) argument(value string) string {
	if regexp.MustCompile(`^(?:` + formPaths + `|[a-z0-9.,-]{1,40}(:[0-9]{1,5})?)$`).MatchString(value) {
		return c.line(value)
	}
	return leftOut
}

// cleanStates keeps lines of the named properties.
func (c *cleaner) cleanStates(text []byte, properties string) []byte {
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		name, value, ok := strings.Cut(line, "=")
		switch {
		case line == "":
			b.WriteString("\n")
		case ok && strings.Contains(","+properties+",", ","+name+","):
			b.WriteString(name + "=" + c.line(value) + "\n")
		}
	}
	return []byte(b.String())
}

// cleanMounts makes lines of findmnt's JSON. The source of a network mount may name a user and a password.
func (c *cleaner) cleanMounts(text []byte) ([]byte, error) {
	var all struct {
		Filesystems []struct {
			Target, Source, FSType string
			Options                string `json:"vfs-options"`
		}
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	here := regexp.MustCompile(`^(/dev/[A-Za-z0-9/_.-]+(\[/[^\]]*\])?|[a-z0-9_]{1,16})$`)
	var b strings.Builder
	for _, f := range all.Filesystems {
		if !here.MatchString(f.Source) {
			f.Source = leftOut
		}
		fmt.Fprintf(&b, "%-40s %-20s %-10s %s\n", c.line(f.Target), c.line(f.Source), c.line(f.FSType), c.line(f.Options))
	}
	return []byte(b.String()), nil
}

// cleanRelease keeps the lines of /etc/os-release that say which system it is.
func (c *cleaner) cleanRelease(text []byte) []byte {
	line := regexp.MustCompile(`^(NAME|ID|ID_LIKE|VERSION|VERSION_ID|VERSION_CODENAME|PRETTY_NAME|VARIANT_ID)=("[A-Za-z0-9 ` +
		`./()+_-]{0,60}"|[A-Za-z0-9._-]{0,40})$`)
	var b strings.Builder
	for l := range strings.Lines(string(text)) {
		if l = strings.TrimSpace(l); line.MatchString(l) {
			b.WriteString(l + "\n")
		}
	}
	return []byte(b.String())
}
