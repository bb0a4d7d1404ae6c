import { Turnstile } from '@slipway/shared/async'

/** A step and a reply take up to half a millisecond each. */
const maxPerTurn = 32

/** For the steps and replies of all runs of the process: many of them may come in the same moment. */
export const runTurns = new Turnstile(maxPerTurn)
