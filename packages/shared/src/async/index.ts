export { ByteBudget, ByteBudgetError, type ByteBudgetOptions, type ByteLease } from './byte-budget.ts'
export { KeyedMutex, Mutex } from './keyed-mutex.ts'
export { OpenedOnce } from './opened-once.ts'
export { raceAbort } from './race-abort.ts'
export {
  type AnswerEnd,
  AnswerTooLongError,
  limitAnswer,
  maxAnswerBytes,
  readJson,
  readLimited,
  readText,
} from './read-limited.ts'
export { Semaphore } from './semaphore.ts'
export { KeyedSignal, Signal, Waiter } from './signal.ts'
export { Turnstile } from './turnstile.ts'
