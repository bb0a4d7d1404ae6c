export { type Clock, repeat, type SleepOptions, systemClock, type Timer, type TimerOptions } from './clock.ts'
export { maxTimerMs } from './max-timer.ts'
