package shape

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Values holds the values of a template's placeholders.
type Values struct {
	Name      string
	Namespace string
	Version   string // the resourceVersion for a conditional write, or ""
	Index     int
	Seq       int64
}

// Template is text with placeholders, parsed once so that filling it in is cheap. It is safe for
// concurrent use.
type Template struct {
	parts []part
	words []string
}

// part is text and the placeholder that follows it, if any.
type part struct {
	before string
	value  string
	bytes  int // of ${text:bytes}
}

// vocabulary provides the words of ${text:n}.
const vocabulary = `able about above across active after again agent allow alpha among answer append archive around array assign
attach backend balance bandwidth basic batch before begin below between binary bind block border bottom branch bridge broker
buffer build bundle cache cancel capacity carry chain change channel check client clock close cluster collect column commit
compare complete compute config connect console contain control convert copy core count create cursor cycle data decide deep
default delay delete deliver depend deploy detail device digest direct disk domain drain driver edge effect element enable
encode endpoint engine ensure entry error escape event exact example expect export extend fabric factor failure fetch field
figure filter final finish first flag flow follow force format forward frame fresh front gather gauge general global grant
graph group guard handle hash head health hidden history hold host image import inner input insert inspect install invoke
issue item join journal keep kernel label large latch later layer lead lease level limit link list live local lock log loop
machine main manage mark master match measure member memory merge message method metric minor mirror model module monitor mount
name narrow native near network next node normal notice object offset open option order origin other outer output owner page
parent parse part pass patch path peer pending period pick plain plan point pool port prefix present primary print private probe
process profile project proper protect proxy public pull push queue quick quota random range rate reach read ready reason record
region register relay release remote remove render repeat replica report request reserve reset resource result retain retry
return revision ring role root route rule runtime sample scale schema scope score search second section select send series serve
session shard share shell short signal simple single size sleep slice small socket source space spare split stable stage start
state status step storage stream strict string strong submit suffix supply switch symbol sync system table target task template
tenant test thread token tool top total trace track traffic transfer tree trigger trust tunnel type union unit update upper
usage user valid value vector verify version view volume wait watch weight window wire worker write zone`

// Parse parses a template. It rejects unknown and unclosed placeholders.
func Parse(text string) (Template, error) {
	t := Template{words: strings.Fields(vocabulary)}
	for {
		before, after, found := strings.Cut(text, "${")
		if !found {
			t.parts = append(t.parts, part{before: before})
			return t, nil
		}
		value, rest, closed := strings.Cut(after, "}")
		if !closed {
			return Template{}, fmt.Errorf("template: ${%.20s is not closed", after)
		}
		p := part{before: before, value: value}
		if size, ok := strings.CutPrefix(value, "text:"); ok {
			n, err := strconv.Atoi(size)
			if err != nil || n < 0 || n > 1<<20 {
				return Template{}, fmt.Errorf("template: ${%s}: want a number of bytes", value)
			}
			p.value, p.bytes = "text", n
		}
		switch p.value {
		case "name", "namespace", "version", "index", "bucket", "seq":
		case "text":
			if value == "text" {
				return Template{}, fmt.Errorf("template: ${text}: want ${text:bytes}")
			}
		default:
			return Template{}, fmt.Errorf("template: unknown placeholder ${%s}", value)
		}
		t.parts = append(t.parts, p)
		text = rest
	}
}

// Append appends the text with its placeholders filled in to dst.
func (t Template) Append(dst []byte, v Values) []byte {
	for place, p := range t.parts {
		dst = append(dst, p.before...)
		switch p.value {
		case "name":
			dst = append(dst, v.Name...)
		case "namespace":
			dst = append(dst, v.Namespace...)
		case "version":
			if v.Version != "" {
				dst = append(append(append(dst, `"resourceVersion":"`...), v.Version...), `",`...)
			}
		case "index":
			dst = strconv.AppendInt(dst, int64(v.Index), 10)
		case "bucket":
			dst = strconv.AppendInt(dst, int64(v.Index%100), 10)
		case "seq":
			dst = strconv.AppendInt(dst, v.Seq, 10)
		case "text":
			dst = t.text(dst, p.bytes, uint64(v.Index), uint64(place))
		}
	}
	return dst
}

// text appends n bytes of words, the same for the same seeds.
func (t Template) text(dst []byte, n int, seed, place uint64) []byte {
	source := rand.NewPCG(seed, place)
	end := len(dst) + n
	for len(dst) < end {
		dst = append(dst, t.words[source.Uint64()%uint64(len(t.words))]...)
		dst = append(dst, ' ')
	}
	return dst[:end]
}
