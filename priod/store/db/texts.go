package db

// The texts of statements that run for many rows at once.
const (
	PutJobText      = putJob
	PutNodeText     = putNode
	PutIntervalText = putInterval
	PutHistoryText  = putHistory
	DropHistoryText = dropHistory
	AddDecisionText = addDecision
	PutShareText    = putShare
	DropShareText   = dropShare
	PutWaitText     = putWait
	AddWriteText    = addWrite
	EndWriteText    = endWrite
)
