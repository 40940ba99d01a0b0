package cluster

// Right is what a job may do by the guaranteed shares of accounts: see priod/guarantee.
type Right uint8

// The rights.
const (
	NoShares Right = iota // the site guarantees none
	Entitled              // within its account's share: it starts in time, and never leaves for others
	Within                // waits for free room, which then counts to its account's share, in place of jobs of the account that leave
	Borrows               // beyond its account's share: it leaves for entitled jobs if it agrees to leave
	Withheld              // waits, beyond its account's share, and could not leave in time: it does not start on what others own
)

var rightNames = [...]string{"", "entitled", "within", "borrows", "withheld"}

func (r Right) String() string { return rightNames[r] }
