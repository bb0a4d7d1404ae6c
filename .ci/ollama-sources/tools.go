//go:build tools

// The program that .ci/ollama builds.
package tools

import _ "github.com/ollama/ollama"
