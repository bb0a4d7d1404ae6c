import { agentCost } from './benchmarks/agent-cost.ts'
import { append } from './benchmarks/append.ts'
import { checkpoints } from './benchmarks/checkpoints.ts'
import { consolePage } from './benchmarks/console.ts'
import { consoleApi } from './benchmarks/console-api.ts'
import { consoleSize } from './benchmarks/console-size.ts'
import { crowd } from './benchmarks/crowd.ts'
import { depth } from './benchmarks/depth.ts'
import { exports } from './benchmarks/exports.ts'
import { fanOut } from './benchmarks/fan-out.ts'
import { firstToken } from './benchmarks/first-token.ts'
import { httpCore } from './benchmarks/http-core.ts'
import { idleSockets } from './benchmarks/idle-sockets.ts'
import { install } from './benchmarks/install.ts'
import { manySandboxes } from './benchmarks/many-sandboxes.ts'
import { pages } from './benchmarks/pages.ts'
import { postgres } from './benchmarks/postgres.ts'
import { reference } from './benchmarks/reference.ts'
import { request } from './benchmarks/request.ts'
import { restart } from './benchmarks/restart.ts'
import { risk } from './benchmarks/risk.ts'
import { sandboxBenchmarks } from './benchmarks/sandboxes.ts'
import { start } from './benchmarks/start.ts'
import { steps } from './benchmarks/steps.ts'
import type { Benchmark } from './support/benchmark.ts'
import { whyNoChromium } from './support/console-page.ts'

/** Every benchmark by name, in the order in which they run. */
export const benchmarks: Readonly<Record<string, Benchmark>> = {
  'http-core': { run: httpCore },
  pages: { run: pages },
  depth: { run: depth },
  console: { run: consolePage, whyUnavailable: whyNoChromium },
  'console-api': { run: consoleApi },
  'console-size': { run: consoleSize },
  append: { run: append },
  postgres,
  'fan-out': { run: fanOut },
  'idle-sockets': { run: idleSockets },
  start: { run: start },
  install: { run: install },
  restart: { run: restart },
  exports: { run: exports },
  ...sandboxBenchmarks,
  'many-sandboxes': { run: manySandboxes },
  steps: { run: steps },
  crowd: { run: crowd },
  'first-token': { run: firstToken },
  'agent-cost': { run: agentCost },
  request: { run: request },
  risk: { run: risk },
  checkpoints: { run: checkpoints },
  reference,
}

/**
 * The benchmarks that a name selects: its own, or those of a group (`sandboxes`). Empty for an unknown name.
 */
export function selectBenchmarks(name: string): string[] {
  if (Object.hasOwn(benchmarks, name)) return [name]
  return Object.keys(benchmarks).filter((other) => other.startsWith(`${name}-`) || other.endsWith(`-${name}`))
}
