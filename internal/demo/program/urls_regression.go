//go:build regression

package main

// pathKey appends to key the path that stands for all requests of its kind:
// in lower case, without empty segments, and with :id for a segment that is a
// number or a UUID.
func pathKey(key, path []byte) []byte {
	for i := 0; i < len(path); {
		if path[i] == '/' {
			i++
			continue
		}
		key = append(key, '/')
		start, number := len(key), true
		for ; i < len(path) && path[i] != '/'; i++ {
			c := path[i]
			if c >= 'A' && c <= 'Z' {
				c += 'a' - 'A'
			}
			if c < '0' || c > '9' {
				number = false
			}
			key = append(key, c)
		}
		hex, dashes := 0, 0
		for _, c := range key[start:] {
			switch {
			case c >= '0' && c <= '9', c >= 'a' && c <= 'f':
				hex++
			case c == '-':
				dashes++
			}
		}
		if number || hex == 32 && dashes == 4 {
			key = append(key[:start], ":id"...)
		}
	}
	return key
}
