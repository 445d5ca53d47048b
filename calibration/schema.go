package calibration

import _ "embed"

// Schema is the JSON Schema (2020-12) of Result.
//
//go:embed schema/calibration.schema.json
var Schema []byte
