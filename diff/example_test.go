package diff_test

import (
	"fmt"

	"github.com/google/pprof/profile"

	"github.com/tollgate-dev/tollgate/diff"
)

// run makes a profile of a program whose function parse takes the given
// samples, with a little noise that depends on the number of the run.
func run(number, parse int64) diff.Run {
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"},
		Period:     1e6,
	}
	add := func(name string, samples int64) {
		id := uint64(len(p.Function) + 1)
		f := &profile.Function{ID: id, Name: name, Filename: "main.go", StartLine: int64(10 * id)}
		l := &profile.Location{ID: id, Line: []profile.Line{{Function: f, Line: f.StartLine + 3}}}
		p.Function, p.Location = append(p.Function, f), append(p.Location, l)
		p.Sample = append(p.Sample, &profile.Sample{Location: []*profile.Location{l}, Value: []int64{samples}})
	}
	total := parse
	add("main.parse", parse+5*(number%3))
	for i := range int64(10) {
		n := 1000 + 7*((number*5+i*3)%11)
		add(fmt.Sprintf("main.step%d", i), n)
		total += n
	}
	return diff.Run{Profile: p, CPUSeconds: float64(total) / 1000, Anchor: 0.05 + 0.0001*float64(number%2)}
}

func ExampleCompare() {
	var base, head []diff.Run
	for i := range int64(6) {
		base = append(base, run(2*i, 800))
		head = append(head, run(2*i+1, 1100))
	}
	result, err := diff.Compare(base, head, diff.Options{Paired: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Verdict, result.Reason.Code)
	for _, f := range result.Findings {
		fmt.Printf("%s: %s at %s:%d, %+.1f pp\n", f.Kind, f.Function, f.File, f.Line, 100*f.Effect)
	}
	// Output:
	// fail regression
	// regression: main.parse at main.go:10, +2.7 pp
}

func ExampleCompare_oneRun() {
	result, err := diff.Compare([]diff.Run{run(1, 800)}, []diff.Run{run(2, 1100)}, diff.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Verdict, result.Advisory)
	fmt.Println(result.Functions[0].Name, len(result.Findings))
	// Output:
	// inconclusive true
	// main.parse 0
}

func ExampleSequence() {
	sequence, err := diff.NewSequence(20, diff.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	var base, head []diff.Run
	for next := sequence.Next(); next > 0; next = sequence.Next() {
		for i := int64(len(base)); len(base) < next; i++ {
			base, head = append(base, run(2*i, 800)), append(head, run(2*i+1, 1100))
		}
		result, err := sequence.Compare(base, head)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(len(base), "pairs:", result.Stop)
		if result.Stop != diff.StopContinue {
			break
		}
	}
	// Output:
	// 5 pairs: fail
}

func ExampleSchedule() {
	fmt.Println(diff.Schedule(20))
	fmt.Println(diff.Schedule(8))
	// Output:
	// [{5 0.1} {10 0.3} {20 0.6}]
	// [{5 0.1} {8 0.9}]
}

func ExampleCanonical() {
	fmt.Println(diff.Canonical("sqlite3VdbeExec.constprop.0.cold"))
	fmt.Println(diff.Canonical("slices.Sort[go.shape.[]int,go.shape.int]"))
	// Output:
	// sqlite3VdbeExec
	// slices.Sort
}
