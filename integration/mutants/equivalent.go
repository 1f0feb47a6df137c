package main

// equivalent are mutants that do no harm, and why. Each is one that was looked
// at: a mutant belongs here only when no sequence of cuts can tell it from the
// original.
var equivalent = map[string]string{
	"installer/undo.go heedBoot: journal write removed: j.save(i.Paths.Journal())": "unless all is restored already, the entry rolling_back follows at once and holds the same; " +
		"else the next run takes the same look again, and a start that is still to come counts as running",
}
