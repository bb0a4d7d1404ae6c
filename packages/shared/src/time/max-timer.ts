/** Longest delay of a timer in milliseconds; a longer one fires at once. */
export const maxTimerMs = 2 ** 31 - 1
