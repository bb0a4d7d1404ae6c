import { performance } from 'node:perf_hooks'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { loadLibc } from '@slipway/shared/process'
import { type Clock, repeat, type Timer } from '@slipway/shared/time'

const checkIntervalMs = 1_000
/** Event loop utilization of an idle second, in which a short stop delays no request. */
const maxIdleUtilization = 0.05
/** Idle seconds in a row after which memory of work that is over is released. */
const idleSecondsAfterWork = 3
/** Until threads that end, and those that free what a collection has found, have done so. */
const trimDelayMs = 500
/** A start takes less: what works for longer before its first idle second has more to release. */
const maxLoadingSeconds = 3
/** Less than that is not worth a stop. */
const minGrowthBytes = 16 * 1024 * 1024

/**
 * Lets the heap double before the next full collection; V8 grows a small heap by a fraction. Call it before
 * modules load.
 */
export function relaxHeapGrowth(): void {
  setFlagsFromString('--heap-growing-percent=100')
}

/**
 * Releases the memory of loading, about a fifth of an idle server, in the first idle second, and that of work
 * which made the process grow, after three idle seconds: V8 collects as memory is asked for, and an idle
 * server asks for none; the allocator of the C library keeps what was freed between what is in use. Each stops
 * the process for about 0.1 s. The young generation is small again after it, so page buffers are collected
 * cheaply. `release` is awaited before the collection after work. The timers do not keep the process alive.
 */
export function shrinkHeapWhenIdle(clock: Clock, release: () => Promise<void> = async () => {}): Disposable {
  let previous = performance.eventLoopUtilization()
  let idleSeconds = 0
  let busySeconds = 0
  let smallest: number | undefined
  let trimTimer: Timer | undefined
  let isReleasing = false
  const trim = async () => {
    const libc = await loadLibc()
    libc?.trimMemory()
    smallest = process.memoryUsage.rss()
  }
  const collect = () => {
    collectGarbage()
    smallest = process.memoryUsage.rss()
    trimTimer = clock.schedule(trimDelayMs, () => void trim(), { ref: false })
  }
  const timer = repeat(clock, checkIntervalMs, () => {
    const current = performance.eventLoopUtilization()
    const { utilization } = performance.eventLoopUtilization(current, previous)
    previous = current
    const isBusy = utilization > maxIdleUtilization
    idleSeconds = isBusy ? 0 : idleSeconds + 1
    busySeconds += Number(isBusy)
    if (idleSeconds === 0 || isReleasing) return
    if (smallest === undefined && busySeconds <= maxLoadingSeconds) return collect()
    const size = process.memoryUsage.rss()
    // Without a size at rest all of it counts as growth.
    smallest = Math.min(smallest ?? 0, size)
    if (idleSeconds < idleSecondsAfterWork || size < smallest + minGrowthBytes) return
    isReleasing = true
    void release()
      .catch(() => {})
      .then(() => {
        isReleasing = false
        collect()
      })
  })
  return {
    [Symbol.dispose]() {
      timer.cancel()
      trimTimer?.cancel()
    },
  }
}

/** The thorough collection that V8 does before it gives up; only a flag shows it to programs. */
export function collectGarbage(): void {
  setFlagsFromString('--expose-gc')
  const gc: unknown = runInNewContext('gc')
  setFlagsFromString('--no-expose-gc')
  if (typeof gc === 'function') gc({ type: 'major', flavor: 'last-resort' })
}
