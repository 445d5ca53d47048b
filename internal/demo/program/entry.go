package main

import (
	"bytes"
	"errors"
	"fmt"
)

// entry is one line of the log. Its slices point into the line, but for referrer.
type entry struct {
	address  uint32 // IPv4
	seconds  int64  // since 1970
	method   []byte
	path     []byte // without the query
	status   int
	size     int
	referrer []byte // its host in lower case; empty for none
	agent    []byte
	micros   int // the request's duration
}

var errMalformed = errors.New("malformed")

// parse reads a line of the combined log format with a duration at its end.
func (e *entry) parse(line []byte) (err error) {
	address, rest, ok := bytes.Cut(line, []byte(" - - ["))
	if !ok {
		return errMalformed
	}
	if e.address, err = parseAddress(address); err != nil {
		return err
	}
	date, rest, ok := bytes.Cut(rest, []byte("] \""))
	if !ok {
		return errMalformed
	}
	if e.seconds, err = parseTime(date); err != nil {
		return err
	}
	request, rest, ok := bytes.Cut(rest, []byte("\" "))
	if !ok {
		return errMalformed
	}
	if err = e.parseRequest(request); err != nil {
		return err
	}
	if e.status, rest, err = parseNumber(rest); err != nil {
		return err
	}
	if e.size, rest, err = parseNumber(rest); err != nil {
		return err
	}
	referrer, rest, ok := bytes.Cut(rest, []byte("\" \""))
	if !ok {
		return errMalformed
	}
	e.referrer = appendHost(e.referrer[:0], referrer)
	agent, rest, ok := bytes.Cut(rest, []byte("\" "))
	if !ok {
		return errMalformed
	}
	e.agent = agent
	e.micros, _, err = parseNumber(rest)
	return err
}

// parseRequest reads "GET /path?query HTTP/1.1".
func (e *entry) parseRequest(request []byte) error {
	first := bytes.IndexByte(request, ' ')
	last := bytes.LastIndexByte(request, ' ')
	if first < 0 || last <= first {
		return fmt.Errorf("request %q: %w", request, errMalformed)
	}
	e.method = request[:first]
	e.path = request[first+1 : last]
	if query := bytes.IndexByte(e.path, '?'); query >= 0 {
		e.path = e.path[:query]
	}
	return nil
}

// appendHost appends the host of a URL to host.
func appendHost(host, url []byte) []byte {
	_, url, ok := bytes.Cut(url, []byte("://"))
	if !ok {
		return host
	}
	for _, c := range url {
		switch {
		case c == '/' || c == ':' || c == '?':
			return host
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		}
		host = append(host, c)
	}
	return host
}

// parseNumber reads a decimal number and the space after it.
func parseNumber(text []byte) (n int, rest []byte, err error) {
	i := 0
	for ; i < len(text) && text[i] >= '0' && text[i] <= '9'; i++ {
		n = n*10 + int(text[i]-'0')
	}
	if i == 0 || i > 18 {
		return 0, nil, fmt.Errorf("number %q: %w", text, errMalformed)
	}
	if i < len(text) && text[i] == ' ' {
		i++
	}
	return n, text[i:], nil
}

// parseAddress reads a dotted IPv4 address.
func parseAddress(text []byte) (address uint32, err error) {
	octet, dots, digits := uint32(0), 0, 0
	for _, c := range text {
		switch {
		case c >= '0' && c <= '9' && digits < 3:
			octet = octet*10 + uint32(c-'0')
			digits++
		case c == '.' && digits > 0 && octet < 256:
			address = address<<8 | octet
			octet, digits = 0, 0
			dots++
		default:
			return 0, fmt.Errorf("address %q: %w", text, errMalformed)
		}
	}
	if dots != 3 || digits == 0 || octet > 255 {
		return 0, fmt.Errorf("address %q: %w", text, errMalformed)
	}
	return address<<8 | octet, nil
}

// parseTime reads "02/Jan/2006:15:04:05 -0700" as seconds since 1970.
func parseTime(text []byte) (int64, error) {
	if len(text) != len("02/Jan/2006:15:04:05 -0700") {
		return 0, fmt.Errorf("time %q: %w", text, errMalformed)
	}
	number := func(from, to int) int64 {
		n := int64(0)
		for _, c := range text[from:to] {
			n = n*10 + int64(c-'0')
		}
		return n
	}
	const months = "JanFebMarAprMayJunJulAugSepOctNovDec"
	month := int64(bytes.Index([]byte(months), text[3:6]))
	if month < 0 || month%3 != 0 {
		return 0, fmt.Errorf("month %q: %w", text, errMalformed)
	}
	month = month/3 + 1
	year := number(7, 11)
	// Days since 1970, with years that begin in March.
	if month <= 2 {
		year--
		month += 12
	}
	days := 365*year + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 + number(0, 2) - 1 - 719468
	seconds := days*86400 + number(12, 14)*3600 + number(15, 17)*60 + number(18, 20)
	zone := number(22, 24)*3600 + number(24, 26)*60
	if text[21] == '-' {
		zone = -zone
	}
	return seconds - zone, nil
}
