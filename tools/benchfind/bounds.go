package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"teleport-update/find/rollout"
)

// kept is as large as what the server keeps of a host, and has what a tick counts by.
type kept struct {
	id                          rollout.HostID
	firstSeen, lastSeen         uint32
	group, version, told, begun uint16
	flags                       uint8
	_                           [79]byte
}

// pass is the least that counting hosts can be: each record is read once, in the
// order in which they are in memory, and those that were told to update are found
// by their ids in a map.
type pass struct {
	records []kept
	places  map[rollout.HostID]uint32
	told    []rollout.HostID
	counts  [groups][2]int
}

// One host of inFlight is looked up by a tick, as the groups of newSite have it.
const inFlight = 10

func newPass(hosts int) *pass {
	p := &pass{records: make([]kept, hosts), places: make(map[rollout.HostID]uint32, hosts)}
	for i := range p.records {
		id := rollout.ParseHostID(hostID(i))
		p.records[i] = kept{id: id, firstSeen: 1, lastSeen: 2, group: uint16(i % groups), version: 1}
		p.places[id] = uint32(i)
	}
	for range hosts / inFlight {
		p.told = append(p.told, p.records[rand.IntN(hosts)].id)
	}
	return p
}

// cpu is what one pass takes, in seconds.
func (p *pass) cpu() float64 {
	used := cpuTime()
	p.counts = [groups][2]int{}
	for i := range p.records {
		r := &p.records[i]
		untouched := r.flags == 0 && r.told == 0 && r.begun == 0
		if present := r.firstSeen <= 1 && r.lastSeen >= 2; untouched && present {
			p.counts[r.group][r.version&1]++
		}
	}
	for _, id := range p.told {
		p.counts[p.records[p.places[id]].group][0]++
	}
	return cpuTime() - used
}

// plainPlan is the least that a plan can be: the hosts in the order of a hash of their
// ids, and the same pages in a file without a store, synced as often as those of a
// plan are. It returns seconds.
func plainPlan(hosts int) (wall float64, err error) {
	ids := make([]rollout.HostID, hosts)
	for i := range ids {
		ids[i] = rollout.ParseHostID(hostID(i))
	}
	dir, err := os.MkdirTemp("", "benchfind-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	began := time.Now()
	type drawn struct {
		hash uint64
		id   rollout.HostID
	}
	order := make([]drawn, hosts)
	for i, id := range ids {
		sum := sha256.Sum256(id[:])
		order[i] = drawn{binary.BigEndian.Uint64(sum[:]), id}
	}
	slices.SortFunc(order, func(a, b drawn) int {
		return cmp.Or(cmp.Compare(a.hash, b.hash), bytes.Compare(a.id[:], b.id[:]))
	})
	for i := range order {
		ids[i] = order[i].id
	}
	plan := rollout.Plan{Group: groupOf(0), StartTime: began, Version: "17.2.1", Hosts: ids}
	pages, err := plan.Pages(rand.Uint64)
	if err != nil {
		return 0, err
	}
	f, err := os.Create(filepath.Join(dir, "pages"))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	written := 0
	for page := range pages {
		if _, err := f.Write(page.Value); err != nil {
			return 0, err
		}
		if written++; written%pagesAtOnce == 0 {
			if err := f.Sync(); err != nil {
				return 0, err
			}
		}
	}
	if err := f.Sync(); err != nil {
		return 0, err
	}
	return time.Since(began).Seconds(), nil
}

// pagesAtOnce is how many pages of a plan the server writes before it syncs.
const pagesAtOnce = 128
