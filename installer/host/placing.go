package host

import (
	"fmt"
	"path/filepath"

	"teleport-update/installer/state"
	"teleport-update/versions"
)

// Place puts a version where systemd and people find it, no matter what stands there: the changes
// of links, and then its unit.
func (h *Host) Place(tree versions.Tree, links []state.LinkChange) error {
	if err := h.Link(links); err != nil {
		return err
	}
	return h.PlaceUnit(tree)
}

// Link is ApplyLinks, and names the files that it kept aside.
func (h *Host) Link(links []state.LinkChange) error {
	for _, c := range links {
		if c.Before.Saved != "" {
			h.Log.Warn("moved a file aside to make room for the link", "file", c.Path,
				"aside", filepath.Join(h.Paths.Original(), c.Before.Saved))
		}
	}
	return ApplyLinks(links, h.Paths.Original())
}

// PlanLinks returns the changes in the link folder that link the programs of a tree.
func (h *Host) PlanLinks(tree versions.Tree) ([]state.LinkChange, error) {
	return PlanLinks(h.Paths.LinkDir, tree, h.known())
}

// PlanFreeLinks is PlanLinks without the links of helpers whose places hold something that no link replaces: a repair
// reports them later. In the place of the agent's own link, such a thing is an error.
func PlanFreeLinks(h *Host, to versions.Tree) ([]state.LinkChange, error) {
	changes, err := h.PlanLinks(to)
	if InTheWay(err) == "" {
		return changes, err
	}
	_, err = beforeOf(filepath.Join(h.Paths.LinkDir, AgentName))
	return changes, err
}

// Repair makes links and unit a version's, no matter what is there. A version that was published
// again may bring other programs.
func (h *Host) Repair(tree versions.Tree) error {
	if err := makeLinks(h, tree); err != nil {
		return err
	}
	if err := h.PlaceUnit(tree); err != nil {
		return fmt.Errorf("repair the agent's unit: %w", err)
	}
	return h.Disclaim(tree)
}

// RepairLinks is Repair without the unit.
func RepairLinks(h *Host, tree versions.Tree) error {
	if err := makeLinks(h, tree); err != nil {
		return err
	}
	return h.Disclaim(tree)
}

func makeLinks(h *Host, tree versions.Tree) error {
	links, err := h.PlanLinks(tree)
	if err != nil {
		return err
	}
	if err := h.Claim(links); err != nil {
		return fmt.Errorf("keep what was here before: %w", err)
	}
	if err := h.Link(links); err != nil {
		return fmt.Errorf("repair the links: %w", err)
	}
	return nil
}

// LinkUpdater makes the updater's own link the version's, if the version brings an updater of ours.
func (h *Host) LinkUpdater(tree versions.Tree) error {
	changes, err := PlanUpdaterLink(h.Paths.LinkDir, tree)
	if err != nil {
		return err
	}
	return ApplyLinks(changes, h.Paths.Original())
}
