import { mayAnswer, type Request } from '@slipway/http'
import type { Route } from '@slipway/protocol'
import { noAnswerHeader } from '@slipway/protocol/client'

/** Whether a message or a run may be the answer to what waits for a person. */
export function answersQuestions({ caller, header }: Pick<Request<Route>, 'caller' | 'header'>): boolean {
  return mayAnswer(caller) && header(noAnswerHeader) === undefined
}
