package sample

import (
	"fmt"
	"os"
	"strconv"
)

// Seed decides which part of the cases a run takes. Each run takes the same part, so that a commit is refused for what is in the
// commit, and not by chance. FAULTS_SEED takes another part, and `make test-faults` takes all.
func Seed() uint64 {
	const usual = 16
	given := os.Getenv("FAULTS_SEED")
	if given == "" {
		return usual
	}
	seed, err := strconv.ParseUint(given, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("FAULTS_SEED=%s is no number: %v", given, err))
	}
	return seed
}
