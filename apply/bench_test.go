package apply_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/apply"
	"github.com/kindwright/kindwright/meta"
)

// benchConfig makes a configuration of approximately the given size. Most of it is a keyed list, as
// in typical pod templates.
func benchConfig(bytes, size int) map[string]any {
	var parts strings.Builder
	for i := 0; parts.Len() < bytes*6/10; i++ {
		fmt.Fprintf(&parts, "{name: part-%d, count: 2, label: some text, tags: [alpha, beta], options: {first: one, second: two}}, ", i)
	}
	return object("v1", tree(fmt.Sprintf(`{metadata: {labels: {app: shop, tier: front}}, spec: {size: %d, owner: ann, box: {width: 1, height: 2},
		ports: [{port: 80, name: http}, {port: 443, name: https}], words: [a, b, c], notes: {a: x, b: x}, parts: [%s]}}`, size, parts.String())))
}

func BenchmarkWrites(b *testing.B) {
	fields := widgetFields(b)
	for _, bytes := range []int{1 << 10, 4 << 10} {
		config := benchConfig(bytes, 1)
		request := func(live, sent map[string]any, manager string) apply.Request {
			return apply.Request{Live: live, New: sent, Manager: manager, APIVersion: group + "v1", Time: meta.NewTime(start())}
		}
		live, err := fields.Apply(request(nil, config, "ann"))
		require.NoError(b, err)
		live = widgetSchemas["v1"].Default(live)
		live, err = fields.Update(request(live, mergePatch(live, tree("{spec: {ready: true}}")).(map[string]any), "controller"))
		require.NoError(b, err)
		changed := mergePatch(live, tree("{spec: {limit: 7}}")).(map[string]any)
		dropped := mergePatch(benchConfig(bytes, 1), tree("{spec: {owner: null}}")).(map[string]any)
		for _, c := range []struct {
			name string
			do   func(apply.Request) (map[string]any, error)
			r    apply.Request
		}{
			{"create", fields.Update, request(nil, withEntries(live, nil), "ann")},
			{"update", fields.Update, request(live, changed, "controller")},
			{"update of nothing", fields.Update, request(live, live, "controller")},
			{"apply to create", fields.Apply, request(nil, config, "ann")},
			{"apply with a change", fields.Apply, request(live, benchConfig(bytes, 2), "ann")},
			{"apply that drops a field", fields.Apply, request(live, dropped, "ann")},
			{"apply of nothing", fields.Apply, request(live, config, "ann")},
		} {
			b.Run(fmt.Sprintf("%s/%dKiB", c.name, bytes>>10), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := c.do(c.r); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkHostile measures the worst object that is just small enough to be tracked.
func BenchmarkHostile(b *testing.B) {
	fields := widgetFields(b)
	codes := make([]any, 9_900)
	for i := range codes {
		codes[i] = int64(len(codes) - i)
	}
	notes := map[string]any{}
	for i := range 9_900 {
		notes[fmt.Sprint(i)] = "x"
	}
	for name, spec := range map[string]map[string]any{"set": {"codes": codes}, "map": {"notes": notes}} {
		sent := object("v1", map[string]any{"spec": spec})
		for how, do := range map[string]func(apply.Request) (map[string]any, error){"update": fields.Update, "apply": fields.Apply} {
			b.Run(name+"/"+how, func(b *testing.B) {
				for b.Loop() {
					if _, err := do(apply.Request{New: sent, Manager: "ann", APIVersion: group + "v1"}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
