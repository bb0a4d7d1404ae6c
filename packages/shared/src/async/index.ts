export { KeyedMutex, Mutex } from './keyed-mutex.ts'
export { raceAbort } from './race-abort.ts'
export { Semaphore } from './semaphore.ts'
export { KeyedSignal, Signal, Waiter } from './signal.ts'
