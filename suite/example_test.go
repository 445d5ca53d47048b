package suite_test

import (
	"fmt"
	"strings"

	"github.com/tollgate-dev/tollgate/suite"
)

func ExampleParse() {
	config, err := suite.Parse("tollgate.yaml", []byte(`
suites:
  - name: parse
    command: ./parse --size 1000
    thresholds:
      fail: 0.5%
      functions:
        - {function: runtime.*, fail: 2%}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	parse, _ := config.Suite("parse")
	fmt.Println(parse.Command, parse.Frequency)
	fmt.Println(parse.Thresholds.Limits("runtime.mallocgc").Fail)
	fmt.Println(parse.Options().FailEffect)
	// Output:
	// ./parse --size 1000 999
	// 0.02
	// 0.005
}

func ExampleFileError() {
	_, err := suite.Parse("tollgate.yaml", []byte("suites:\n  - name: parse\n    comand: ./parse\n"))
	fmt.Println(err)
	// Output:
	// read tollgate.yaml:3:5: suites[0]: unknown key "comand", did you mean "command"?
}

// A run of fixed time did half the iterations: each costs twice as much.
func ExampleWorkOf() {
	base, _ := suite.ParseBenchmarks(strings.NewReader("BenchmarkParse-8 \t 2000 \t 500000 ns/op\n"))
	head, _ := suite.ParseBenchmarks(strings.NewReader("BenchmarkParse-8 \t 1000 \t 1000000 ns/op\n"))
	units, err := suite.WorkOf([][]suite.Benchmark{base, head}, 1)
	fmt.Println(units, err)
	// Output: [1 0.5] <nil>
}
