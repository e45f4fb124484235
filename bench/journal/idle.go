package main

func idleFollower() (float64, error) { return 0, nil }
