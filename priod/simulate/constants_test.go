package simulate

import "slurmprio/priod/config"

func init() { config.Settable = "yes" } // files and --set assign constants
