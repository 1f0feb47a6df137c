package installer

import (
	"fmt"

	"teleport-update/find"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/versions/fetch"
)

// offer is the URL template that find offered to an enable that has none; empty if there is
// none. It is shown to a person and used by nothing: find is believed about version, edition and time.
type offer struct{ template string }

// hear notes what find offers, if the releases would come from the usual place.
func (o *offer) hear(answer find.Answer, spec state.Spec) {
	if len(spec.URLTemplates) == 0 {
		o.template = answer.ReleaseTemplate
	}
}

// withCommand adds to the error of an enable that was refused, or that could not fetch the release, the whole
// command with the template. The other result is why the template is not fit to be shown.
func (o *offer) withCommand(err error, opts EnableOptions, p state.Paths) (shown, unfit error) {
	if o.template == "" || !failure.Is[*failure.RefusedError](err) && !fetch.NoMirror(err) {
		return err, nil
	}
	if _, unfit := fetch.ParseOffered(o.template); unfit != nil {
		return err, unfit
	}
	opts.Templates = []string{o.template}
	return fmt.Errorf("%w; the find server offers a URL template, which is used only if you name it: %s", err,
		opts.command(p)), nil
}
