package apiserver

import (
	"slices"
	"strconv"
)

// codes are the response codes that have a label of their own. 0 is a request that ended without an
// answer.
var codes = [...]int{
	0, 100, 101, 200, 201, 202, 203, 204, 205, 206, 300, 301, 302, 303, 304, 307, 308,
	400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416, 417, 418, 422, 423, 424, 425, 426, 428, 429, 431,
	500, 501, 502, 503, 504, 505, 507, 511,
}

// Behind the codes stand the folded ones: a subresource or a plugin can answer with any number. The
// names match the patterns of dashboards, such as 5.. for failures of the server.
var folded = [...]string{"other", "2xx", "3xx", "4xx", "5xx"}

const codeCount = len(codes) + len(folded)

// codeIndices holds the index of each code from 0 to 599.
var codeIndices = indexCodes()

func indexCodes() [600]uint8 {
	var table [600]uint8
	for code := range table {
		table[code] = uint8(len(codes))
		if class := code / 100; class >= 2 {
			table[code] += uint8(class - 1)
		}
	}
	for i, code := range codes {
		table[code] = uint8(i)
	}
	return table
}

func codeIndex(code int) int {
	if code < 0 || code >= len(codeIndices) {
		return len(codes)
	}
	return int(codeIndices[code])
}

func codeName(index int) string {
	if index < len(codes) {
		return strconv.Itoa(codes[index])
	}
	return folded[index-len(codes)]
}

// terminations are the codes that a server ends requests with to protect itself.
var terminations = [...]int{429, 500, 503, 504}

func terminationIndex(code int) int {
	if i := slices.Index(terminations[:], code); i >= 0 {
		return i
	}
	return len(terminations)
}

func terminationName(index int) string {
	if index < len(terminations) {
		return strconv.Itoa(terminations[index])
	}
	return folded[0]
}
