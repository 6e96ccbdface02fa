package engine

import "fmt"

// maxWarning limits the text of a deprecation that the program wrote itself, in bytes.
const maxWarning = 256

// Warning returns what the answers to requests for a deprecated kind warn of, and "" for other kinds.
func (r *Kind) Warning() string {
	d := r.Deprecated
	if d == nil {
		return ""
	}
	if d.Message != "" {
		return d.Message[:min(len(d.Message), maxWarning)]
	}
	text := fmt.Sprintf("%s %s is deprecated", r.APIVersion(), r.Names.Kind)
	if d.Since != "" {
		text += " in v" + d.Since + "+"
	}
	if d.Removed != "" {
		text += ", unavailable in v" + d.Removed + "+"
	}
	if i := d.Instead; i.Version != "" {
		if i.Kind == "" {
			i.Group, i.Kind = r.Group, r.Names.Kind
		}
		text += fmt.Sprintf("; use %s %s", i.GroupVersion(), i.Kind)
	}
	return text
}
