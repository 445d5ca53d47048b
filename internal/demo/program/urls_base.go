//go:build !regression

package main

// pathKey appends to key the path that stands for all requests of its kind:
// in lower case, without empty segments, and with :id for a segment that is a
// number.
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
		if number {
			key = append(key[:start], ":id"...)
		}
	}
	return key
}
