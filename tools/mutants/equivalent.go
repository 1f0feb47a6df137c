package main

// equivalent are mutants that do no harm, and why. Each is one that was looked
// at: a mutant belongs here only when no sequence of cuts can tell it from the
// original.
var equivalent = map[string]string{
	"installer/transaction/open.go rebuiltJournal: journal write removed: r.enter(next)": "whatever goes on with the record notes something in it, and so writes it, before it touches the agent " +
		"(TestATransactionWhoseJournalIsLostHasOneBeforeAnythingIsDone); until then the next run tells the transaction again",
}
