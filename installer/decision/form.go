package decision

import (
	"errors"
	"regexp"
	"strings"

	"teleport-update/internal/failure"
)

var (
	// orders is where the advice in a text begins: the first clause that begins with a command.
	orders = regexp.MustCompile("(: |; |\\. )(see )?`[^`]+ [^`]+`")
	// forbids is a warning before the command of an advice.
	forbids = regexp.MustCompile("^(do not [^`]*[^`:;. ])[:;.] `")
)

// split cuts a text before its advice. Both parts together have all words of the text: if no clause begins with a command, the text has no
// advice, and a part of it that looks like one may be the end of an error.
func split(text string) (what, advice string) {
	if at := orders.FindStringIndex(text); at != nil {
		return text[:at[0]], strings.TrimLeft(text[at[0]:], ":;. ")
	}
	return text, ""
}

// parts returns the cause of an error, and what to do about it.
func parts(why error) (what, fix string) {
	if e, ok := errors.AsType[*failure.Error](why); ok && e.Fix != "" {
		return e.What.Error(), e.Fix
	}
	return split(why.Error())
}

// condition puts a finding into its form. A warning before the first command of the advice is a part of what is wrong: a person reads it
// before the command. Without an advice, the condition has what helps in general.
func (c Check) condition(what, advice string) Condition {
	what = strings.TrimRight(what, ":;,. ")
	if at := forbids.FindStringSubmatchIndex(advice); at != nil {
		what += "; " + advice[:at[3]]
		advice = strings.TrimLeft(advice[at[3]:], ":;. ")
	}
	if advice == "" {
		advice = helps[c.Type]
	}
	advice = strings.TrimRight(advice, ":;,. ")
	return Condition{Type: c.Type, Severity: c.Severity, What: what, Do: strings.ToLower(advice[:1]) + advice[1:], Subject: c.Subject}
}
