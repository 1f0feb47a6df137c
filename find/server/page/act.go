package page

import (
	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
)

// action is a button.
type action struct {
	Verb, Label, Group string
	Force              bool
}

func actionsFor(*visit, rollout.GroupOverview) []action { return nil }

func actionsForAll(*visit, rollout.Mode) []action { return nil }

var _ = adminapi.Command
