// Package migrations holds the database's schema, one applied-once file a step.
// A file that was released is never edited; a change is the next file.
package migrations

import "embed"

//go:embed *.sql
var FS embed.FS
