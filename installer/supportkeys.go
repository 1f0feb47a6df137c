package installer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"teleport-update/internal/console"
)

// leftOut replaces each value in the file for a ticket whose key is not on a list below. The values of the listed keys are the updater's
// or systemd's own; other people's words, such as errors, names and settings, never have one of these keys.
const leftOut = "(left out)"

// knownKeys are keys of status, of the history and of find's last answer.
var knownKeys = []string{
	"schema_version", "agent_version_installed", "agent_version_desired", "agent_version_previous",
	"agent_edition_installed", "agent_edition_desired", "agent_edition_previous",
	"agent_update_time_last", "agent_update_time_jitter", "agent_updates_enabled",
	"state", "pinned", "unproven", "last_success_at", "last_target", "last_result", "last_skipped_backup",
	"failed_version", "failed_attempts", "next_attempt", "held_version", "refused_version", "desired_checked_at", "jitter_until",
	"open_transaction", "from", "to", "phase", "since", "running",
	"agent", "active_state", "sub_state", "pid", "version", "edition", "restarts", "enabled_at_boot",
	"updater", "last_run_at", "next_run_at", "conditions", "type", "severity", "failing", "count", "first", "last", "unstable",
	"switches", "time", "cause", "result", "took", "download", "backup", "downtime", "watch",
	"auto_update", "jitter_seconds", "group_unknown", "retry_failed",
}

// knownProperties are properties of units and timers.
var knownProperties = []string{
	"Id", "LoadState", "ActiveState", "SubState", "Result", "UnitFileState", "FragmentPath", "DropInPaths", "NeedDaemonReload",
	"ExecMainCode", "ExecMainStatus", "NRestarts", "MainPID", "ActiveEnterTimestamp", "InactiveEnterTimestamp",
	"ConditionResult", "AssertResult",
	"LastTriggerUSec", "NextElapseUSecRealtime", "NextElapseUSecMonotonic",
	"Type", "Restart", "RestartUSec", "TimeoutStartUSec", "TimeoutStopUSec", "RuntimeMaxUSec", "JobRunningTimeoutUSec",
	"KillMode", "SendSIGKILL",
	"User", "Group", "DynamicUser", "PIDFile", "WorkingDirectory", "RootDirectory",
	"LimitAS", "LimitCPU", "LimitFSIZE", "LimitNOFILE", "MemoryMax", "MemorySwapMax", "TasksMax", "CPUQuotaPerSecUSec",
	"NoNewPrivileges", "PrivateTmp", "ProtectHome", "ProtectSystem",
}

// knownFields are fields of systemd's entries in the journal.
var knownFields = []string{
	"PRIORITY", "MESSAGE_ID", "UNIT", "JOB_TYPE", "JOB_RESULT", "UNIT_RESULT", "COMMAND", "EXIT_CODE", "EXIT_STATUS", "N_RESTARTS",
}

// knownAttributes are attributes of the updater's own lines.
var knownAttributes = []string{
	"version", "edition", "from", "to", "previous", "unit", "phase", "attempt", "wait", "window", "limit", "took", "bytes",
	"pinned", "unproven", "exit_code",
}

// knownRelease are keys of /etc/os-release.
var knownRelease = []string{
	"NAME", "ID", "ID_LIKE", "VERSION", "VERSION_ID", "VERSION_CODENAME", "PRETTY_NAME", "VARIANT_ID",
}

// keepKeys keeps the values of knownKeys in a JSON document. Another key keeps its place, and a list or an object under it goes as well.
func keepKeys(data []byte) ([]byte, error) {
	var document any
	if err := json.Unmarshal(data, &document); err != nil {
		return nil, err
	}
	return json.MarshalIndent(kept(document), "", "  ")
}

func kept(v any) any {
	switch v := v.(type) {
	case string:
		return console.Line(v)
	case []any:
		for i := range v {
			v[i] = kept(v[i])
		}
	case map[string]any:
		for key, value := range v {
			if slices.Contains(knownKeys, key) {
				v[key] = kept(value)
			} else if value != nil {
				v[key] = leftOut
			}
		}
	}
	return v
}

// keepAssigned keeps lines of KEY=VALUE with a listed key, and empty lines.
func keepAssigned(text []byte, keys []string) []byte {
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if key, _, _ := strings.Cut(line, "="); line == "" || slices.Contains(keys, key) {
			b.WriteString(console.Line(line) + "\n")
		}
	}
	return []byte(b.String())
}

// entries decodes what "journalctl -o json" prints, and makes a line of each entry. A field that is not text is none.
func entries(text []byte, line func(fields map[string]string) string) []byte {
	var b strings.Builder
	for data := range bytes.Lines(text) {
		var entry map[string]any
		if json.Unmarshal(data, &entry) != nil {
			continue
		}
		fields := map[string]string{}
		for key, value := range entry {
			fields[key], _ = value.(string)
		}
		at := "?"
		if micros, err := strconv.ParseInt(fields["__REALTIME_TIMESTAMP"], 10, 64); err == nil {
			at = time.UnixMicro(micros).UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(&b, "%s %s\n", at, line(fields))
	}
	return []byte(b.String())
}

// systemdsLine has the listed fields of an entry.
func systemdsLine(fields map[string]string) string {
	var parts []string
	for _, key := range knownFields {
		if fields[key] != "" {
			parts = append(parts, key+"="+console.Line(fields[key]))
		}
	}
	return strings.Join(parts, " ")
}

var (
	// ownWords is the form of the updater's own messages: words alone. A message with a value in it is not one.
	ownWords = regexp.MustCompile(`^[a-z][a-z' ,;-]*$`)
	// attribute is one of a line of the updater: see flat in its program.
	attribute = regexp.MustCompile(` ([a-z_]+)=("(?:[^"\\]|\\.)*"|[^ "]*)`)
)

// updatersLine has the message of an entry, and its listed attributes. The message of an error holds other programs' words.
func updatersLine(fields map[string]string) string {
	text, isError := fields["MESSAGE"], fields["PRIORITY"] <= "3"
	message := text
	attributes := attribute.FindAllStringSubmatchIndex(text, -1)
	if len(attributes) > 0 {
		message = text[:attributes[0][0]]
	}
	if isError || !ownWords.MatchString(message) {
		return fmt.Sprintf("<%s> %s", fields["PRIORITY"], leftOut)
	}
	line := fmt.Sprintf("<%s> %s", fields["PRIORITY"], message)
	for _, at := range attributes {
		key, value := text[at[2]:at[3]], text[at[4]:at[5]]
		if !slices.Contains(knownAttributes, key) {
			value = leftOut
		}
		line += " " + key + "=" + console.Line(value)
	}
	return line
}
