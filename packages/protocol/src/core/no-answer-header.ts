/**
 * With it a run or a message is no answer to what waits for a person: then it is refused with 403. It takes a
 * right away, so any caller may send it.
 */
export const noAnswerHeader = 'x-slipway-no-answer'
