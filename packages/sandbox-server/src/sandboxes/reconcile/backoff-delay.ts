/** A delay that grows from the first to the longest by a factor with each repetition. */
export function backoffDelay(
  [first, longest]: readonly [first: number, longest: number],
  factor: number,
  repeats: number,
): number {
  return Math.min(longest, first * factor ** Math.min(repeats, 100))
}
