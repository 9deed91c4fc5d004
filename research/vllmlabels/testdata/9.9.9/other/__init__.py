STATE_METRIC = "state"
