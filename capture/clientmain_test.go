package capture

func clientMain() int { return 0 }
