package inventory

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/find/rollout"
)

// reportsOfUpdaters are as an updater writes them.
func reportsOfUpdaters(t testing.TB) (texts []string) {
	whole := find.Heartbeat{
		HostID: hostUUID(1), Sequence: 4_000_000_000, BootID: hostUUID(2), UpdaterID: hostUUID(3), Hostname: "ip-10-0-0-1.internal", Group: "dev", Version: "17.2.0",
		Edition: "enterprise-fips", Arch: "amd64", Pinned: true, Disabled: true, Unhealthy: true, BelowMinimum: true, Unsigned: true, Told: "17.2.1-rc.1+a",
		Outcome: &find.Outcome{Target: "17.2.1", State: "rolled_back", Error: "it died: exit status 1 (see 'journalctl')", Time: time.Date(2025, 6, 2, 12, 0, 0, 5, time.FixedZone("", 3600))},
	}
	usual := whole
	usual.Pinned, usual.Disabled, usual.Unhealthy, usual.Told, usual.Outcome = false, false, false, "", nil
	usual.BelowMinimum, usual.Unsigned = false, false
	for _, b := range []find.Heartbeat{whole, usual, {HostID: hostUUID(1), Sequence: 1}} {
		text, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return texts
}

func TestReportsOfUpdatersAreReadQuickly(t *testing.T) {
	for _, text := range reportsOfUpdaters(t) {
		if _, ok := quickHeartbeat(text); !ok {
			t.Errorf("it is read slowly: %s", text)
		}
	}
}

// What is read quickly is what the strict reader takes, and says the same.
func FuzzQuickHeartbeat(f *testing.F) {
	for _, text := range reportsOfUpdaters(f) {
		f.Add(text)
	}
	for _, text := range []string{
		`{}`, `{"host_id":"a"`, `{"host_id":"a"}}`, `{"host_id":"a"} `, `{"host_id":"a","host_id":"b"}`, `{,"host_id":"a"}`, `{"host_id":"a""group":"b"}`, `{"host_id":"a",}`,
		`{"host_id":"a","sequence":01}`, `{"host_id":"a","sequence":-1}`, `{"host_id":"a","sequence":}`, `{"host_id":"a","sequence":1e3}`, `{"host_id":"a","sequence":99999999999999999999}`,
		`{"host_id":"\u0061"}`, `{"host_id":""}`, `{"group":"b","host_id":"a"}`, `{"host_id":"a","pinned":false}`, `{"host_id":"a","pinned":true1}`, `{"host_id":"a","version":"x"}`,
		`{"host_id":"a","outcome":{}}`, `{"host_id":"a","outcome":{"state":"died"}}`, `{"host_id":"a","outcome":{"time":"2025-06-02 12:00"}}`, `{"host_id":"a","outcome":{"target":"1.0.0"},"told":"1.0.0"}`,
		`{"host_id":"null"}`, `{"host_id":"~"}`, `{"host_id":"- a: b #c"}`, `{"outcome":{"error":"a"}}`, `{"host_id":"a","version":"v1.0.0"}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		quick, ok := quickHeartbeat(text)
		if !ok {
			return
		}
		var strict rollout.Heartbeat
		if err := rollout.DecodeJSON([]byte(text), &strict); err != nil {
			t.Fatalf("the strict reader refuses %q: %v", text, err)
		}
		if o, s := quick.Outcome, strict.Outcome; o != nil && s != nil && o.Time.Equal(s.Time) {
			o.Time = s.Time
		}
		if !reflect.DeepEqual(quick, strict) {
			t.Fatalf("%q\n%+v\n%+v", text, quick, strict)
		}
	})
}

// What a host sends is what a server takes, field by field.
func TestTheServerTakesWhatAHostSends(t *testing.T) {
	sent := find.Heartbeat{
		HostID: hostUUID(1), Sequence: 3, BootID: "b", UpdaterID: hostUUID(2), Hostname: "web-1", Group: "dev", Version: "17.2.0", Edition: "oss", Arch: "amd64",
		Pinned: true, Disabled: true, Unhealthy: true, BelowMinimum: true, Unsigned: true, Told: "17.2.1",
		Outcome: &find.Outcome{Target: "17.2.1", State: "rolled_back", Error: "it broke", Time: time.Date(2025, 6, 2, 12, 0, 0, 0, time.UTC)},
	}
	body, err := json.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	taken, err := parseHeartbeat(body)
	if err != nil {
		t.Fatal(err)
	}
	var slowly rollout.Heartbeat
	if err := rollout.DecodeJSON(body, &slowly); err != nil || !reflect.DeepEqual(taken, slowly) {
		t.Errorf("%+v\n%+v, %v", taken, slowly, err)
	}
	if err := checkHeartbeat(&taken); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(taken)
	if err != nil || string(again) != string(body) {
		t.Errorf("%s\n%s, %v", body, again, err)
	}
	if n := strings.Count(string(body), `":`); n != 21-1 {
		t.Errorf("%d fields were sent: a new one is to be here", n)
	}
}
