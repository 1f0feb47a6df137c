package page

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
)

// configPath is the address for a write of the configuration.
func configPath(dryRun bool, reason string) string {
	return fmt.Sprintf("/v1/resources?dry_run=%t&reason=%s", dryRun, url.QueryEscape(reason))
}

// suspended returns the present configuration, with its revision and with updates suspended, in the form for the admin API.
func (p *page) suspended(v *visit) ([]byte, error) {
	data, err := p.api.raw(v, http.MethodGet, "/v1/resources/"+rollout.KindConfig, nil)
	if err != nil {
		return nil, err
	}
	list, err := rollout.Parse(data)
	if err != nil {
		return nil, err
	}
	config, is := list[0].(*rollout.Config)
	if !is {
		return nil, fmt.Errorf("%s in the store is not a configuration", rollout.KindConfig)
	}
	config.Spec.Agents.Mode = rollout.Suspended
	return rollout.JSON(config)
}

func (p *page) foreseeSuspend(v *visit) (changes plan, err error) {
	var now adminapi.Overview
	if err := p.api.ask(v, http.MethodGet, "/v1/overview", nil, &now); err != nil {
		return changes, err
	}
	config, err := p.suspended(v)
	if err != nil {
		return changes, err
	}
	var result adminapi.Result
	if err := p.api.ask(v, http.MethodPut, configPath(true, ""), json.RawMessage(config), &result); err != nil {
		return changes, err
	}
	left, moving := 0, 0
	for _, g := range now.Groups {
		left, moving = left+g.Present-g.UpToDate, moving+g.Updating
	}
	return plan{key: fmt.Sprintf("%s %s", now.Mode, now.Target), lines: []string{
		fmt.Sprintf("Updates go from %s to %s.", now.Mode, rollout.Suspended),
		fmt.Sprintf("Hosts that are not on %s yet (%d) are told to stay as they are, and no group goes on.",
			cmp.Or(string(now.Target), "a target"), left),
		fmt.Sprintf("%s that have begun to update, or were told to, may still finish it.", hostsWord(moving)),
	}}, nil
}

// suspend suspends updates.
func (p *page) suspend(v *visit, reason string) error {
	config, err := p.suspended(v)
	if err != nil {
		return err
	}
	var result adminapi.Result
	return p.api.ask(v, http.MethodPut, configPath(false, reason), json.RawMessage(config), &result)
}
