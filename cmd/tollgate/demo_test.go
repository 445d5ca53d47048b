package main

import (
	"testing"

	"github.com/tollgate-dev/tollgate/diff"
	"github.com/tollgate-dev/tollgate/internal/demo"
)

func TestDemoIsCaughtOnlyByItsPlantedFunction(t *testing.T) {
	planted := demo.Planted{Function: "main.pathKey"}
	culprit := diff.Finding{Kind: diff.Regression, Function: "main.pathKey"}
	innocent := diff.Finding{Kind: diff.Regression, Function: "main.other"}
	faster := diff.Finding{Kind: diff.Improvement, Function: "main.pathKey"}
	for _, tt := range []struct {
		name     string
		verdict  diff.Verdict
		findings []diff.Finding
		want     bool
	}{
		{"named first", diff.Fail, []diff.Finding{culprit, innocent}, true},
		{"named second", diff.Fail, []diff.Finding{innocent, culprit}, false},
		{"another blamed", diff.Fail, []diff.Finding{innocent}, false},
		{"nobody blamed", diff.Fail, nil, false},
		{"seen, and no fail", diff.Inconclusive, []diff.Finding{culprit}, false},
		{"improved", diff.Fail, []diff.Finding{faster}, false},
		{"passed", diff.Pass, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := caught(&diff.Result{Verdict: tt.verdict, Findings: tt.findings}, planted); got != tt.want {
				t.Errorf("caught = %v, want %v", got, tt.want)
			}
		})
	}
}
