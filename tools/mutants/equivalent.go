package main

// equivalent are mutants that do no harm, and why. Each is one that was looked
// at: a mutant belongs here only when no sequence of cuts can tell it from the
// original.
var equivalent = map[string]string{}
