package cel

import (
	"fmt"
	"sync"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/ext"

	"github.com/kindwright/kindwright/internal/feature"
)

// library is a part of the environment of rules, with the releases that have it. Every version is
// fixed: an unversioned library would grow with cel-go, and a rule that one server accepts would be
// rejected by the other.
// Source: CEL-24, CEL-25, CEL-27.
type library struct {
	since, until int // minor releases; until is the first without it, or 0
	options      []celgo.EnvOption
}

func libraries() []library {
	return []library{
		{options: urlLibrary()},
		{options: regexLibrary()},
		{options: listsLibrary()},
		{options: []celgo.EnvOption{
			celgo.HomogeneousAggregateLiterals(),
			celgo.EagerlyValidateDeclarations(true),
			celgo.DefaultUTCTimeZone(true),
			celgo.ParserExpressionSizeLimit(MaxExpressionLength),
			celgo.CostEstimatorOptions(checker.PresenceTestHasCost(false)),
			celgo.CustomTypeAdapter(types.DefaultTypeAdapter),
			pricedFunction(),
			roundFunction(),
		}},
		{since: 28, options: []celgo.EnvOption{
			celgo.CrossTypeNumericComparisons(true),
			lenientOptionals(),
			celgo.OptionalTypes(celgo.OptionalTypesVersion(optionalVersion)),
		}},
		{since: 27, options: authorizerLibrary()},
		{since: 28, options: quantityLibrary()},
		{until: 29, options: []celgo.EnvOption{ext.Strings(ext.StringsVersion(0))}},
		{since: 29, options: []celgo.EnvOption{
			celgo.ASTValidators(
				celgo.ValidateDurationLiterals(),
				celgo.ValidateTimestampLiterals(),
				validatePatterns(),
				celgo.ValidateHomogeneousAggregateLiterals(),
			),
			ext.Strings(ext.StringsVersion(stringsVersion)),
			ext.Sets(ext.SetsVersion(setsVersion)),
		}},
		{since: 30, options: networkLibrary()},
		{since: 31, options: formatLibrary()},
		{since: 31, options: selectorLibrary()},
		{since: 32, options: []celgo.EnvOption{ext.TwoVarComprehensions(ext.TwoVarComprehensionsVersion(twoVarVersion))}},
		{since: 33, options: semverLibrary()},
		{since: 34, options: []celgo.EnvOption{ext.Lists(ext.ListsVersion(listsVersion))}},
	}
}

// environments makes the environments of rules, one for each release and one with all libraries.
// Each takes a millisecond to make and is never changed.
type environments struct {
	mu       sync.Mutex
	made     map[int]*celgo.Env // by minor release; 0 has all libraries
	policies map[admissionKey]*celgo.Env
}

var bases environments

// all is the environment of expressions that were accepted once.
const all = 0

// of returns the environment of a minor release.
func (e *environments) of(minor int) (*celgo.Env, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if env, ok := e.made[minor]; ok {
		return env, nil
	}
	var options []celgo.EnvOption
	for _, l := range libraries() {
		if minor == all && l.until == 0 || minor != all && l.since <= minor && (l.until == 0 || minor < l.until) {
			options = append(options, l.options...)
		}
	}
	env, err := celgo.NewCustomEnv(append([]celgo.EnvOption{celgo.StdLib()}, options...)...)
	if err != nil {
		return nil, fmt.Errorf("environment of rules: %w", err)
	}
	if e.made == nil {
		e.made = map[int]*celgo.Env{}
	}
	e.made[minor] = env
	return env, nil
}

// minorOf returns the minor release whose libraries new expressions may use: that before a release,
// so that the expressions survive a rollback.
func minorOf(release string) (int, error) {
	r := feature.Newest()
	if release != "" {
		var err error
		if r, err = feature.ParseRelease(release); err != nil {
			return 0, err
		}
	}
	return r.Before().Minor, nil
}
