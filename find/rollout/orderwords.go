package rollout

import "strings"

// Words is the order as the history has it: the command without its reason.
func (o Order) Words() string {
	words := []string{string(o.Verb)}
	if o.Force {
		words = append(words, "--force")
	}
	if o.To != "" && o.To != BackToStart {
		words = append(words, "--to", o.To)
	}
	return strings.Join(append(words, o.Groups...), " ")
}

// IsOrderOf reports whether words of the history are an order for the group or for all groups.
func IsOrderOf(words, group string) bool {
	verb, of, some := strings.Cut(words, " ")
	switch Verb(verb) {
	case StartUpdate, MarkDone, Rollback, Retry, Reset:
		return !some || strings.Contains(" "+of+" ", " "+group+" ")
	}
	return false
}
