package component

// DebuggingConfiguration says which profiles a program serves. Source: CLIENTCONN-06, CLIENTCONN-07.
type DebuggingConfiguration struct {
	// EnableProfiling serves the runtime's profiles below /debug/pprof. Default: true.
	EnableProfiling *bool `json:"enableProfiling,omitempty"`

	// EnableContentionProfiling collects where goroutines wait for each other. It has an effect only if
	// profiles are served.
	EnableContentionProfiling *bool `json:"enableContentionProfiling,omitempty"`
}

// Default fills in the recommended values where nothing is said. Source: CLIENTCONN-15.
func (c *DebuggingConfiguration) Default() {
	if c.EnableProfiling == nil {
		yes := true
		c.EnableProfiling = &yes
	}
}

// Profiles reports whether the program serves profiles: the field Profiles of kindwright.Debug.
func (c DebuggingConfiguration) Profiles() bool {
	return c.EnableProfiling == nil || *c.EnableProfiling
}

// Contention reports whether the program collects where goroutines wait, as by
// runtime.SetBlockProfileRate(1).
func (c DebuggingConfiguration) Contention() bool {
	return c.Profiles() && c.EnableContentionProfiling != nil && *c.EnableContentionProfiling
}
