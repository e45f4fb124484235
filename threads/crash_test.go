package threads_test

func crashChild() bool { return false }
