package suite

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Percent is an effect as a fraction, written with its unit: "0.5%" or
// "0.5 pp" is 0.005. A bare number is refused, since 0.5 could be meant as
// either.
type Percent float64

// Fraction is a share or a probability, written as 0.007 or as "0.7%".
type Fraction float64

// Duration is a time span, written as in "90s" or "1h30m".
type Duration time.Duration

// Date is a day, written as 2026-12-31.
type Date struct{ time.Time }

func (d Date) String() string { return d.Format(time.DateOnly) }

// parsePercent reads a number with "%" or "pp" behind it.
func parsePercent(text string) (float64, error) {
	number, ok := strings.CutSuffix(text, "%")
	if !ok {
		number, ok = strings.CutSuffix(text, "pp")
	}
	if !ok {
		return 0, fmt.Errorf("%q has no unit, must be a percentage such as 0.5%%", text)
	}
	value, err := parseDecimal(strings.TrimRight(number, " "))
	if err != nil {
		return 0, fmt.Errorf("%q is not a percentage such as 0.5%%", text)
	}
	return value / 100, nil
}

// parseDecimal reads a finite decimal number. What else strconv takes (hex,
// underscores, infinities) is no number to other readers of the file.
func parseDecimal(text string) (float64, error) {
	for _, c := range text {
		if !strings.ContainsRune("0123456789.+-eE", c) {
			return 0, fmt.Errorf("%q is not a number", text)
		}
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(value, 0) {
		return 0, fmt.Errorf("%q is not a number", text)
	}
	return value, nil
}

func parseDuration(text string) (Duration, error) {
	value, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a time such as 90s, 10m or 1h30m", text)
	}
	if value <= 0 {
		return 0, fmt.Errorf("%s is not a time above 0", text)
	}
	return Duration(value), nil
}

func parseDate(text string) (Date, error) {
	day, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return Date{}, fmt.Errorf("%q is not a date such as 2026-12-31", text)
	}
	return Date{day}, nil
}
