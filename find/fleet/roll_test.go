package fleet

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"teleport-update/find/rollout"
)

// Whatever joins, goes and is forgotten: a number stays that of the host that the roll names, and a mark that of the host
// that reported.
func TestANumberStaysThatOfItsHost(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 11))
	table := New(Limits{Words: 10})
	named := make(map[uint32]rollout.HostID) // the roll
	marked := make(map[rollout.HostID]bool)
	known := make(map[rollout.HostID]bool)
	for step := range 20_000 {
		host := id(r.IntN(300))
		switch r.IntN(9) {
		case 0, 1, 2:
			table.Put(&Entry{Host: rollout.Host{ID: host, LastSeen: noon}})
			known[host] = true
		case 3:
			table.Remove(host)
			delete(known, host)
			delete(marked, host)
		case 4:
			if table.Hear(host); known[host] {
				marked[host] = true
			}
		case 5, 6:
			number, taken := uint32(len(named)), slices.Contains(slices.Collect(maps.Values(named)), host)
			if vacant := table.Vacant(1); len(vacant) == 1 && r.IntN(2) == 0 {
				number = vacant[0]
			}
			if !taken {
				table.Enrol(number, host)
				named[number] = host
			}
		case 7:
			if step%100 == 7 {
				table.Forget(func(e *Entry) bool { return e.ID[3]%3 == 0 })
				for host := range known {
					if host[3]%3 == 0 {
						delete(known, host)
						delete(marked, host)
					}
				}
			}
		case 8:
			if step%50 == 8 {
				table.Quiet(noon.Add(time.Second))
				clear(marked)
			}
		}
	}
	var all []rollout.HostID
	for page := range uint32(1) {
		all = append(all, table.Page(page)...)
	}
	if numbers, _ := table.Enrolled(); int(numbers) != len(named) || len(all) != len(named) {
		t.Fatalf("%d numbers and %d hosts in the pages; want %d", numbers, len(all), len(named))
	}
	vacant := table.Vacant(len(named))
	for number, host := range named {
		var e Entry
		there := table.At(number, &e)
		if there != known[host] || there && e.ID != host || all[number] != host || slices.Contains(vacant, number) == there {
			t.Fatalf("number %d is of %s, known: %t; the table has %s, known: %t, and %s in the page", number, host, known[host], e.ID, there, all[number])
		}
	}
	heard := make(map[rollout.HostID]bool)
	table.Heard(func(host *rollout.HostID, number uint32, enrolled bool, _ uint32) bool {
		heard[*host] = true
		if enrolled && named[number] != *host {
			t.Errorf("%s has the number %d of %s", host, number, named[number])
		}
		return true
	})
	if !maps.Equal(heard, marked) {
		t.Errorf("%d hosts are marked; want %d", len(heard), len(marked))
	}
}

// A list of the hosts that reported says after reading what it said before.
func TestWhoWasSeenIsReadAsItWasWritten(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 11))
	for _, tc := range []struct{ hosts, of int }{{0, 1}, {1, 1}, {1, 4_000_000}, {50, 1000}, {1000, 1000}, {10_000, 100_000}} {
		s := Seen{From: noon, To: noon.Add(time.Minute), Covered: noon.Add(-time.Hour)}
		want := make(map[uint32]uint32)
		for len(want) < tc.hosts {
			number, sequence := r.Uint32N(uint32(tc.of)), SequenceAt(noon.Add(time.Duration(r.IntN(60))*time.Second))
			if r.IntN(20) == 0 {
				sequence = r.Uint32() // of a host with another time
			}
			if _, there := want[number]; !there {
				want[number] = sequence
				s.Add(number, sequence)
			}
		}
		bytes := s.Bytes()
		got, err := ParseSeen(bytes)
		if err != nil || !got.From.Equal(s.From) || !got.To.Equal(s.To) || !got.Covered.Equal(s.Covered) || len(got.Numbers) != len(want) {
			t.Fatalf("%d of %d: %v %+v", tc.hosts, tc.of, err, got)
		}
		for _, number := range got.Numbers {
			sequence, there := want[number]
			usual := sequence >= SequenceAt(noon.Add(-usualDelay)) && sequence <= SequenceAt(s.To)
			if next := got.Sequence(number); !there || !usual && next != sequence || usual && next != SequenceAt(s.To) {
				t.Fatalf("host %d with the sequence %d (there: %t) is read with %d", number, sequence, there, next)
			}
		}
		for end := range min(len(bytes), 200) {
			if _, err := ParseSeen(bytes[:end]); err == nil && end < seenHeader {
				t.Errorf("%d of %d bytes are taken", end, len(bytes))
			}
		}
	}
}

// 250 MB a day for a million hosts, each of which reports every ten minutes.
func TestAMillionHostsTakeLittle(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 11))
	const hosts, saves = 1_000_000, 24 * 60 * 60 / 55
	s := Seen{From: noon, To: noon.Add(55 * time.Second)}
	for number := range uint32(hosts) {
		if r.IntN(600) < 55 {
			s.Add(number, SequenceAt(noon))
		}
	}
	if size := len(s.Bytes()); size*saves > 100<<20 {
		t.Errorf("%d bytes for each save, %d MB a day", size, size*saves>>20)
	}
}

func FuzzParseSeen(f *testing.F) {
	s := Seen{From: noon, To: noon.Add(time.Minute)}
	s.Add(7, 1)
	s.Add(700, SequenceAt(noon))
	f.Add(s.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ParseSeen(b)
		if err != nil {
			return
		}
		again, err := ParseSeen(s.Bytes())
		if err != nil || !slices.Equal(again.Numbers, s.Numbers) || !maps.Equal(again.Unusual, s.Unusual) {
			t.Errorf("%v: %+v is read as %+v", err, s, again)
		}
	})
}
