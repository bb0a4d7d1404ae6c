import { mayAnswer, type Request } from '@slipway/http'
import type { Route } from '@slipway/protocol'

/** Set on requests that are passed on for a key that answers no question. */
export const noAnswerHeader = 'x-slipway-no-answer'

/** Whether a message or a run may be the answer to what waits for a person. */
export function answersQuestions({ caller, header }: Pick<Request<Route>, 'caller' | 'header'>): boolean {
  return mayAnswer(caller) && header(noAnswerHeader) === undefined
}
