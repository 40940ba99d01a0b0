package speed

import "time"

// LearnEvery is how often accounting is read.
const LearnEvery = time.Hour

// ShortestRun is the shortest run that teaches a speed.
const ShortestRun = time.Minute
