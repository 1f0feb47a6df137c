package transaction

// losesData reports whether the agent's data go with each stop: then there is nothing to be backed
// up or restored, and the agent begins with no data after each start as it does without a
// change.
func losesData(sight Sight, database string) bool {
	return sight.Ties.LosesOnStop(database)
}
