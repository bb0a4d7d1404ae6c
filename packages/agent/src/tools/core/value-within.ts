import { setTimeout as delay } from 'node:timers/promises'

/** The value of a promise; undefined when it rejects or takes longer. */
export async function valueWithin<T>(ms: number, promise: Promise<T>): Promise<T | undefined> {
  return await Promise.race([promise.catch(() => undefined), delay(ms, undefined, { ref: false })])
}
