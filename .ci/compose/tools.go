//go:build tools

// The program that .ci/docker-compose builds.
package tools

import _ "github.com/docker/compose/v2/cmd"
