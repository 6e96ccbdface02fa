package openapi

import "strings"

// digits returns the digits of s. Blanks and dashes between them are ignored. It returns false if s
// contains any other character or more than most digits.
func digits(s string, most int) ([]int, bool) {
	var out []int
	for i := range len(s) {
		switch c := s[i]; {
		case c == ' ' || c == '-':
		case '0' <= c && c <= '9' && len(out) < most:
			out = append(out, int(c-'0'))
		default:
			return nil, false
		}
	}
	return out, true
}

// isISBN10 validates the check digit. An X at the end stands for ten.
func isISBN10(s string) bool {
	last := 0
	if body, ten := strings.CutSuffix(s, "X"); ten {
		s, last = body, 10
	}
	d, ok := digits(s, 10)
	if ok && last > 0 {
		d = append(d, last)
	}
	if !ok || len(d) != 10 {
		return false
	}
	sum := 0
	for i, v := range d {
		sum += (10 - i) * v
	}
	return sum%11 == 0
}

func isISBN13(s string) bool {
	d, ok := digits(s, 13)
	if !ok || len(d) != 13 {
		return false
	}
	sum := 0
	for i, v := range d {
		sum += v * (1 + 2*(i%2))
	}
	return sum%10 == 0
}

// isCreditCard validates the length and the Luhn check digit. It does not look at the issuer.
func isCreditCard(s string) bool {
	d, ok := digits(s, 19)
	if !ok || len(d) < 13 {
		return false
	}
	sum := 0
	for i, v := range d {
		if (len(d)-i)%2 == 0 {
			if v *= 2; v > 9 {
				v -= 9
			}
		}
		sum += v
	}
	return sum%10 == 0
}

// isSSN accepts numbers such as 123-45-6789. The separators may be dashes or blanks.
func isSSN(s string) bool {
	if len(s) != 11 || s[3] != '-' && s[3] != ' ' || s[6] != '-' && s[6] != ' ' {
		return false
	}
	d, ok := digits(s, 9)
	return ok && len(d) == 9
}

// isRGBColor accepts colors such as rgb(1, 2, 255).
func isRGBColor(s string) bool {
	body, ok := strings.CutPrefix(s, "rgb(")
	if !ok {
		return false
	}
	if body, ok = strings.CutSuffix(body, ")"); !ok || len(body) > 64 {
		return false
	}
	parts := strings.Split(body, ",")
	for _, part := range parts {
		d, ok := digits(strings.TrimSpace(part), 3)
		if !ok || len(d) == 0 || len(d) > 1 && d[0] == 0 || strings.ContainsAny(strings.TrimSpace(part), " -") {
			return false
		}
		n := 0
		for _, v := range d {
			n = 10*n + v
		}
		if n > 255 {
			return false
		}
	}
	return len(parts) == 3
}
