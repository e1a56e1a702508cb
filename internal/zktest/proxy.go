package zktest

func behindProxy(addr string) string { return addr }
