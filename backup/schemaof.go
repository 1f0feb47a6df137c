package backup

import (
	"context"
	"errors"
	"fmt"
)

// A Schema identifies the tables of a version's database. If two schemas are equal, a
// version that works on one database works on the other.
type Schema struct{ schema schema }

// Digest returns the schema as a text: equal texts are equal schemas.
func (s Schema) Digest() string {
	return fmt.Sprintf("%d-%x", s.schema.userVersion, s.schema.objects[:8])
}

// SchemaOf reads the schema of the backup in dir. An *InvalidError says why there is no backup.
func SchemaOf(ctx context.Context, dir string) (_ Schema, err error) {
	defer contain(&err)
	r, err := readMetadata(dir)
	if err != nil {
		return Schema{}, err
	}
	path, err := r.file(dir)
	if err != nil {
		return Schema{}, err
	}
	found, err := settled(ctx, path, readSchema)
	if err != nil && ctx.Err() == nil {
		err = unusable(dir, err, "is damaged: read the schema of %s: %v", FileName, err)
	}
	return Schema{found}, err
}

// NameOf returns the name of a host in a cluster in the certificates of the backup in dir; empty if it has no name that can be read.
func NameOf(ctx context.Context, dir string) (_ string, err error) {
	defer contain(&err)
	r, err := readMetadata(dir)
	if err != nil {
		return "", err
	}
	path, err := r.file(dir)
	if err != nil {
		return "", err
	}
	found, err := settled(ctx, path, identity)
	if errors.Is(err, errNoIdentity) {
		return "", nil
	}
	return found.name, err
}

// Schema reads the schema of the live database; ErrNoDatabase if there is no database.
func (d *Database) Schema(ctx context.Context) (_ Schema, err error) {
	defer d.explained(&err)
	defer contain(&err)
	src, err := d.source()
	if err != nil {
		return Schema{}, err
	}
	found, err := query(ctx, src, readSchema)
	if err != nil {
		err = fmt.Errorf("read the schema of %s: %w", src.path, explain(ctx, err, src.path, src.path))
	}
	return Schema{found}, err
}

// MetaOf returns the Meta in the backup.yaml in dir.
func MetaOf(dir string) (Meta, error) {
	r, err := readMetadata(dir)
	return r.Meta, err
}
