import { performance } from 'node:perf_hooks'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

const checkIntervalMs = 1_000
/** Of a second in which nobody is kept waiting by a short stop. */
const maxIdleUtilization = 0.05

/**
 * Lets the heap double before all of it is looked through again: V8 lets a small one grow by a fraction, and the buffers of pages, which are
 * outside of it, count. To be called before anything is loaded.
 */
export function relaxHeapGrowth(): void {
  setFlagsFromString('--heap-growing-percent=100')
}

/**
 * Gives back, once and in the first calm second, the memory that loading a program took and that it needs no more: about a fifth of an idle
 * server, which V8 would keep for as long as nothing new is made. The space of new objects is small again then, so that the buffers of pages are
 * found by looking at little, and grows when what is made lives longer. The process stands still for about a tenth of a second. Ends
 * by itself and keeps no process alive.
 */
export function shrinkHeapWhenIdle(): Disposable {
  let previous = performance.eventLoopUtilization()
  const timer = setInterval(() => {
    const current = performance.eventLoopUtilization()
    const { utilization } = performance.eventLoopUtilization(current, previous)
    previous = current
    if (utilization > maxIdleUtilization) return
    clearInterval(timer)
    collectGarbage()
  }, checkIntervalMs).unref()
  return { [Symbol.dispose]: () => clearInterval(timer) }
}

/** The thorough collection that V8 does before it gives up; only a flag shows it to programs. */
export function collectGarbage(): void {
  setFlagsFromString('--expose-gc')
  const gc: unknown = runInNewContext('gc')
  setFlagsFromString('--no-expose-gc')
  if (typeof gc === 'function') gc({ type: 'major', flavor: 'last-resort' })
}
