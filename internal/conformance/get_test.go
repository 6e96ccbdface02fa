package conformance

import "testing"

func TestGET_02_AGetWithoutAVersionSeesEveryWrite(t *testing.T) {
	onEach(t, func(_ *testing.T, s *server) {
		s.widget("a", "")
		s.get(widgetPath + "/a").is(200)
		s.delete(widgetPath + "/a")
		s.get(widgetPath+"/a").refused(404, "NotFound", `widgets.shop.example.com "a" not found`)
	})
}
