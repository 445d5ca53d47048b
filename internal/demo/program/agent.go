package main

import "bytes"

// agent is the kind of program that sent a request.
type agent int

const (
	otherAgent agent = iota
	robot
	phone
	chrome
	firefox
	script
	agents // how many there are
)

func (a agent) String() string {
	return [...]string{"other", "robot", "phone", "chrome", "firefox", "script"}[a]
}

// classifyAgent finds the first sign, in order of weight, in the User-Agent.
func classifyAgent(text []byte) agent {
	for _, sign := range [...]struct {
		text  string
		agent agent
	}{
		{"bot", robot},
		{"crawler", robot},
		{"Mobile", phone},
		{"Android", phone},
		{"Chrome/", chrome},
		{"Firefox/", firefox},
		{"curl/", script},
		{"python", script},
	} {
		if bytes.Contains(text, []byte(sign.text)) {
			return sign.agent
		}
	}
	return otherAgent
}
