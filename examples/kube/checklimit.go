package kube

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

func checkLimitRange(r *corev1.LimitRange, f *status.Fields) {
	types := map[corev1.LimitType]bool{}
	for i := range r.Spec.Limits {
		l, one := &r.Spec.Limits[i], f.At("spec", "limits").Index(i)
		checkLimitType(string(l.Type), one.Child("type"))
		if types[l.Type] {
			one.Child("type").Duplicate(string(l.Type))
		}
		types[l.Type] = true
		checkLimit(l, one)
	}
}

// checkLimitType requires a type of ours, or one with a domain.
func checkLimitType(name string, at status.Field) {
	if why := meta.CheckQualifiedName(name); why != "" {
		at.Invalid(name, why)
		return
	}
	switch corev1.LimitType(name) {
	case corev1.LimitTypePod, corev1.LimitTypeContainer, corev1.LimitTypePersistentVolumeClaim:
	default:
		if !strings.Contains(name, "/") {
			at.Invalid(name, "must be a standard limit type or fully qualified")
		}
	}
}

// checkLimit checks the amounts of one type: their names, and that they fit to each other.
func checkLimit(l *corev1.LimitRangeItem, at status.Field) {
	isName := func(at status.Field, name corev1.ResourceName) { isResource(at, name) }
	defaults, requests := l.Default, l.DefaultRequest
	switch l.Type {
	case corev1.LimitTypeContainer:
		isName = checkContainerAmount
	case corev1.LimitTypePod:
		isName = checkContainerAmount
		const why = "may not be specified when `type` is 'Pod'"
		if len(defaults) > 0 {
			at.Child("default").Forbidden(why)
		}
		if len(requests) > 0 {
			at.Child("defaultRequest").Forbidden(why)
		}
		defaults, requests = nil, nil
	case corev1.LimitTypePersistentVolumeClaim:
		if amountOf(l.Min, corev1.ResourceStorage) == nil && amountOf(l.Max, corev1.ResourceStorage) == nil {
			at.Child("limits").Required("either minimum or maximum storage value is required, but neither was provided")
		}
	}
	all := corev1.ResourceList{}
	for _, list := range []struct {
		field   string
		amounts corev1.ResourceList
	}{{"max", l.Max}, {"min", l.Min}, {"default", defaults}, {"defaultRequest", requests}, {"maxLimitRequestRatio", l.MaxLimitRequestRatio}} {
		for _, name := range amountNames(list.amounts) {
			isName(at.Child(list.field).Key(string(name)), name)
			all[name] = list.amounts[name]
		}
	}
	for _, name := range amountNames(all) {
		checkLimitAmounts(name, amountOf(l.Min, name), amountOf(l.Max, name), amountOf(defaults, name), amountOf(requests, name), at)
		checkRatio(name, amountOf(l.MaxLimitRequestRatio, name), amountOf(l.Min, name), amountOf(l.Max, name), at)
	}
}

// amountOf returns an amount, or nil if there is none of that name.
func amountOf(list corev1.ResourceList, name corev1.ResourceName) *resource.Quantity {
	if q, has := list[name]; has {
		return &q
	}
	return nil
}

// checkLimitAmounts compares the amounts of one resource, of which some may be absent.
func checkLimitAmounts(name corev1.ResourceName, least, most, limit, request *resource.Quantity, at status.Field) {
	for _, c := range []struct {
		low, high, shown  *resource.Quantity
		field             string
		lowName, highName string
	}{
		{least, most, least, "min", "min", "max"},
		{least, request, request, "defaultRequest", "min", "default request"},
		{request, most, request, "defaultRequest", "default request", "max"},
		{request, limit, request, "defaultRequest", "default request", "default limit"},
		{least, limit, least, "default", "min", "default"},
		{limit, most, most, "default", "default", "max"},
	} {
		if c.low != nil && c.high != nil && c.low.Cmp(*c.high) > 0 {
			at.Child(c.field).Key(string(name)).Invalid(c.shown.String(),
				fmt.Sprintf("%s value %s is greater than %s value %s", c.lowName, c.low, c.highName, c.high))
		}
	}
	if !overcommitted(name) && limit != nil && request != nil && limit.Cmp(*request) != 0 {
		at.Child("defaultRequest").Key(string(name)).Invalid(request.String(),
			fmt.Sprintf("default value %s must equal to defaultRequest value %s in %s", limit, request, name))
	}
}

// checkRatio checks how many times its request a limit may be, which cannot be more than the bounds of both allow.
func checkRatio(name corev1.ResourceName, ratio, least, most *resource.Quantity, at status.Field) {
	if ratio == nil {
		return
	}
	one := at.Child("maxLimitRequestRatio").Key(string(name))
	if ratio.Cmp(*resource.NewQuantity(1, resource.DecimalSI)) < 0 {
		one.Invalid(ratio.String(), fmt.Sprintf("ratio %s is less than 1", ratio))
	}
	if least == nil || most == nil {
		return
	}
	times, low, high := float64(ratio.Value()), least.Value(), most.Value()
	if max(ratio.Value(), low, high) < resource.MaxMilliValue { // thousandths count if there is room for them
		times, low, high = float64(ratio.MilliValue())/1000, least.MilliValue(), most.MilliValue()
	}
	if possible := float64(high) / float64(low); times > possible {
		one.Invalid(ratio.String(), fmt.Sprintf("ratio %s is greater than max/min = %f", ratio, possible))
	}
}

// isCounted reports an amount below zero, and a part of something that is counted.
func isCounted(at status.Field, name corev1.ResourceName, q resource.Quantity) {
	if q.Sign() < 0 {
		at.Invalid(q.String(), "must be greater than or equal to 0")
	}
	if (extendedResource(name) || isNamedCount(name)) && q.MilliValue()%1000 != 0 {
		at.Invalid(q.String(), "must be an integer")
	}
}
