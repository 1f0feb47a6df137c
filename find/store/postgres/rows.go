package postgres

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"teleport-update/find/store"
)

// archived is an item with the time at which it expires, in seconds since 1970.
type archived struct {
	store.Item
	expires *int64
}

// querier is a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// position returns the revision of the store, and the revision up to which it has forgotten removals.
func position(ctx context.Context, tx pgx.Tx) (at, forgotten store.Revision, err error) {
	err = tx.QueryRow(ctx, "SELECT revision, forgotten FROM teleport_find.head").Scan(&at, &forgotten)
	return at, forgotten, err
}

// pageSize is how many items are read at once: 500 hosts are 230 kB.
const pageSize = 500

// pages calls f for the items below the prefix, in the order of their keys, until it returns false.
func pages(ctx context.Context, tx pgx.Tx, prefix string, f func(archived) (bool, error)) error {
	last, compare := prefix, ">="
	for {
		page, err := itemsOf(ctx, tx,
			"SELECT key, value, revision, expires FROM teleport_find.resources WHERE key "+compare+" $1 ORDER BY key LIMIT $2", last, pageSize)
		if err != nil {
			return err
		}
		for _, item := range page {
			if !strings.HasPrefix(item.Key, prefix) {
				return nil
			}
			if more, err := f(item); !more || err != nil {
				return err
			}
		}
		if len(page) < pageSize {
			return nil
		}
		last, compare = page[len(page)-1].Key, ">"
	}
}

func itemsOf(ctx context.Context, q querier, sql string, args ...any) ([]archived, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (item archived, err error) {
		err = row.Scan(&item.Key, &item.Value, &item.Revision, &item.expires)
		return item, err
	})
}

func changes(ctx context.Context, tx pgx.Tx, prefix string, since store.Revision, limit int) (items []store.Item, upTo store.Revision,
	err error) {
	upTo, forgotten, err := position(ctx, tx)
	if err != nil || upTo == since {
		return nil, upTo, err
	}
	if since < forgotten {
		return nil, store.None, store.ErrTooOld
	}
	found, err := itemsOf(ctx, tx, `SELECT key, value, revision, expires FROM teleport_find.resources
		WHERE revision > $1 AND starts_with(key, $2) ORDER BY revision LIMIT $3`, int64(since), prefix, limit)
	if err != nil {
		return nil, store.None, err
	}
	for _, item := range found {
		items = append(items, item.Item)
	}
	if n := len(items); n > 0 && n == limit {
		upTo = items[n-1].Revision
	}
	rows, err := tx.Query(ctx, `SELECT key, revision FROM teleport_find.removed
		WHERE revision > $1 AND revision <= $2 AND starts_with(key, $3) ORDER BY revision`, int64(since), int64(upTo), prefix)
	if err != nil {
		return nil, store.None, err
	}
	gone, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (store.Item, error) {
		item := store.Item{Removed: true}
		err := row.Scan(&item.Key, &item.Revision)
		return item, err
	})
	return append(items, gone...), upTo, err
}

// plan holds the rows that a change writes, as columns.
type plan struct {
	now       store.Revision
	revisions []store.Revision

	keys    []string
	values  [][]byte
	at      []int64
	expires []*int64

	gone   []string
	goneAt []int64

	records records
}

type records struct {
	numbers, from, to []int64
	keys              []string
}

// planned checks the revisions on which a change is based, and returns the rows that it writes, or a *store.ConflictError.
func planned(ctx context.Context, tx pgx.Tx, change store.Change, now store.Revision) (*plan, error) {
	var all []string
	for _, w := range change.Writes {
		all = append(all, w.Key)
	}
	there := make(map[string]store.Revision, len(all))
	rows, err := tx.Query(ctx, "SELECT key, revision FROM teleport_find.resources WHERE key = ANY($1)", all)
	if err != nil {
		return nil, err
	}
	var key string
	var at store.Revision
	if _, err := pgx.ForEachRow(rows, []any{&key, &at}, func() error { there[key] = at; return nil }); err != nil {
		return nil, err
	}
	p := &plan{now: now}
	last := make(map[string]store.Write)
	for _, w := range change.Writes {
		if found := there[w.Key]; found != w.Based {
			return nil, &store.ConflictError{Key: w.Key, Based: w.Based, Found: found}
		}
		after := w.Based
		if w.Do != store.Keep {
			p.now++
			if after = store.None; w.Do == store.Set {
				after = p.now
			}
			there[w.Key], last[w.Key] = after, w
			if change.Records(w) {
				p.record(w.Key, w.Based, after)
			}
		}
		p.revisions = append(p.revisions, after)
	}
	p.columns(last, there)
	return p, nil
}

func (p *plan) record(key string, from, to store.Revision) {
	r := &p.records
	r.numbers, r.keys = append(r.numbers, int64(p.now)), append(r.keys, key)
	r.from, r.to = append(r.from, int64(from)), append(r.to, int64(to))
}

// columns puts the last write of each key into columns.
func (p *plan) columns(last map[string]store.Write, at map[string]store.Revision) {
	for key, w := range last {
		if w.Do == store.Remove {
			p.gone, p.goneAt = append(p.gone, key), append(p.goneAt, int64(p.now))
			continue
		}
		value := w.Value
		if value == nil {
			value = []byte{}
		}
		var expires *int64
		if !w.Expires.IsZero() {
			seconds := w.Expires.Unix()
			expires = &seconds
		}
		p.keys, p.values = append(p.keys, key), append(p.values, value)
		p.at, p.expires = append(p.at, int64(at[key])), append(p.expires, expires)
	}
}

// batch returns the writes and the commit.
func (p *plan) batch(change store.Change, h head) *pgx.Batch {
	b := &pgx.Batch{}
	if len(p.gone) > 0 {
		b.Queue("DELETE FROM teleport_find.resources WHERE key = ANY($1)", p.gone)
		b.Queue(`INSERT INTO teleport_find.removed SELECT * FROM unnest($1::text[], $2::bigint[])
			ON CONFLICT (key) DO UPDATE SET revision = EXCLUDED.revision`, p.gone, p.goneAt)
	}
	if len(p.keys) > 0 {
		b.Queue(`INSERT INTO teleport_find.resources (key, value, revision, expires) SELECT * FROM unnest($1::text[], `+
			`$2::bytea[], $3::bigint[], $4::bigint[])
			ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value, revision = EXCLUDED.revision, expires = EXCLUDED.expires`, p.keys, p.values,
			p.at, p.expires)
		b.Queue("DELETE FROM teleport_find.removed WHERE key = ANY($1)", p.keys)
	}
	if len(p.records.numbers) > 0 {
		write(b, change.Audit, p.records)
	}
	if p.now > h.revision {
		b.Queue("SELECT pg_notify('" + channel + "', '')")
	}
	advance(b, p.now, change.Deadline)
	return b
}

// write puts records of a change into the history, and removes the oldest if there are too many.
func write(b *pgx.Batch, a store.Audit, r records) {
	add(b, a, r)
	b.Queue("DELETE FROM teleport_find.history WHERE number <= (SELECT number FROM teleport_find.history ORDER BY number DESC "+
		"OFFSET $1 LIMIT 1)", store.MaxHistory)
}

func add(b *pgx.Batch, a store.Audit, r records) {
	b.Queue(`INSERT INTO teleport_find.history (number, time, who, what, why, key, from_revision, to_revision)
		SELECT number, $5, $6, $7, $8, key, from_revision, to_revision
		FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[]) AS t (number, key, from_revision, to_revision)`,
		r.numbers, r.keys, r.from, r.to, a.Time.UTC().Format(time.RFC3339Nano), plain(a.Who), plain(a.What), plain(a.Why))
}

// plain returns a text in a form that the database accepts.
func plain(s string) string { return strings.ReplaceAll(strings.ToValidUTF8(s, "�"), "\x00", "�") }

// forgetRemoved forgets the oldest removals if there are too many.
func forgetRemoved(b *pgx.Batch) {
	b.Queue(`WITH oldest AS (SELECT revision FROM teleport_find.removed ORDER BY revision DESC OFFSET $1 LIMIT 1),
		forgotten AS (UPDATE teleport_find.head SET forgotten = greatest(forgotten, (SELECT revision FROM oldest)) WHERE EXISTS `+
		`(SELECT 1 FROM oldest))
		DELETE FROM teleport_find.removed WHERE revision <= (SELECT revision FROM oldest)`, store.MaxRemoved)
}

func history(ctx context.Context, q querier, limit int) ([]store.HistoryEntry, error) {
	rows, err := q.Query(ctx, "SELECT time, who, what, why, key, from_revision, to_revision FROM teleport_find.history ORDER "+
		"BY number DESC LIMIT $1", limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r store.HistoryEntry, err error) {
		at := ""
		err = row.Scan(&at, &r.Who, &r.What, &r.Why, &r.Key, &r.From, &r.To)
		r.Time, _ = time.Parse(time.RFC3339Nano, at) // in the format of write
		return r, err
	})
}
