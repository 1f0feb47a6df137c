package transaction

import "errors"

// advancing is a transaction on its way to a new version: it prepares one, has its steps done, and
// commits it or has it undone.
type advancing struct {
	t   *transaction
	req checked
}

// errNeedsBoot is a transaction that the shutdown of the host cut off.
var errNeedsBoot = errors.New("the host is shutting down: the transaction is undone at the next boot")
